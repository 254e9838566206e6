package tune

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
	"unicode"
)

//go:embed report.html
var reportPage string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"show":    show,
	"day":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	"percent": pct,
	"added":   func(s string) bool { return strings.HasPrefix(s, "+") },
	"sum":     func(t Tried) Count { c := t.First; c.add(t.Rest); return c },
	"mb":      func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) },
}).Parse(reportPage))

// show makes text of unknown origin safe to read: what cannot be seen is written
// as an escape.
func show(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// WriteHTML writes the report as one page, which needs no script and no other
// file.
func WriteHTML(w io.Writer, r *Report) error {
	v := view{Report: r, Title: headline(r)}
	for i := range r.Tried {
		if t := &r.Tried[i]; t.Today || t.Front && len(v.Rows) < 14 || i == r.Candidate {
			v.Rows = append(v.Rows, row{t, i == r.Candidate, settingText(t)})
		}
	}
	if len(r.Tried) > 1 {
		v.Front = drawFront(r)
	}
	if len(r.Figures.Cells) > 1 {
		v.Heat = drawHeat(r)
	}
	v.Before = drawCurves(r)
	if len(r.Figures.Levels) > 0 {
		v.Levels = drawLevels(r)
	}
	if len(r.Figures.Timeline) > 0 {
		v.Timeline = drawTimeline(r)
	}
	return page.Execute(w, v)
}

func headline(r *Report) string {
	switch r.Verdict {
	case Propose:
		return "A better setting was found"
	case NoDifference, Best, Worse:
		return "Keep today's setting"
	}
	return "No proposal"
}

func settingText(t *Tried) string {
	if len(t.Changes) == 0 {
		return "as it is"
	}
	var out []string
	for _, c := range t.Changes {
		out = append(out, c.What+" "+c.To)
	}
	return strings.Join(out, ", ")
}

type view struct {
	*Report
	Title    string
	Rows     []row
	Front    *plot
	Heat     *plot
	Before   *plot
	Levels   *plot
	Timeline *plot
}

type row struct {
	*Tried
	Candidate bool
	Setting   string
}

// Size of a figure; the page scales it. The axes leave room for their labels.
const (
	width, height            = 460.0, 320.0
	left, right, top, bottom = 62.0, 14.0, 14.0, 46.0
)

// plot is what a figure's template draws.
type plot struct {
	Said           string // in words
	XName, YName   string
	XTicks, YTicks []tick
	Rects          []rect
	Lines          []line
	Dots           []dot
	Texts          []text
	Grid           bool
}

type tick struct {
	At    float64
	Label string
}

type rect struct {
	X, Y, W, H float64
	Class      string
	Opacity    float64
	Title      string
}

type line struct{ Class, Points string }

type dot struct {
	X, Y, R float64
	Class   string
	Title   string
}

type text struct {
	X, Y   float64
	Class  string
	Anchor string
	Text   string
}

// Width, and so on, are the figure's for the template.
func (*plot) Width() float64  { return width }
func (*plot) Height() float64 { return height }
func (*plot) Left() float64   { return left }
func (*plot) Right() float64  { return width - right }
func (*plot) Top() float64    { return top }
func (*plot) Bottom() float64 { return height - bottom }

// x and y place a share of the axes.
func x(share float64) float64 { return round(left + share*(width-left-right)) }
func y(share float64) float64 { return round(height - bottom - share*(height-top-bottom)) }

func round(v float64) float64 { return math.Round(v*10) / 10 }

// logAxis spans so many values on a log scale.
func logAxis(low, high float64) (share func(float64) float64, ticks []tick) {
	low, high = math.Log10(max(low, 1)), math.Log10(max(high, 1))
	if high-low < .3 { // less than a doubling: room above and below
		low, high = max(low-.15, 0), high+.15
	}
	share = func(v float64) float64 { return (math.Log10(max(v, 1)) - low) / (high - low) }
	for e := math.Floor(low); e <= math.Ceil(high); e++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow(10, e)
			wanted := m == 1 || high-low < 2 && (m == 2 || m == 5) || high-low < .7
			if s := share(v); wanted && s >= -1e-9 && s <= 1+1e-9 {
				ticks = append(ticks, tick{s, number(v)})
			}
		}
	}
	return share, ticks
}

func number(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}

// whole is a count that has little room.
func whole(n int) string {
	if n >= 100_000 {
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// steps125 are round numbers up to most, about five of them.
func steps125(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
	for _, m := range []float64{.2, .5, 1} {
		if most/(step*m) <= 6 {
			step *= m
			break
		}
	}
	step = max(step, 1)
	var out []float64
	for v := 0.0; v <= most+1e-9; v += step {
		out = append(out, v)
	}
	return out
}

func place(ticks []tick, at func(float64) float64) []tick {
	for i := range ticks {
		ticks[i].At = at(ticks[i].At)
	}
	return ticks
}

// drawFront draws each setting: attempts let through against good logins refused.
func drawFront(r *Report) *plot {
	p := &plot{XName: "good logins refused", YName: "attempts let through", Grid: true}
	low, high, most := math.Inf(1), 1.0, 1.0
	both := make([]Count, len(r.Tried))
	for i, t := range r.Tried {
		c := t.First
		c.add(t.Rest)
		both[i] = c
		low, high, most = min(low, float64(c.Let)), max(high, float64(c.Let)), max(most, float64(c.Refused))
	}
	ys, yt := logAxis(low, high)
	// A root tells few refusals apart, and has room for many.
	xs := func(n float64) float64 { return .03 + .94*math.Sqrt(n/most) }
	for _, v := range steps125(most) {
		if v == 0 || xs(v)-xs(0) > .12 {
			p.XTicks = append(p.XTicks, tick{x(xs(v)), number(v)})
		}
	}
	p.YTicks = place(yt, y)
	at := func(i int) (float64, float64) { return x(xs(float64(both[i].Refused))), y(ys(float64(both[i].Let))) }
	for i := range r.Tried {
		t := &r.Tried[i]
		class, size := "dot", 3.0
		if t.Front {
			class, size = "dot front", 4
		}
		px, py := at(i)
		p.Dots = append(p.Dots, dot{px, py, size, class, fmt.Sprintf("%s: %d let through, %d refused", settingText(t), both[i].Let, both[i].Refused)})
	}
	mark := func(i int, class, name string) {
		px, py := at(i)
		p.Dots = append(p.Dots, dot{px, py, 7, class, name})
		label := text{px + 11, py + 4, "label " + class, "start", name}
		if px > left+.75*(width-left-right) {
			label.X, label.Anchor = px-11, "end"
		}
		p.Texts = append(p.Texts, label)
	}
	mark(r.Today, "today", "today")
	if r.Candidate >= 0 {
		name := "best"
		if r.Proposal >= 0 {
			name = "proposal"
		}
		mark(r.Candidate, "proposal", name)
	}
	t := both[r.Today]
	p.Said = fmt.Sprintf("%d settings. Today's lets %d attempts through and refuses %d good logins.", len(r.Tried), t.Let, t.Refused)
	if r.Candidate >= 0 {
		c := both[r.Candidate]
		p.Said += fmt.Sprintf(" The best by the first 70 %% of the time lets %d through and refuses %d.", c.Let, c.Refused)
	}
	return p
}

// drawHeat draws what the main bucket's capacity and leak do, the rest as today.
func drawHeat(r *Report) *plot {
	p := &plot{XName: "capacity", YName: "leak"}
	var caps, leaks []string
	column, line := map[string]int{}, map[string]int{}
	order := append([]Cell(nil), r.Figures.Cells...)
	add := func(in *[]string, at map[string]int, v string) {
		if _, ok := at[v]; !ok {
			at[v] = len(*in)
			*in = append(*in, v)
		}
	}
	for _, c := range sortedBy(order, func(c Cell) float64 { return c.capacity }) {
		add(&caps, column, c.Capacity)
	}
	for _, c := range sortedBy(order, func(c Cell) float64 { return c.leak }) {
		add(&leaks, line, c.Leak)
	}
	low, high := math.Inf(1), 1.0
	for _, c := range order {
		low, high = min(low, float64(c.Let)), max(high, float64(c.Let))
	}
	w, h := (width-left-right)/float64(len(caps)), (height-top-bottom)/float64(len(leaks))
	for i, c := range caps {
		p.XTicks = append(p.XTicks, tick{round(left + (float64(i)+.5)*w), c})
	}
	for i, l := range leaks {
		p.YTicks = append(p.YTicks, tick{round(height - bottom - (float64(i)+.5)*h), l})
	}
	for _, c := range order {
		share := 0.0
		if high > low {
			share = math.Log(max(float64(c.Let), 1)/max(low, 1)) / math.Log(high/max(low, 1))
		}
		cx, cy := left+float64(column[c.Capacity])*w, height-bottom-float64(line[c.Leak]+1)*h
		class := "cell"
		if c.Today {
			class = "cell here"
		}
		p.Rects = append(p.Rects, rect{round(cx + 1), round(cy + 1), round(w - 2), round(h - 2), class, round(10*(.06+.5*share)) / 10, fmt.Sprintf("capacity %s, leak %s: %d let through, %d refused", c.Capacity, c.Leak, c.Let, c.Refused)})
		p.Texts = append(p.Texts, text{round(cx + w/2), round(cy + h/2), "small", "middle", whole(c.Let)})
		if c.Refused > 0 {
			p.Texts = append(p.Texts, text{round(cx + w/2), round(cy + h/2 + 13), "small bad", "middle", fmt.Sprintf("−%d", c.Refused)})
		}
	}
	p.Said = fmt.Sprintf("%d pairs of capacity and leak let between %.0f and %.0f attempts through.", len(order), low, high)
	return p
}

func sortedBy(cs []Cell, by func(Cell) float64) []Cell {
	out := append([]Cell(nil), cs...)
	for i := 1; i < len(out); i++ {
		for j := i; j > 0 && by(out[j]) < by(out[j-1]); j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// drawCurves draws after how many attempts attackers are blocked.
func drawCurves(r *Report) *plot {
	most := 2.0
	any := false
	for _, c := range r.Figures.Before {
		for _, q := range c.Points {
			most, any = max(most, q.X), true
		}
	}
	if !any {
		return nil
	}
	p := &plot{XName: "attempts before the first block", YName: "share of attacking sources", Grid: true}
	xs, xt := logAxis(1, 1.3*most)
	p.XTicks = place(xt, x)
	for _, v := range []float64{0, .25, .5, .75, 1} {
		p.YTicks = append(p.YTicks, tick{y(v), fmt.Sprintf("%.0f %%", 100*v)})
	}
	for i, c := range r.Figures.Before {
		var points strings.Builder
		last := 0.0
		fmt.Fprintf(&points, "%.1f,%.1f", x(0), y(0))
		for _, q := range c.Points {
			fmt.Fprintf(&points, " %.1f,%.1f %.1f,%.1f", x(xs(q.X)), y(last), x(xs(q.X)), y(q.Y))
			last = q.Y
		}
		fmt.Fprintf(&points, " %.1f,%.1f", x(1), y(last))
		class := "today"
		if i > 0 {
			class = "proposal"
		}
		p.Lines = append(p.Lines, line{class, points.String()})
		p.Said += fmt.Sprintf("%s: %.0f %% of the attacking sources are blocked at some time. ", c.Name, 100*last)
	}
	return p
}

// drawLevels draws the histogram of the highest level of each source.
func drawLevels(r *Report) *plot {
	bins := r.Figures.Levels
	p := &plot{XName: "highest level of the bucket", YName: "sources"}
	most, good, bad := 1.0, 0, 0
	for _, b := range bins {
		most, good, bad = max(most, float64(b.Good), float64(b.Bad)), good+b.Good, bad+b.Bad
	}
	ys := func(n int) float64 { return .98 * math.Log1p(float64(n)) / math.Log1p(most) }
	for _, v := range []float64{0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 100000} {
		if v <= most {
			p.YTicks = append(p.YTicks, tick{y(ys(int(v))), number(v)})
		}
	}
	w := 1 / float64(len(bins))
	limit := -1.0
	for i, b := range bins {
		at := float64(i) * w
		if i%max(len(bins)/8, 1) == 0 {
			p.XTicks = append(p.XTicks, tick{x(at + w/2), number(float64(b.From))})
		}
		for j, n := range []int{b.Good, b.Bad} {
			if n == 0 {
				continue
			}
			class := [...]string{"good", "bad"}[j]
			x0, x1, y1 := x(at+w*(.08+.42*float64(j))), x(at+w*(.5+.42*float64(j))), y(ys(n))
			p.Rects = append(p.Rects, rect{x0, y1, round(x1 - x0), round(y(0) - y1), class, 1, fmt.Sprintf("level %d and more: %d %s sources", b.From, n, class)})
		}
		if limit < 0 && b.From > r.Figures.Capacity {
			limit = at
		}
	}
	if limit >= 0 {
		p.Lines = append(p.Lines, line{"limit", fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(limit), y(0), x(limit), y(1))})
		over := text{x(limit) + 5, y(.97), "label", "start", fmt.Sprintf("over capacity %d", r.Figures.Capacity)}
		if limit > .6 {
			over.X, over.Anchor = x(limit)-5, "end"
		}
		p.Texts = append(p.Texts, over)
	}
	p.Said = fmt.Sprintf("%d good and %d attacking sources, by the highest level that they reached; capacity is %d.", good, bad, r.Figures.Capacity)
	return p
}

// drawTimeline draws the blocks that would have been set.
func drawTimeline(r *Report) *plot {
	ms := r.Figures.Timeline
	p := &plot{XName: "time (UTC)", YName: "new blocks"}
	most, today, proposal := 1.0, 0, 0
	for _, m := range ms {
		most, today, proposal = max(most, float64(m.Today), float64(m.Proposal)), today+m.Today, proposal+m.Proposal
	}
	two := r.Candidate >= 0
	base, half := 0.0, 1.0
	if two {
		base, half = .5, .5
	}
	for _, v := range steps125(most) {
		p.YTicks = append(p.YTicks, tick{y(base + half*.96*v/most), number(v)})
		if two && v > 0 {
			p.YTicks = append(p.YTicks, tick{y(base - half*.96*v/most), number(v)})
		}
	}
	w := 1 / float64(len(ms))
	layout := "Jan 2"
	if ms[len(ms)-1].At.Sub(ms[0].At) < 72*time.Hour {
		layout = "2 15:04"
	}
	for i, m := range ms {
		at := float64(i) * w
		if i%(len(ms)/5) == 0 {
			p.XTicks = append(p.XTicks, tick{x(at), m.At.UTC().Format(layout)})
		}
		x0, wide := x(at+w*.1), round(w*.8*(width-left-right))
		if m.Today > 0 {
			y1 := y(base + half*.96*float64(m.Today)/most)
			p.Rects = append(p.Rects, rect{x0, y1, wide, round(y(base) - y1), "today", 1, fmt.Sprintf("%s: %d blocks today", m.At.UTC().Format("2006-01-02 15:04"), m.Today)})
		}
		if two && m.Proposal > 0 {
			y1 := y(base - half*.96*float64(m.Proposal)/most)
			p.Rects = append(p.Rects, rect{x0, y(base), wide, round(y1 - y(base)), "proposal", 1, fmt.Sprintf("%s: %d blocks with the best setting", m.At.UTC().Format("2006-01-02 15:04"), m.Proposal)})
		}
	}
	if split := r.Split.Sub(r.Begin).Seconds() / max(r.End.Sub(r.Begin).Seconds(), 1); split > 0 && split < 1 {
		p.Lines = append(p.Lines, line{"limit", fmt.Sprintf("%.1f,%.1f %.1f,%.1f", x(split), y(0), x(split), y(1))})
		p.Texts = append(p.Texts, text{x(split) - 5, y(.97), "label", "end", "judged from here"})
	}
	p.Said = fmt.Sprintf("%d blocks with today's setting", today)
	if two {
		p.Said += fmt.Sprintf(", %d with the best", proposal)
	}
	p.Said += "."
	return p
}
