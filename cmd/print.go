package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"stoplog/internal/rules"
)

// plain makes text of unknown origin safe to print on a terminal: anything
// that is not a printable character is shown as an escape, so that no log
// line, reason or error can move the cursor or recolour the screen.
func plain(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 && s[i] != '\n' || s[i] >= 0x7f {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || unicode.IsPrint(r):
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

// cell is plain on one line, cut to width characters.
func cell(s string, width int) string {
	s = strings.ReplaceAll(plain(s), "\n", `\n`)
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}

// jsonLines writes each value as a line of its own.
func jsonLines[T any](w io.Writer, vs []T) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, v := range vs {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// table prints rows under a header in aligned columns.
func table(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// fitted prints a table of so many columns of characters (0: any number): the
// last column is cut to what is left. Without room for it, it is left out.
func fitted(w io.Writer, header []string, rows [][]string, columns int) error {
	last := len(header) - 1
	room := columns
	for i := range last {
		n := utf8.RuneCountInString(header[i])
		for _, r := range rows {
			n = max(n, utf8.RuneCountInString(r[i]))
		}
		room -= n + 2
	}
	if columns > 0 {
		cut := max(room, len(header[last]))
		if room < len(header[last]) && header[last] == "REASON" {
			header, cut = header[:last], 0
		}
		for i, r := range rows {
			r = slices.Clone(r[:len(header)])
			if cut > 0 {
				r[last] = cell(r[last], cut)
			}
			rows[i] = r
		}
	}
	return table(w, strings.Join(header, "\t"), rows)
}

// shortStamp is local time; on another day than now it has the date, in
// another year the year.
func shortStamp(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04 MST")
	case t.YearDay() != now.YearDay():
		return t.Format("Jan 2 15:04 MST")
	}
	return t.Format("15:04:05 MST")
}

// ago prints a span as a person would say it: 9m30s, 3h, 12d.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return rules.FormatDuration(d.Round(time.Second))
	case d < 48*time.Hour:
		return rules.FormatDuration(d.Round(time.Minute))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }
