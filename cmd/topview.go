package cmd

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"stoplog/internal/control"
)

// Marks of SGR (ECMA-48); none is a colour, so that any look can be read.
const (
	sgrBold    = "\x1b[1m"
	sgrReverse = "\x1b[7m"
	sgrOff     = "\x1b[0m"
)

// View draws the screen.
func (m top) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

// text has never more lines or columns than the terminal.
func (m top) text() string {
	if m.story != nil {
		return m.storyText()
	}
	now := m.seen.live.Now
	if now.IsZero() {
		now = time.Now()
	}
	lines := m.head(now)
	room := max(2, m.height-len(lines)-5) // two headings, a gap, the prompt, the keys
	full := min(len(m.seen.live.Fullest), room/3)
	lines = append(lines, m.heading(!m.buckets, m.blocksHeading()))
	lines = append(lines, m.list(!m.buckets, m.blockRows(now), room-full)...)
	lines = append(lines, "", m.heading(m.buckets, "CLOSE TO A BLOCK"))
	lines = append(lines, m.list(m.buckets, m.bucketRows(), full)...)
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines[:min(len(lines), max(0, m.height-2))], m.bottom()...)
	return strings.Join(lines, "\n")
}

// storyLines are all that is known of a prefix, cut to so many columns.
func storyLines(x control.Explanation, columns int) []string {
	var b strings.Builder
	if err := printExplanation(&b, x, time.Now(), columns); err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = cell(lines[i], columns)
	}
	return lines
}

func (m top) storyText() string {
	page := max(1, m.height-2)
	lines := append([]string{}, m.story[min(m.from, len(m.story)):min(m.from+page, len(m.story))]...)
	for len(lines) < page {
		lines = append(lines, "")
	}
	lines[0] = sgrBold + cell(lines[0], m.width) + sgrOff
	return strings.Join(append(lines, "", cell("↑↓ scroll  esc back", m.width)), "\n")
}

// head returns how the daemon is, and the rates.
func (m top) head(now time.Time) []string {
	s := m.seen.status
	first := fmt.Sprintf("stoplog is %s", s.State)
	switch {
	case m.seen.err != nil:
		first = m.seen.err.Error()
	case s.State == "":
		first = "asking…"
	case s.DryRun:
		first += ", dry run"
	}
	first += fmt.Sprintf("  %d blocked  %d lines, %d understood  up %s  %.1f MB", m.seen.found.Total, s.Lines, s.Events, ago(now.Sub(s.Started)), float64(s.MemoryKiB)/1024)
	if s.Started.IsZero() {
		first, _, _ = strings.Cut(first, "  ")
	}
	lines := []string{sgrBold + cell(first, m.width) + sgrOff}
	for i, t := range s.Trouble {
		if i == 3 {
			break
		}
		lines = append(lines, cell("! "+t, m.width))
	}
	return append(lines, "",
		m.rate("events/min", func(x control.Minute) uint64 { return x.Events }),
		m.rate("blocks/min", func(x control.Minute) uint64 { return x.Blocks }), "")
}

// rate draws the last hour, as much of it as fits.
func (m top) rate(name string, of func(control.Minute) uint64) string {
	ms := m.seen.live.Minutes
	ms = ms[max(0, len(ms)-max(0, m.width-36)):]
	ns, most, last := make([]int, len(ms)), uint64(0), uint64(0)
	for i, x := range ms {
		last = of(x)
		ns[i], most = int(last), max(most, last)
	}
	return cell(fmt.Sprintf("%s  %s  now %d, most %d", name, spark(ns), last, most), m.width)
}

func (m top) heading(here bool, text string) string {
	if here {
		return sgrBold + "▸ " + cell(text, m.width-2) + sgrOff
	}
	return "  " + cell(text, m.width-2)
}

func (m top) blocksHeading() string {
	if m.search != "" {
		return fmt.Sprintf("NEWEST BLOCKS with %q: %d of %d (esc: all)", m.search, m.seen.found.Matches, m.seen.found.Total)
	}
	return fmt.Sprintf("NEWEST BLOCKS (%d)", m.seen.found.Total)
}

func (m top) blockRows(now time.Time) []string {
	rows := make([]string, len(m.seen.found.Blocks))
	for i, b := range m.seen.found.Blocks {
		rows[i] = fmt.Sprintf("%-24s %-18s %5d  in %-8s %s", b.Prefix, cell(b.Rule, 18), b.Count, ago(b.Until.Sub(now)), b.Reason)
	}
	return rows
}

func (m top) bucketRows() []string {
	rows := make([]string, len(m.seen.live.Fullest))
	for i, l := range m.seen.live.Fullest {
		n := min(int(l.Level), l.Capacity)
		rows[i] = fmt.Sprintf("%-24s %-18s %3.0f of %-4d %s", cell(l.Key, 24), cell(l.Rule, 18), l.Level, l.Capacity, bars(n, l.Capacity, 20))
	}
	return rows
}

// list draws n rows, around the chosen one when keys work here.
func (m top) list(here bool, rows []string, n int) []string {
	from := 0
	if here && m.row >= n {
		from = m.row - n + 1
	}
	out := []string{}
	for i := from; i < len(rows) && len(out) < n; i++ {
		text := cell("  "+rows[i], m.width)
		if here && i == m.row {
			text = sgrReverse + text + sgrOff
		}
		out = append(out, text)
	}
	return out
}

// bottom is what is being typed or was said, and the keys.
func (m top) bottom() []string {
	keys := "tab other list  ↑↓ choose  enter all about it  u unblock  b block  a allow  / search  q quit"
	line := cell(m.notice, m.width)
	if m.prompt != "" {
		wants := map[string]string{"block": "ADDR [TIME] [REASON]", "unblock": "ADDR", "allow": "ADDR [TIME] [REASON]", "search": "address or words"}[m.prompt]
		keys = "enter: do it  esc: leave it  ctrl-u: clear    " + wants
		if m.notice != "" {
			keys = m.notice
		}
		line = cell(m.prompt+": "+string(m.input), m.width-1) + "█"
	}
	return []string{line, cell(keys, m.width)}
}
