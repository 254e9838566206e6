package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Options say what to tune, and with which logs.
type Options struct {
	Replay replay.Options // Set, files, time, zone…
	Rule   string         // "": the rule that most events match
	// Good are addresses of honest users, beside those that the log shows.
	Good []netip.Prefix
	// Settings is how many are tried at most; 0: 200.
	Settings int
	// Told, if set, is called when a setting was run.
	Told func(done, most int)
	// Read, if set, is called when the log was read.
	Read func()
}

// Verdict is what comes of it.
type Verdict string

const (
	Propose      Verdict = "propose"       // a better setting
	NoDifference Verdict = "no-difference" // the best is no better than today's, beyond noise
	Best         Verdict = "best"          // none was better than today's
	Worse        Verdict = "worse"         // the best refuses more good logins in the last part of the time
	TooLittle    Verdict = "too-little"    // nothing can be said
)

// Bounds below which nothing is said.
const (
	fewGood      = 20 // good sources that failed: fewer, and only what blocks nobody sooner is proposed
	leastAttempt = 20 // attempts in each part of the time
	leastNets    = 5  // networks that attack, in each part
)

// Tried is a setting that was run.
type Tried struct {
	Changes []Change `json:"changes"`
	Result
	Front    bool   `json:"front,omitempty"`
	Today    bool   `json:"today,omitempty"`
	Proposal bool   `json:"proposal,omitempty"`
	Capacity string `json:"capacity"` // of the main bucket
	Leak     string `json:"leak"`
	cell     bool
	s        setting
}

// Report is all that a run has found.
type Report struct {
	Rule     string    `json:"rule"`
	Ready    string    `json:"builtin,omitempty"` // the built-in rules that it is of
	Others   []string  `json:"others,omitempty"`  // rules that run beside it
	Verdict  Verdict   `json:"verdict"`
	Why      string    `json:"why"`
	Warnings []string  `json:"warnings,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
	Lines    uint64    `json:"lines"`
	Events   int       `json:"events"`  // that the rule or its labels look at
	Matched  int       `json:"matched"` // by the rule
	Sample   int       `json:"sample"`  // one of so many networks was kept
	Memory   int64     `json:"memory"`  // bytes of the events and their tables, about
	Begin    time.Time `json:"begin"`
	Split    time.Time `json:"split"`
	End      time.Time `json:"end"`
	Labels   Labels    `json:"labels"`
	Stopped  bool      `json:"stopped,omitempty"` // before all settings were run
	Took     float64   `json:"took_seconds"`      // running settings
	Tried    []Tried   `json:"-"`
	// Today and Proposal are indexes of Tried; Proposal is -1 without one.
	// Candidate is the setting that was compared with today's, -1 for none.
	Today     int `json:"-"`
	Proposal  int `json:"-"`
	Candidate int `json:"-"`
	// Saved is by how many attempts less the candidate lets through in the last part of the time.
	Saved   Saving   `json:"saved"`
	Diff    []string `json:"diff,omitempty"`  // the rule's lines that change
	Paste   string   `json:"paste,omitempty"` // YAML
	Figures Figures  `json:"figures"`
}

// Saving compares the candidate with today's setting, in the last part of the
// time.
type Saving struct {
	Let            int      `json:"let"` // attempts less let through
	LetBetween     Interval `json:"let_between"`
	Refused        int      `json:"refused"` // good logins less refused
	RefusedBetween Interval `json:"refused_between"`
}

// ErrNoRule says that there is no rule of that name.
var ErrNoRule = errors.New("there is no such rule")

// Run reads the logs and looks for better settings. When ctx ends while settings
// are tried, it reports what is known so far.
func Run(ctx context.Context, o Options) (*Report, error) {
	set := o.Replay.Set
	study, candidates, err := choose(set, o.Rule)
	if err != nil {
		return nil, err
	}
	c := newCollector(candidates, set.Privacy.Lines)
	sum, err := replay.Read(ctx, o.Replay, func(ev *parse.Event, origin *source.Origin, line *source.Line) error {
		c.add(ev, origin, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if o.Read != nil {
		o.Read()
	}
	rep := &Report{Lines: sum.Lines, Notes: sum.Notes, Proposal: -1, Candidate: -1, Sample: 1 << c.half}
	if study == nil {
		if study = c.busiest(); study == nil {
			rep.Verdict, rep.Why = TooLittle, "No line of the log matches a rule that counts sources in a bucket."
			return rep, nil
		}
	}
	return rep, rep.tune(ctx, o, c, study)
}

// choose finds the rule to study, nil when the log decides, and all rules that
// the log is read for.
func choose(set *rules.Set, name string) (study *rules.Rule, all []*rules.Rule, err error) {
	if name != "" {
		if study = set.Find(name); study == nil {
			return nil, nil, fmt.Errorf("%s: %w", name, ErrNoRule)
		}
		if !study.Key.HasSource() {
			return nil, nil, fmt.Errorf("rule %s counts by %s: tune varies rules that count sources", name, study.Key)
		}
		if _, err := openBook(set, study); err != nil {
			return nil, nil, err
		}
		all = append(all, study)
	}
	for _, r := range set.Rules {
		switch {
		case r == study || len(all) == 64:
		case study != nil:
			if ok, _ := partner(r, study); ok {
				all = append(all, r)
			}
		case r.Key.HasSource():
			all = append(all, r)
		}
	}
	return study, all, nil
}

// busiest is the tunable rule that most attempts match.
func (c *collector) busiest() (best *rules.Rule) {
	most := 0
	for _, r := range c.rules {
		if !slices.ContainsFunc(r.Levels, func(l rules.Level) bool { return l.Kind == rules.Bucket }) || r.Tiers != nil {
			continue
		}
		d := data{tables: c.tables, rule: r}
		var ev parse.Event
		n := 0
		for i := range c.events {
			if d.matches(&c.events[i], &ev) {
				n += int(c.events[i].count)
			}
		}
		if n > most {
			most, best = n, r
		}
	}
	return best
}

// any reports whether r looks at some event.
func (d *data) any(r *rules.Rule) bool {
	one := data{tables: d.tables, rule: r}
	var ev parse.Event
	return slices.ContainsFunc(d.events, func(e event) bool { return one.matches(&e, &ev) })
}

// tune runs settings of one rule.
func (rep *Report) tune(ctx context.Context, o Options, c *collector, study *rules.Rule) error {
	set := o.Replay.Set
	b, err := openBook(set, study)
	if err != nil {
		return err
	}
	rep.Rule, rep.Ready = study.Name, study.Ready
	d := &data{tables: c.tables, events: c.events, set: set, rule: study}
	if study.Observe {
		rep.note("Rule %s only observes: it is run as if it blocked.", study.Name)
	}
	for _, r := range set.Rules {
		if r == study {
			continue
		}
		ok, why := partner(r, study)
		if ok {
			if d.any(r) {
				d.beside = append(d.beside, r)
				rep.Others = append(rep.Others, r.Name)
			}
		} else if why != "" {
			rep.note("Rule %s is left out: it %s, across networks.", r.Name, why)
		}
	}
	if slices.ContainsFunc(study.When, func(w rules.When) bool { return w.Flag != "" }) {
		rep.note("Flags are never raised here: conditions of %s on flags do not hold.", study.Name)
	}
	opt, _ := pipeline.LedgerOptions(set)
	allow := opt.Allow
	if _, _, err := ledger.Open("", time.Unix(0, 0), opt); err != nil {
		return err
	}
	rep.describe(c)
	lens := widest(set, append([]*rules.Rule{study}, d.beside...))
	lens.V4, lens.V6 = min(lens.V4, 24), min(lens.V6, 48)
	d.drop(allow)
	rep.Labels = d.settle(lens, o.Good)
	rep.Events = len(d.events)
	rep.Memory = int64(cap(c.events)*24 + len(d.events)*9 + len(d.sources)*160 + c.bytes + c.shown)
	rep.Begin, rep.Split, rep.End = clampTime(d.begin), clampTime(d.split), clampTime(d.end)
	x := &search{book: b, run: newRunner(d, opt), most: cmp.Or(o.Settings, 200), seen: map[string]int{}, told: o.Told}
	if x.told == nil {
		x.told = func(int, int) {}
	}
	x.few = rep.Labels.GoodFailed < fewGood
	begin := time.Now()
	rep.search(ctx, x)
	rep.Took = time.Since(begin).Seconds()
	if x.broken > 0 {
		rep.note("%d settings of the grid are not allowed in a rules file and were left out.", x.broken)
	}
	return nil
}

func (rep *Report) note(format string, args ...any) {
	rep.Notes = append(rep.Notes, fmt.Sprintf(format, args...))
}

func (rep *Report) warn(format string, args ...any) {
	rep.Warnings = append(rep.Warnings, fmt.Sprintf(format, args...))
}

// describe notes what of the log was not used.
func (rep *Report) describe(c *collector) {
	if c.half > 0 {
		rep.warn("The log has more events than fit into memory: one of %d networks was kept, all of its events.", 1<<c.half)
	}
	if c.left > 0 {
		rep.warn("%d events were left out, because there was no room for them.", c.left)
	}
	if c.backs > 0 {
		rep.warn("The log's clock goes back by more than an hour, %d times: times may be wrong.", c.backs)
	}
}

// drop takes out the events of addresses that are allowed: they count nowhere.
func (d *data) drop(allow []netip.Prefix) {
	if len(allow) == 0 {
		return
	}
	out := make([]bool, len(d.sources))
	for i := range d.sources {
		a := d.sources[i].addr
		out[i] = slices.ContainsFunc(allow, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	d.events = slices.DeleteFunc(d.events, func(e event) bool { return out[e.src] })
}

// search tries settings, chooses one by the first part of the time and judges it
// by the rest.
func (rep *Report) search(ctx context.Context, x *search) {
	d, b := x.run.d, x.book
	today := b.today()
	compiled, err := b.compile(today)
	if err != nil {
		rep.Verdict, rep.Why = TooLittle, err.Error()
		return
	}
	var now *detail
	var res Result
	whole := context.WithoutCancel(ctx)
	x.run.run(whole, []*rules.Rule{compiled}, true, func(_ int, r Result, det *detail) { now, res = det, r })
	rep.Matched = d.matched(x.run.layout)
	main := b.mainBucket(now)
	if why := rep.tooLittle(d, x.run.layout, res); why != "" {
		x.seen[today.key()] = 0
		x.all = []tried{{s: today, rule: compiled, res: res}}
		rep.Verdict, rep.Why = TooLittle, why
	} else {
		x.coarse(ctx, main)
		if len(x.all) > 0 {
			x.fine(ctx)
		}
		if x.seen[today.key()] != 0 || len(x.all) == 0 { // ^C came first
			x.all = append([]tried{{s: today, rule: compiled, res: res}}, x.all...)
		}
		rep.Stopped = ctx.Err() != nil
	}
	rep.take(x, main)
	var then *detail
	if rep.Verdict == "" {
		then = rep.judge(whole, x, now)
	}
	rep.figures(d, x, main, now, then)
}

// matched counts the events that the rule under study looks at.
func (d *data) matched(l *layout) (n int) {
	for _, m := range l.marks {
		if m&isMatched != 0 {
			n++
		}
	}
	return n
}

// mainBucket is the one that breaches most with today's setting.
func (b *book) mainBucket(det *detail) int {
	best, most, n := 0, 0, 0
	for i := range b.rule.Levels {
		if b.rule.Levels[i].Kind != rules.Bucket {
			continue
		}
		if det != nil && det.levels[i] > most {
			best, most = n, det.levels[i]
		}
		n++
	}
	return best
}

// tooLittle says why nothing can be said; "" when something can.
func (rep *Report) tooLittle(d *data, l *layout, r Result) string {
	var nets [2]int
	for i := range l.spans {
		s, had := &l.spans[i], [2]bool{}
		for j := s.from; j < s.to; j++ {
			if m := l.marks[j]; m&isAttempt != 0 {
				had[m&isRest/isRest] = true
			}
		}
		for p := range had {
			if had[p] {
				nets[p]++
			}
		}
	}
	n := r.First.Attempts + r.Rest.Attempts
	switch {
	case rep.Matched == 0:
		return "No line of the log matches the rule."
	case n == 0:
		return "The log has no attempt of an attacker that the rule looks at: there is nothing to gain."
	case rep.Labels.Good == 0:
		return "The log has no good source, so nothing shows whom a stricter setting would refuse. Name some with --good, or use a longer log."
	case rep.Labels.GoodFirst == 0:
		return "No good source appears in the first 70 % of the time, by which settings are chosen. Name some with --good, or use a longer log."
	case r.First.Attempts < leastAttempt || r.Rest.Attempts < leastAttempt:
		return fmt.Sprintf("The log has %d attempts in the first 70 %% of its time and %d in the rest; %d in each are the least.", r.First.Attempts, r.Rest.Attempts, leastAttempt)
	case nets[0] < leastNets || nets[1] < leastNets:
		return fmt.Sprintf("Attempts come from %d networks in the first 70 %% of the time and from %d in the rest; %d in each are the least.", nets[0], nets[1], leastNets)
	}
	return ""
}

// take copies what was tried into the report.
func (rep *Report) take(x *search, main int) {
	b := x.book
	ci, li := b.of(main, capacity), b.of(main, leak)
	front := x.front()
	for i, t := range x.all {
		rep.Tried = append(rep.Tried, Tried{
			Changes: b.changes(t.s), Result: t.res, Today: i == 0, Front: slices.Contains(front, i),
			Capacity: b.params[ci].text(t.s[ci]), Leak: b.params[li].text(t.s[li]), cell: t.cell || i == 0, s: t.s,
		})
	}
}

// maxChecks is how many settings are tried with less room after the search.
const maxChecks = 12

// judge chooses a setting and compares it with today's in the rest of the time.
func (rep *Report) judge(ctx context.Context, x *search, now *detail) *detail {
	if x.few {
		rep.warn("Only %d good sources failed at least once in the first 70 %% of the time, too few to show whom a stricter setting would refuse (%d are the least). Only settings that block nobody sooner, and at most four times as long, are considered.", rep.Labels.GoodFailed, fewGood)
	}
	choice := x.choose(ctx, maxChecks)
	if choice == nil {
		rep.Verdict, rep.Why = Best, "No setting that refuses no more good logins, also with a fifth less room, lets fewer attempts through than today's."
		return nil
	}
	rep.Candidate = x.seen[choice.s.key()]
	var then *detail
	x.run.run(ctx, []*rules.Rule{choice.rule}, true, func(_ int, _ Result, det *detail) { then = det })
	rep.compare(x, choice, now, then)
	return then
}

// compare decides by the rest of the time.
func (rep *Report) compare(x *search, choice *tried, now, then *detail) {
	var let, refused, cost []int
	// Both are of networks, which other prefix lengths cut differently.
	a, b := byNetwork(now), byNetwork(then)
	for p := range b {
		if _, ok := a[p]; !ok {
			a[p] = Result{}
		}
	}
	for p, r := range a {
		q := b[p]
		let = append(let, r.Rest.Let-q.Rest.Let)
		refused = append(refused, r.Rest.Refused-q.Rest.Refused)
		cost = append(cost, r.Rest.cost()-q.Rest.cost())
	}
	slices.Sort(let) // the order of a map must not show
	slices.Sort(refused)
	slices.Sort(cost)
	was, is := x.all[0].res.Rest, choice.res.Rest
	rep.Saved = Saving{was.Let - is.Let, bootstrap(let), was.Refused - is.Refused, bootstrap(refused)}
	gain := bootstrap(cost)
	switch {
	case is.Refused > was.Refused || is.Hit > was.Hit:
		rep.Verdict = Worse
		rep.Why = fmt.Sprintf("The best setting by the first 70 %% of the time refuses more good logins in the rest: %d of %d good sources, today's %d of %d.", is.Refused, is.Hit, was.Refused, was.Hit)
	case gain.Low <= 0 || was.cost()-is.cost() < max(was.cost()/100, 5):
		rep.Verdict = NoDifference
		rep.Why = fmt.Sprintf("In the last 30 %% of the time the best setting lets %d attempts through, today's %d: no difference beyond noise (95 %% between %+.0f and %+.0f).", is.Let, was.Let, -rep.Saved.LetBetween.High, -rep.Saved.LetBetween.Low)
	default:
		rep.Verdict, rep.Proposal = Propose, rep.Candidate
		rep.Tried[rep.Proposal].Proposal = true
		rep.Why = fmt.Sprintf("In the last 30 %% of the time, by which it was not chosen, it lets %d attempts through, today's setting %d: %d less (95 %% between %.0f and %.0f). Good logins refused: %d, today %d.",
			is.Let, was.Let, rep.Saved.Let, rep.Saved.LetBetween.Low, rep.Saved.LetBetween.High, is.Refused, was.Refused)
		rep.Diff = x.book.lines(choice.s)
		if text, err := x.book.paste(choice.s); err == nil {
			rep.Paste = text
		}
	}
}

// byNetwork sums what the networks of 24 (IPv4) or 48 bits came to.
func byNetwork(d *detail) map[netip.Prefix]Result {
	out := map[netip.Prefix]Result{}
	for i := range d.nets {
		bits := 48
		p := d.spans[i].prefix
		if p.Addr().Is4() {
			bits = 24
		}
		if p.Bits() > bits {
			p = netip.PrefixFrom(p.Addr(), bits).Masked()
		}
		r := out[p]
		r.add(d.nets[i])
		out[p] = r
	}
	return out
}
