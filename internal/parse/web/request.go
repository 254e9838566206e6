package web

import (
	"bytes"
	"time"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// setRequest reads a request line (RFC 9112, section 3) into ev: method, path
// without query, query. What is no request line (bytes of another protocol, a
// word, nothing) leaves them empty. An absolute target ("http://h/p", a proxy
// request) gives its authority as Host, and CONNECT has no path; for both the
// field "target" holds the whole.
func setRequest(ev *event.Event, line []byte) {
	method, target := scan.Word(line)
	if !isMethod(method) || len(target) == 0 {
		return
	}
	if i := bytes.LastIndexByte(target, ' '); i >= 0 {
		if v := target[i+1:]; len(v) > 5 && (string(v[:5]) == "HTTP/" || string(v[:5]) == "RTSP/") {
			target = target[:i]
		}
	}
	ev.Method = method
	setTarget(ev, target)
}

func setTarget(ev *event.Event, target []byte) {
	if len(target) > 0 && target[0] != '/' {
		if string(ev.Method) == "CONNECT" {
			ev.Host = target
			ev.Fields = append(ev.Fields, event.Field{Name: "target", Value: target})
			return
		}
		if host, path, ok := absolute(target); ok {
			ev.Host = host
			ev.Fields = append(ev.Fields, event.Field{Name: "target", Value: target})
			target = path
		}
	}
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		ev.Query = target[i+1:]
		target = target[:i]
	}
	ev.Path = target
}

// absolute splits "scheme://host/path" before the path.
func absolute(target []byte) (host, path []byte, ok bool) {
	_, rest, ok := scan.Cut(target[:min(len(target), 12)], "://")
	if !ok {
		return nil, nil, false
	}
	rest = target[min(len(target), 12)-len(rest):]
	if i := bytes.IndexAny(rest, "/?"); i >= 0 {
		return rest[:i], rest[i:], true
	}
	return rest, nil, true
}

func isMethod(b []byte) bool {
	if len(b) == 0 || len(b) > 32 {
		return false
	}
	for _, c := range b {
		if c-'A' > 25 && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// clfStamp reads "10/Oct/2000:13:55:36 -0700", the stamp of access logs, at
// b's start; the zone may be missing, and fractions may follow the seconds.
func clfStamp(b []byte, loc *time.Location) (ns int64, rest []byte, ok bool) {
	if len(b) < 20 || b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' {
		return 0, b, false
	}
	day, month, year := num2(b), monthOf(b[3:6]), num2(b[7:])*100+num2(b[9:])
	h, m, s := num2(b[12:]), num2(b[15:]), num2(b[18:])
	if day < 1 || day > 31 || month == 0 || year < 1970 || year > 2200 || h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 60 {
		return 0, b, false
	}
	frac, rest := fraction(b[20:])
	if off, zoned := zoneOffset(rest); zoned {
		secs := days(year, month, day)*86400 + int64(h*3600+m*60+s) - off
		return secs*1e9 + frac, rest[6:], true
	}
	t := time.Date(year, time.Month(month), day, h, m, s, 0, loc)
	return t.UnixNano() + frac, rest, true
}

// num2 reads two digits; what is none gives a number below zero.
func num2(b []byte) int {
	hi, lo := b[0]-'0', b[1]-'0'
	if hi > 9 || lo > 9 {
		return -10000
	}
	return int(hi)*10 + int(lo)
}

func monthOf(b []byte) int {
	switch string(b) {
	case "Jan":
		return 1
	case "Feb":
		return 2
	case "Mar":
		return 3
	case "Apr":
		return 4
	case "May":
		return 5
	case "Jun":
		return 6
	case "Jul":
		return 7
	case "Aug":
		return 8
	case "Sep":
		return 9
	case "Oct":
		return 10
	case "Nov":
		return 11
	case "Dec":
		return 12
	}
	return 0
}

// fraction reads ".123" as nanoseconds.
func fraction(b []byte) (ns int64, rest []byte) {
	if len(b) == 0 || b[0] != '.' {
		return 0, b
	}
	unit, i := int64(1e9), 1
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		if unit >= 10 {
			unit /= 10
			ns += int64(b[i]-'0') * unit
		}
	}
	return ns, b[i:]
}

// zoneOffset reads " -0700" as seconds east of UTC.
func zoneOffset(b []byte) (int64, bool) {
	if len(b) < 6 || b[0] != ' ' || b[1] != '+' && b[1] != '-' {
		return 0, false
	}
	h, m := num2(b[2:]), num2(b[4:])
	if h < 0 || h > 15 || m < 0 || m > 59 {
		return 0, false
	}
	off := int64(h*3600 + m*60)
	if b[1] == '-' {
		off = -off
	}
	return off, true
}

// days counts from 1970-01-01, by the Gregorian calendar.
func days(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468)
}

// localStamp is a time in the zone of logs that tell none; ok is false when a
// field is out of range.
func localStamp(env *event.Message, year, month, day, h, m, s int) (ns int64, ok bool) {
	if year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 ||
		h < 0 || h > 23 || m < 0 || m > 59 || s < 0 || s > 60 {
		return 0, false
	}
	if env.Loc == time.UTC {
		return (days(year, month, day)*86400 + int64(h*3600+m*60+s)) * 1e9, true
	}
	return time.Date(year, time.Month(month), day, h, m, s, 0, env.Loc).UnixNano(), true
}
