package cmd

import (
	"bufio"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"stoplog/internal/parse"
)

// printer returns what shows one event: a JSON object a line, or words, in
// colour on a terminal. With fields it shows all that rules can match.
func printer(e *env, w *bufio.Writer, fields bool) func(n int, ev *parse.Event, line []byte) error {
	if e.json {
		var buf []byte
		return func(n int, ev *parse.Event, _ []byte) error {
			buf = appendEvent(buf[:0], n, ev)
			if fields {
				buf = appendMore(buf[:len(buf)-2], ev)
			}
			_, err := w.Write(buf)
			return err
		}
	}
	paint := e.paint()
	return func(n int, ev *parse.Event, _ []byte) error {
		text := eventText(n, ev, paint)
		if fields {
			text += moreText(ev)
		}
		_, err := w.WriteString(text)
		return err
	}
}

// appendEvent writes the stable shape of `parse --json` and a newline.
func appendEvent(b []byte, n int, ev *parse.Event) []byte {
	b = fmt.Appendf(b, `{"line":%d`, n)
	if ev.Time != 0 {
		b = append(b, `,"time":"`...)
		b = time.Unix(0, ev.Time).UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	b = append(b, `,"ip":`...)
	if ev.Addr.IsValid() {
		b = append(b, '"')
		b = ev.Addr.AppendTo(b)
		b = append(b, '"')
	} else {
		b = append(b, "null"...)
	}
	b = appendText(b, "service", []byte(ev.Service))
	b = appendText(b, "outcome", []byte(ev.Outcome.String()))
	for _, f := range eventFields(ev) {
		b = appendText(b, f.name, f.value)
		if f.name == "path" && ev.Status != 0 {
			b = fmt.Appendf(b, `,"status":%d`, ev.Status)
		}
	}
	return append(b, '}', '\n')
}

// appendMore continues an object of appendEvent with the message and, in an
// object of their own, the captured fields: their names are the log's.
func appendMore(b []byte, ev *parse.Event) []byte {
	b = appendText(b, "message", ev.Message)
	if len(ev.Fields) > 0 {
		b = append(b, `,"fields":{`...)
		start := len(b)
		for _, f := range ev.Fields {
			key := appendText(nil, "", []byte(f.Name)) // ,"":"name"
			if len(key) < 5 || len(f.Value) == 0 {
				continue
			}
			value := appendText(nil, "", f.Value)
			b = append(append(append(append(b, ','), key[4:]...), ':'), value[4:]...)
		}
		if len(b) > start {
			b = append(b[:start], b[start+1:]...)
		}
		b = append(b, '}')
	}
	return append(b, '}', '\n')
}

// moreText is appendMore in words, a line each.
func moreText(ev *parse.Event) string {
	var b strings.Builder
	if len(ev.Message) > 0 {
		fmt.Fprintf(&b, "        message=%s\n", cell(string(ev.Message), 400))
	}
	for _, f := range ev.Fields {
		fmt.Fprintf(&b, "        fields.%s=%s\n", cell(f.Name, 60), cell(string(f.Value), 400))
	}
	return b.String()
}

type eventField struct {
	name  string
	value []byte
}

func eventFields(ev *parse.Event) []eventField {
	fs := []eventField{
		{"kind", []byte(ev.Kind.String())}, {"user", ev.User}, {"method", ev.Method}, {"path", ev.Path}, {"query", ev.Query},
		{"agent", ev.Agent}, {"referrer", ev.Referrer}, {"host", ev.Host},
	}
	kept := fs[:0]
	for _, f := range fs {
		if len(f.value) > 0 || f.name == "path" && ev.Status != 0 {
			kept = append(kept, f)
		}
	}
	return kept
}

const hexDigits = "0123456789abcdef"

// appendText writes ,"name":"text" with text as a JSON string (RFC 8259);
// bytes that are no UTF-8 become the replacement character.
func appendText(b []byte, name string, text []byte) []byte {
	if len(text) == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, `":"`...)
	for i := 0; i < len(text); {
		c := text[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			b = append(b, c)
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = appendEscape(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		// Line separators end a line in JavaScript's eyes (U+2028, U+2029).
		if r == '\u2028' || r == '\u2029' || r == utf8.RuneError || r < 0xa0 {
			b = append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		} else {
			b = append(b, text[i:i+n]...)
		}
		i += n
	}
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\t':
		return append(b, '\\', 't')
	case '\n':
		return append(b, '\\', 'n')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// Colours of SGR (ECMA-48).
var colours = map[parse.Outcome]string{parse.Failure: "\x1b[31m", parse.Success: "\x1b[32m", parse.Other: "\x1b[90m"}

// eventText is one event in words, its hostile text escaped.
func eventText(n int, ev *parse.Event, paint bool) string {
	var b strings.Builder
	at := "-"
	if ev.Time != 0 {
		at = time.Unix(0, ev.Time).Local().Format("2006-01-02 15:04:05")
	}
	addr := "-"
	if ev.Addr.IsValid() {
		addr = ev.Addr.String()
	}
	outcome := fmt.Sprintf("%-7s", ev.Outcome)
	if paint {
		outcome = colours[ev.Outcome] + outcome + "\x1b[0m"
		addr = "\x1b[36m" + addr + "\x1b[0m"
	}
	fmt.Fprintf(&b, "%6d  %s  %s  %-10s %s", n, at, outcome, plain(ev.Service), addr)
	for _, f := range eventFields(ev) {
		fmt.Fprintf(&b, "  %s=%s", f.name, cell(string(f.value), 80))
	}
	if ev.Status != 0 {
		fmt.Fprintf(&b, "  status=%d", ev.Status)
	}
	b.WriteByte('\n')
	return b.String()
}
