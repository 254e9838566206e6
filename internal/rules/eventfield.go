package rules

import (
	"bytes"
	urlpath "path"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// fieldType is what may be asked of a field.
type fieldType uint8

const (
	textField fieldType = iota
	numberField
	addrField
)

type eventField struct {
	name, about string
	typ         fieldType
	web         bool // access logs alone have it
	read        reader
	eg          string
}

func textOf(get func(*parse.Event) []byte) reader {
	return func(ev *parse.Event, _ *source.Origin) (subject, bool) {
		v := get(ev)
		return subject{text: v}, v != nil
	}
}

// eventFields are the fields that `match` knows by name; outcome, kind,
// service and known_good are indexed and read elsewhere.
func eventFields() []eventField {
	return []eventField{
		{"user", "user name", textField, false, textOf(func(e *parse.Event) []byte { return e.User }), `root`},
		{"message", "text of the line after the syslog header", textField, false, textOf(func(e *parse.Event) []byte { return e.Message }), `"*denied*"`},
		{"method", "HTTP method: GET, POST…", textField, true, textOf(func(e *parse.Event) []byte { return e.Method }), `POST`},
		{"path", "path of the request, unescaped, without the query", textField, true, textOf(Path), `/wp-login.php`},
		{"query", "query of the request, as written", textField, true, textOf(func(e *parse.Event) []byte { return e.Query }), `"*union*"`},
		{"agent", "User-Agent of the request", textField, true, textOf(func(e *parse.Event) []byte { return e.Agent }), `"*sqlmap*"`},
		{"referrer", "Referer of the request", textField, true, textOf(func(e *parse.Event) []byte { return e.Referrer }), `"-"`},
		{"host", "host name of the web site", textField, false, textOf(func(e *parse.Event) []byte { return e.Host }), `www.example.org`},
		{"status", "HTTP status of the response: 401, 401-403, 4xx", numberField, true, readStatus, `[401, 403]`},
		{"ip", "the client's address", addrField, false, readAddr, `192.0.2.0/24`},
		{"source", "file name of the log, or journal", textField, false, readOrigin, `/srv/app/app.log`},
	}
}

func readStatus(ev *parse.Event, _ *source.Origin) (subject, bool) {
	return subject{num: int64(ev.Status)}, ev.Status != 0
}

func readAddr(ev *parse.Event, _ *source.Origin) (subject, bool) {
	return subject{addr: ev.Addr}, ev.Addr.IsValid()
}

func readOrigin(_ *parse.Event, o *source.Origin) (subject, bool) {
	if o == nil {
		return subject{}, false
	}
	return subject{text: []byte(o.Listed())}, true
}

func readCaptured(name string) reader {
	return func(ev *parse.Event, _ *source.Origin) (subject, bool) {
		v := Captured(ev, name)
		return subject{text: v}, v != nil
	}
}

func readParam(name string) reader {
	key := []byte(name)
	return func(ev *parse.Event, _ *source.Origin) (subject, bool) {
		v := Param(ev.Query, key)
		return subject{text: v}, v != nil
	}
}

// Captured returns the captured field of that name, nil when there is none.
func Captured(ev *parse.Event, name string) []byte {
	for i := range ev.Fields {
		if ev.Fields[i].Name == name {
			return ev.Fields[i].Value
		}
	}
	return nil
}

// Param returns the first value of a query parameter, unescaped; nil when it
// is not there, and empty when it is there without a value.
func Param(query, name []byte) []byte {
	for len(query) > 0 {
		pair, rest, _ := bytes.Cut(query, []byte("&"))
		query = rest
		k, v, _ := bytes.Cut(pair, []byte("="))
		if bytes.Equal(unescape(k, true), name) {
			if v == nil {
				v = []byte{}
			}
			return unescape(v, true)
		}
	}
	return nil
}

// Path returns the path as the server understands it: unescaped, without
// empty, "." and ".." parts, so that /./wp%2Dlogin.php is /wp-login.php. A
// plain path is returned as it is.
func Path(ev *parse.Event) []byte {
	p := ev.Path
	if len(p) == 0 || p[0] != '/' || !odd(p) {
		return p
	}
	u := unescape(p, false)
	clean := urlpath.Clean(string(u))
	if len(clean) > 1 && u[len(u)-1] == '/' {
		clean += "/"
	}
	return []byte(clean)
}

// odd reports whether p holds an escape, "//" or "/.".
func odd(p []byte) bool {
	if bytes.IndexByte(p, '%') >= 0 {
		return true
	}
	for i := 1; i < len(p); i++ {
		if p[i-1] == '/' && (p[i] == '/' || p[i] == '.') {
			return true
		}
	}
	return false
}

// unescape resolves %41 once (and + as a space where plus says so). A broken
// escape stays as it is. Without escapes b itself is returned.
func unescape(b []byte, plus bool) []byte {
	if bytes.IndexByte(b, '%') < 0 && !(plus && bytes.IndexByte(b, '+') >= 0) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '%' && i+2 < len(b) {
			hi, lo := unhex(b[i+1]), unhex(b[i+2])
			if hi >= 0 && lo >= 0 {
				c, i = byte(hi<<4|lo), i+2
			}
		} else if c == '+' && plus {
			c = ' '
		}
		out = append(out, c)
	}
	return out
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
