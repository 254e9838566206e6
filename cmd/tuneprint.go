package cmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"stoplog/internal/tune"
)

// tuneSetting is the shape of a setting in `tune --json`.
type tuneSetting struct {
	Type string `json:"type"`
	tune.Tried
}

// tuneReport is the shape of the last line.
type tuneReport struct {
	Type string `json:"type"`
	*tune.Report
	Settings  int `json:"settings"`
	Today     int `json:"today"`     // of the settings before, from 0
	Proposal  int `json:"proposal"`  // -1: none
	Candidate int `json:"candidate"` // compared with today's; -1: none
}

func tuneJSON(w *bufio.Writer, r *tune.Report, _ int) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, t := range r.Tried {
		if err := enc.Encode(tuneSetting{"setting", t}); err != nil {
			return err
		}
	}
	return enc.Encode(tuneReport{"tune", r, len(r.Tried), r.Today, r.Proposal, r.Candidate})
}

// tuneText prints a report for a terminal of so many columns, 0 for none.
func tuneText(w *bufio.Writer, r *tune.Report, columns int) error {
	if r.Rule != "" {
		tuneHead(w, r)
	}
	for _, t := range r.Warnings {
		fmt.Fprintf(w, "Warning: %s\n", plain(t))
	}
	for _, t := range r.Notes {
		fmt.Fprintf(w, "Note: %s\n", plain(t))
	}
	if len(r.Tried) > 1 {
		fmt.Fprintln(w)
		if err := tuneTable(w, r); err != nil {
			return err
		}
		fmt.Fprintln(w)
		tunePlot(w, r, columns)
	}
	fmt.Fprintf(w, "\n%s %s\n", verdictText(r.Verdict), plain(r.Why))
	if r.Stopped {
		fmt.Fprintln(w, "The search was stopped; this is what was known by then.")
	}
	if r.Proposal >= 0 {
		fmt.Fprintf(w, "\nWhat changes in rule %s:\n", plain(r.Rule))
		for _, l := range r.Diff {
			fmt.Fprintf(w, "    %s\n", plain(l))
		}
		fmt.Fprintf(w, "\nTo use it, put this into the rules and run stoplog check and stoplog reload:\n\n%s", plain(r.Paste))
	}
	return nil
}

func verdictText(v tune.Verdict) string {
	switch v {
	case tune.Propose:
		return "A better setting was found."
	case tune.NoDifference, tune.Best, tune.Worse:
		return "Keep today's setting."
	}
	return "No proposal."
}

func tuneHead(w *bufio.Writer, r *tune.Report) {
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	fmt.Fprintf(w, "Rule %s, on %d lines: %d events kept in %s of memory, %d of them match the rule.\n", plain(r.Rule), r.Lines, r.Events, megabytes(r.Memory), r.Matched)
	if len(r.Others) > 0 {
		fmt.Fprintf(w, "As they are: %s.\n", plain(strings.Join(r.Others, ", ")))
	}
	if r.Events > 0 {
		fmt.Fprintf(w, "Settings are chosen on %s to %s, and judged on the rest, to %s (UTC).\n", day(r.Begin), day(r.Split), day(r.End))
	}
	l := r.Labels
	fmt.Fprintf(w, "%s: %d attackers (fail, never succeed), %d good (succeed, fail at most 3 × that + 10), %d neither.\n", plural(l.Sources, "source"), l.Attackers, l.Good, l.Neither)
	if len(r.Tried) > 1 {
		fmt.Fprintf(w, "%d settings in %.1f s.\n", len(r.Tried), r.Took)
	}
}

// maxFront is how many settings of the front are listed.
const maxFront = 12

// tuneTable lists the front, today's setting and the candidate.
func tuneTable(w *bufio.Writer, r *tune.Report) error {
	var rows [][]string
	row := func(i int) {
		t := &r.Tried[i]
		mark := ""
		switch {
		case t.Today:
			mark = "today"
		case t.Proposal:
			mark = "proposal"
		case i == r.Candidate:
			mark = "candidate"
		}
		rows = append(rows, []string{
			fmt.Sprint(t.First.Let), fmt.Sprintf("%d of %d", t.First.Refused, t.First.Hit), fmt.Sprint(t.Rest.Let), fmt.Sprintf("%d of %d", t.Rest.Refused, t.Rest.Hit), mark, cell(changesText(t), 100),
		})
	}
	n := 0
	for i := range r.Tried {
		if t := &r.Tried[i]; t.Today || i == r.Candidate {
			row(i)
		} else if t.Front && n < maxFront {
			n++
			row(i)
		}
	}
	t := r.Tried[r.Today]
	fmt.Fprintf(w, "Of %d attempts and %d good logins in the first 70 %% of the time, and %d and %d in the rest. The front: settings\nthat no other beats in attempts let through and good logins refused.\n\n", t.First.Attempts, t.First.Logins, t.Rest.Attempts, t.Rest.Logins)
	return table(w, "LET THROUGH\tREFUSED, SOURCES\tREST: LET THROUGH\tREFUSED, SOURCES\t\tSETTING", rows)
}

func changesText(t *tune.Tried) string {
	if len(t.Changes) == 0 {
		return "as it is"
	}
	var out []string
	for _, c := range t.Changes {
		out = append(out, fmt.Sprintf("%s %s", c.What, c.To))
	}
	return strings.Join(out, ", ")
}

// tunePlot draws the settings: attempts let through, on a log scale, against good
// logins refused.
func tunePlot(w *bufio.Writer, r *tune.Report, columns int) {
	const height = 12
	if columns <= 0 {
		columns = 80
	}
	wide := min(max(columns-12, 20), 100)
	grid := make([][]rune, height)
	for y := range grid {
		grid[y] = []rune(strings.Repeat(" ", wide))
	}
	low, high, most := math.Inf(1), 0.0, 1.0
	log := func(n int) float64 { return math.Log10(float64(max(n, 1))) }
	for i := range r.Tried {
		t := &r.Tried[i]
		let, refused := t.First.Let+t.Rest.Let, t.First.Refused+t.Rest.Refused
		low, high, most = min(low, log(let)), max(high, log(let)), max(most, float64(refused))
	}
	put := func(i int, c rune) {
		t := &r.Tried[i]
		y := 0
		if high > low {
			y = int(math.Round((high - log(t.First.Let+t.Rest.Let)) / (high - low) * (height - 1)))
		}
		// A root, so that few are told apart where most settings are.
		x := int(math.Round(math.Sqrt(float64(t.First.Refused+t.Rest.Refused)/most) * float64(wide-1)))
		grid[y][x] = c
	}
	for i := range r.Tried {
		put(i, '·')
	}
	for i := range r.Tried {
		if r.Tried[i].Front {
			put(i, 'o')
		}
	}
	if r.Candidate >= 0 {
		put(r.Candidate, 'P')
	}
	put(r.Today, 'T')
	fmt.Fprintln(w, "attempts let through (log scale)   T today   P best by the first 70 %   o front")
	for y, line := range grid {
		label := ""
		if y == 0 || y == height-1 || y == height/2 {
			label = fmt.Sprintf("%.0f", math.Pow(10, high-(high-low)*float64(y)/(height-1)))
		}
		fmt.Fprintf(w, "%9s │%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(w, "%9s └%s\n", "", strings.Repeat("─", wide))
	fmt.Fprintf(w, "%9s  0%*s\n", "", wide-1, fmt.Sprintf("%.0f good logins refused", most))
}
