package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/control"
)

// Size of a chart's drawing; the page scales it.
const (
	chartWidth  = 1000
	chartHeight = 100
	// colours is how many series are drawn apart; the rest is one more.
	colours = 6
	// maxBack bounds how far back a link may ask.
	maxBack = 1000
)

// period is a length of time that charts show.
type period struct {
	Name  string // in the address: "1h"
	Title string
	unit  string
	step  time.Duration
	bins  int // of the unit
	group int // of them in one bar
}

var periods = []period{
	{"1h", "1 h", "minute", time.Minute, 60, 1},
	{"24h", "24 h", "hour", time.Hour, 24, 1},
	{"7d", "7 d", "hour", time.Hour, 7 * 24, 2},
	{"90d", "90 d", "day", 24 * time.Hour, 90, 1},
	{"1y", "1 y", "day", 24 * time.Hour, 52 * 7, 7},
}

// from is the begin of the period that ended so many of its lengths ago; the
// bin that runs is in the one that ended none ago.
func (p period) from(now time.Time, back int) time.Time {
	return now.Truncate(p.step).Add(-time.Duration(p.bins*(back+1)-1) * p.step)
}

// when names the bar that begins at t. Days are those of UTC, as they are
// counted.
func (p period) when(t time.Time) string {
	switch p.unit {
	case "minute":
		return t.Local().Format("15:04")
	case "hour":
		return t.Local().Format("Jan 2 15:04")
	}
	return t.UTC().Format("2006-01-02")
}

// chart is one kind of count over a period, a bar for each bin and in it a
// layer for each series.
type chart struct {
	Name   string
	Layers []layer
	Hints  []hint
	Axis   []string // times, evenly spaced
	Top    uint64   // the tallest bar's count
	Now    uint64   // of the last bar
	All    uint64
	Said   string // in words, for who cannot see it
}

// layer is one series of a chart.
type layer struct {
	Name   string
	Colour int
	Path   string // all its bars
}

// hint is what a bar says when it is pointed at.
type hint struct {
	X, W int
	Text string
}

// drawn is a series with its colour.
type drawn struct {
	Name                     string
	Colour                   int
	Events, Breaches, Blocks []uint32
}

// coloured gives the first series colours of their own and adds up the rest.
func coloured(ss []control.TrendSeries, group, bins int) []drawn {
	var out []drawn
	for i, s := range ss {
		if i <= colours || len(ss) == colours+1 {
			out = append(out, drawn{Name: s.Name, Colour: min(i, colours), Events: make([]uint32, bins/group), Breaches: make([]uint32, bins/group), Blocks: make([]uint32, bins/group)})
		}
		d := &out[min(i, colours)]
		if i > colours {
			d.Name = "others"
		}
		for _, x := range [...]struct{ to, from []uint32 }{{d.Events, s.Events}, {d.Breaches, s.Breaches}, {d.Blocks, s.Blocks}} {
			for j := range min(len(x.from), bins) {
				x.to[j/group] += x.from[j]
			}
		}
	}
	return out
}

// newChart draws the counts that of gives of each series.
func newChart(name string, p period, from time.Time, ss []drawn, of func(drawn) []uint32) chart {
	c := chart{Name: name}
	bars := p.bins / p.group
	totals := make([]uint64, bars)
	for _, s := range ss {
		for i, n := range of(s) {
			totals[i] += uint64(n)
			c.All += uint64(n)
		}
	}
	begin := func(bar int) time.Time { return from.Add(time.Duration(bar*p.group) * p.step) }
	at := 0
	for i, n := range totals {
		if n > c.Top {
			c.Top, at = n, i
		}
	}
	c.Now = totals[bars-1]
	c.layers(ss, totals, of)
	for i, n := range totals {
		if n > 0 {
			c.Hints = append(c.Hints, hint{left(i, bars), left(i+1, bars) - left(i, bars), p.when(begin(i)) + ": " + breakdown(i, n, ss, of)})
		}
	}
	for i := range 5 {
		c.Axis = append(c.Axis, p.when(begin(i*(bars-1)/4)))
	}
	c.Said = fmt.Sprintf("%s from %s to %s: %d in total", name, c.Axis[0], c.Axis[4], c.All)
	if c.Top > 0 {
		c.Said += fmt.Sprintf(", at most %d, at %s", c.Top, p.when(begin(at)))
	}
	return c
}

// left is where a bar begins.
func left(i, bars int) int { return i * chartWidth / bars }

// layers stacks the series; what is not nothing is at least visible.
func (c *chart) layers(ss []drawn, totals []uint64, of func(drawn) []uint32) {
	height := func(n uint64) int {
		if n == 0 {
			return 0
		}
		return max(2, int(n*chartHeight/c.Top))
	}
	below := make([]uint64, len(totals))
	for _, s := range ss {
		var path strings.Builder
		for i, n := range of(s) {
			low := height(below[i])
			below[i] += uint64(n)
			if h := height(below[i]) - low; n > 0 && h > 0 {
				x := left(i, len(totals))
				w := max(1, left(i+1, len(totals))-x-2)
				fmt.Fprintf(&path, "M%d %dh%dv%dh-%dz", x, chartHeight-low, w, -h, w)
			}
		}
		if path.Len() > 0 {
			c.Layers = append(c.Layers, layer{s.Name, s.Colour, path.String()})
		}
	}
}

// breakdown says what one bar is made of.
func breakdown(i int, n uint64, ss []drawn, of func(drawn) []uint32) string {
	text := fmt.Sprint(n)
	var parts []string
	for _, s := range ss {
		if k := of(s)[i]; k > 0 && s.Name != "" {
			parts = append(parts, fmt.Sprintf("%s %d", s.Name, k))
		}
	}
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}

func events(d drawn) []uint32   { return d.Events }
func breaches(d drawn) []uint32 { return d.Breaches }
func blocks(d drawn) []uint32   { return d.Blocks }

// row is a line of the table below the charts.
type row struct {
	Name                     string
	Colour                   int
	Events, Breaches, Blocks uint64
}

func rowsOf(ss []drawn) (rows []row) {
	total := func(ns []uint32) (n uint64) {
		for _, x := range ns {
			n += uint64(x)
		}
		return n
	}
	for _, s := range ss {
		rows = append(rows, row{s.Name, s.Colour, total(s.Events), total(s.Breaches), total(s.Blocks)})
	}
	return rows
}

// option is a link among several of which one is chosen.
type option struct {
	Title, URL string
	Chosen     bool
}

func chartURL(span, by string, back int) string {
	q := url.Values{"span": {span}, "by": {by}}
	if back > 0 {
		q.Set("back", strconv.Itoa(back))
	}
	return "/charts?" + q.Encode()
}

// charts shows what happened in a period, by rule or by service.
func (s *site) charts(w http.ResponseWriter, r *http.Request, who *session) {
	p := periods[max(0, slices.IndexFunc(periods, func(p period) bool { return p.Name == trimmed(r, "span") }))]
	by := "rule"
	if trimmed(r, "by") == "service" {
		by = "service"
	}
	back, err := strconv.Atoi(r.URL.Query().Get("back"))
	if err != nil || back < 0 || back > maxBack {
		back = 0
	}
	v := struct {
		frame
		Still        bool // a refresh does not move it
		Periods, Bys []option
		By           string
		From, Until  time.Time
		Charts       []chart
		Rows         []row
		Before       string
		After        string
	}{frame: s.frame(r, who, "Charts"), Still: refreshing(r) && (back > 0 || p.unit != "minute"), By: by}
	if !v.Still {
		v.From = p.from(v.Now, back)
		v.Until = v.From.Add(time.Duration(p.bins) * p.step)
		t, err := s.daemon.Trend(r.Context(), control.TrendQuery{Unit: p.unit, From: v.From, Bins: p.bins})
		if err != nil {
			s.trouble(w, r, who, err)
			return
		}
		ss := t.Rules
		if by == "service" {
			ss = t.Services
		}
		all := coloured(ss, p.group, p.bins)
		v.Charts = []chart{newChart("Events", p, v.From, all, events), newChart("Breaches", p, v.From, all, breaches), newChart("New blocks", p, v.From, all, blocks)}
		v.Rows = rowsOf(all)
		if p.bins*(back+2) <= t.Kept {
			v.Before = chartURL(p.Name, by, back+1)
		}
	}
	if back > 0 {
		v.After = chartURL(p.Name, by, back-1)
	}
	for _, x := range periods {
		v.Periods = append(v.Periods, option{x.Title, chartURL(x.Name, by, 0), x.Name == p.Name})
	}
	for _, x := range []string{"rule", "service"} {
		v.Bys = append(v.Bys, option{"by " + x, chartURL(p.Name, x, back), x == by})
	}
	s.render(w, http.StatusOK, "charts.html", v)
}
