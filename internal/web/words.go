package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"stoplog/internal/control"
)

// words are what templates call.
func words() template.FuncMap {
	return template.FuncMap{
		"show": show, "lines": showLines, "span": span, "until": func(t, now time.Time) string { return span(t.Sub(now)) },
		"stamp": stamp, "clock": clock, "day": func(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }, "short": short, "iso": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"percent": percent, "kind": kind, "link": lookURL, "mb": func(kib int64) string { return fmt.Sprintf("%.1f MB", float64(kib)/1024) },
		"skew": func(ms int64) string { return (time.Duration(ms) * time.Millisecond).Round(time.Second).String() },
		"nav":  func() []place { return places }, "blocksAt": func(bs []control.Block, now time.Time) blocksAt { return blocksAt{bs, now} },
	}
}

// place is a page of the navigation.
type place struct{ Path, Name string }

var places = []place{{"/", "Overview"}, {"/blocks", "Blocks"}, {"/charts", "Charts"}, {"/history", "History"}, {"/allowed", "Allowed"}}

// blocksAt are blocks for a short table.
type blocksAt struct {
	Blocks []control.Block
	Now    time.Time
}

// showLines is show for text of several lines.
func showLines(s string) string {
	ls := strings.Split(s, "\n")
	for i, l := range ls {
		ls[i] = show(l)
	}
	return strings.Join(ls, "\n")
}

// show makes what cannot be seen visible, so that no log line looks like
// something else: control characters, marks that turn the direction of text,
// and bytes that are no text become escapes. Markup is the templates' care.
func show(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteString(s[i : i+n])
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// span is a time as a person would say it, rounded: 9 min, 3 h, 12 days.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0 s"
	case d < 90*time.Second:
		return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
	case d < 90*time.Minute:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d.Round(time.Hour)/time.Hour)
	}
	return fmt.Sprintf("%d days", d.Round(24*time.Hour)/(24*time.Hour))
}

// kind is the class of an audit entry, for its colour.
func kind(what string) string {
	switch what {
	case "block", "unblock", "allow":
		return what
	}
	return "other"
}

// Times are the server's local time, and say of which zone.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }
func clock(t time.Time) string { return t.Local().Format("15:04:05 MST") }

// short leaves out what is the same now: the day, or the year.
func short(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04 MST")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan 2 15:04 MST")
	}
	return clock(t)
}

// percent is how full a bucket is; what is over its capacity breaches.
func percent(level float64, capacity int) int {
	if capacity <= 0 {
		return 0
	}
	return min(100, int(100*level/float64(capacity)))
}
