package tune

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/replay"
	"stoplog/internal/rules"
)

var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

const plain = "use: []\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 10, leak: 1m}}\n"

func setOf(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, problems := rules.LoadBytes("test.yaml", []byte(text), "")
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

// log is lines that are written in the order of their time.
type log []struct {
	at   time.Time
	text string
}

func (l *log) add(at time.Time, ok bool, user, from string) {
	what := "Failed"
	if ok {
		what = "Accepted"
	}
	*l = append(*l, struct {
		at   time.Time
		text string
	}{at, fmt.Sprintf("%s password for %s from %s port 4000 ssh2", what, user, from)})
}

func (l log) String() string {
	slices.SortStableFunc(l, func(a, b struct {
		at   time.Time
		text string
	}) int {
		return a.at.Compare(b.at)
	})
	var b strings.Builder
	for i, x := range l {
		fmt.Fprintf(&b, "%s h sshd[%d]: %s\n", x.at.Format(time.RFC3339), 100+i, x.text)
	}
	return b.String()
}

// attack is one try from each of n networks, every step for so long.
func (l *log) attack(n int, begin time.Time, step, long time.Duration) {
	for i := range n {
		off := time.Duration(i) * step / time.Duration(n)
		for at := off; at < long; at += step {
			l.add(begin.Add(at), false, "root", fmt.Sprintf("198.18.%d.%d", i, 1+i%200))
		}
	}
}

// people log in twice a day; every third time they mistype fails times before.
func (l *log) people(n, days, fails int) {
	for i := range n {
		from := fmt.Sprintf("203.0.%d.7", i)
		for d := range 2 * days {
			at := monday.Add(time.Duration(d)*12*time.Hour + time.Duration(i)*97*time.Second)
			if (d+i)%3 == 0 {
				for k := range fails {
					l.add(at.Add(time.Duration(k)*7*time.Second), false, "ann", from)
				}
			}
			l.add(at.Add(2*time.Minute), true, "ann", from)
		}
	}
}

func tuned(t testing.TB, o Options, set *rules.Set, text string) *Report {
	t.Helper()
	o.Replay = replay.Options{Set: set, Files: []string{"-"}, Stdin: strings.NewReader(text), Zone: time.UTC}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestKnownOptimum: attackers come every three minutes, so a leak of a minute
// never blocks them, and people fail four times at most. What is proposed must
// have a leak of more than three minutes and room for four failures.
func TestKnownOptimum(t *testing.T) {
	var l log
	l.people(40, 8, 4)
	l.attack(30, monday, 3*time.Minute, 8*24*time.Hour)
	set := setOf(t, plain)
	r := tuned(t, Options{Settings: 80}, set, l.String())
	if r.Verdict != Propose {
		t.Fatalf("got %s: %s", r.Verdict, r.Why)
	}
	p, today := r.Tried[r.Proposal], r.Tried[0]
	if today.Rest.Let != today.Rest.Attempts || today.Rest.Attempts < 30_000 {
		t.Errorf("got today %+v, want nothing prevented", today.Rest)
	}
	if p.Rest.Refused != 0 || p.First.Refused != 0 || p.Rest.Let > today.Rest.Let/20 {
		t.Errorf("got %+v and %+v, want no good login refused and nearly all attempts prevented", p.First, p.Rest)
	}
	again, problems := rules.LoadBytes("pasted", []byte("use: []\n"+r.Paste), "")
	if again == nil {
		t.Fatal(problems, r.Paste)
	}
	b := again.Rules[0].Levels[0]
	if b.Leak <= 3*time.Minute || b.Capacity < 4 {
		t.Errorf("got capacity %d and leak %s, want at least 4 and more than 3m", b.Capacity, b.Leak)
	}
	if len(r.Diff) == 0 || !strings.HasPrefix(r.Diff[0], "- ") {
		t.Errorf("got the changed lines %q", r.Diff)
	}
	// What was pasted does what was promised.
	sum, blocks := replayed(t, again, l.String())
	if want := p.First.Blocks + p.Rest.Blocks; blocks != want {
		t.Errorf("the pasted rules set %d blocks in a replay, want %d", blocks, want)
	}
	if want := p.First.Attempts + p.Rest.Attempts - p.First.Let - p.Rest.Let; int(sum.Prevented) != want {
		t.Errorf("the pasted rules prevent %d attempts in a replay, want %d", sum.Prevented, want)
	}
	f := r.Figures
	if len(f.Cells) < 9 || len(f.Before) != 2 || len(f.Levels) == 0 || len(f.Timeline) == 0 || len(f.Near) != 10 || len(f.Near[0].Lines) == 0 {
		t.Errorf("got %d cells, %d curves, %d levels, %d moments, %d near sources", len(f.Cells), len(f.Before), len(f.Levels), len(f.Timeline), len(f.Near))
	}
	if n := f.Near[0]; n.Level != 4 || !strings.Contains(n.Lines[0].Text, n.Addr) {
		t.Errorf("got the nearest source %+v, want level 4 and its own lines", n)
	}
}

func replayed(t *testing.T, set *rules.Set, text string) (replay.Summary, int) {
	t.Helper()
	blocks := 0
	sum, err := replay.Run(context.Background(), replay.Options{Set: set, Files: []string{"-"}, Stdin: strings.NewReader(text), Zone: time.UTC}, func(a replay.Answer) error {
		if a.Kind == replay.Block {
			blocks++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum, blocks
}

// TestTodayIsAReplay: what tune says of today's setting is what a replay of the
// whole log does, although it runs each network alone and skips what is blocked.
func TestTodayIsAReplay(t *testing.T) {
	for name, text := range map[string]string{
		"plain":    plain,
		"many":     "use: [ssh]\n",
		"prefixes": "use: [ssh]\nprefix: {ipv4: 24, ipv6: 64}\nnetworks: {198.18.0.0/20: {prefix: 32, capacity: x3}}\n",
		"widened":  "use: [ssh]\nwiden: {ipv4: 24, ipv6: 48, over: 2}\n",
		"ports":    "use: []\nrules:\n  - {name: r, match: {service: sshd, outcome: failure}, bucket: {capacity: 3, leak: 5m}, ports: [22], clears: success}\n",
	} {
		set := setOf(t, text)
		for seed := range uint64(4) {
			var l log
			rnd := rand.New(rand.NewPCG(seed, 7))
			for range 4000 {
				from := fmt.Sprintf("198.18.%d.%d", rnd.IntN(12), rnd.IntN(60))
				if rnd.IntN(6) == 0 {
					from = fmt.Sprintf("2001:db8:0:%x::%x", rnd.IntN(40), 1+rnd.IntN(3))
				}
				user := []string{"root", "ann", "bob", "oracle"}[rnd.IntN(4)]
				l.add(monday.Add(time.Duration(rnd.IntN(4*24*3600))*time.Second), rnd.IntN(30) == 0, user, from)
			}
			log := l.String()
			r := tuned(t, Options{Settings: 10, Rule: set.Rules[0].Name}, set, log)
			_, blocks := replayed(t, set, log)
			today := r.Tried[0]
			if got := today.First.Blocks + today.Rest.Blocks; got != blocks {
				t.Errorf("%s, seed %d: got %d blocks, a replay sets %d", name, seed, got, blocks)
			}
		}
	}
}

// TestNothingIsMadeUp: logs that cannot show which setting is better get a clear
// answer and no proposal.
func TestNothingIsMadeUp(t *testing.T) {
	var attackers, honest, ten, one, empty, mixed log
	attackers.attack(30, monday, 3*time.Minute, 2*24*time.Hour)
	honest.people(40, 8, 4)
	ten.attack(10, monday, time.Hour, time.Hour)
	one.attack(1, monday, 30*time.Second, 2*24*time.Hour)
	one.people(30, 2, 1)
	mixed.people(40, 8, 2)
	mixed.attack(30, monday, 2*time.Second, 2*time.Minute)
	for name, c := range map[string]struct {
		l    log
		want Verdict
		why  string
	}{
		"attackers only": {attackers, TooLittle, "no good source"},
		"honest only":    {honest, TooLittle, "no attempt of an attacker"},
		"ten lines":      {ten, TooLittle, "no good source"},
		"one attacker":   {one, TooLittle, "Attempts come from 1 network"},
		"nothing":        {empty, TooLittle, "No line"},
		"early attack":   {mixed, TooLittle, "attempts in the first 70 %"},
	} {
		r := tuned(t, Options{Settings: 30}, setOf(t, plain), c.l.String())
		if r.Verdict != c.want || r.Proposal >= 0 || r.Paste != "" || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: got %s, proposal %d: %s", name, r.Verdict, r.Proposal, r.Why)
		}
		if err := WriteHTML(new(strings.Builder), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoiseIsNoDifference: attackers that stop at random after a few tries are as
// well caught by many settings; none may be proposed as better.
func TestNoiseIsNoDifference(t *testing.T) {
	proposed := 0
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var l log
		l.people(30, 8, 1)
		for i := range 60 { // each comes once, with one or two tries: no setting can stop any
			at := monday.Add(time.Duration(rnd.IntN(8*24*3600)) * time.Second)
			for k := range 1 + rnd.IntN(2) {
				l.add(at.Add(time.Duration(k)*time.Hour), false, "root", fmt.Sprintf("198.18.%d.1", i))
			}
		}
		if r := tuned(t, Options{Settings: 60}, setOf(t, plain), l.String()); r.Proposal >= 0 {
			proposed++
			t.Logf("seed %d: %s %v", seed, r.Why, r.Tried[r.Proposal].Changes)
		}
	}
	if proposed > 0 {
		t.Errorf("%d of 5 logs without a difference got a proposal", proposed)
	}
}

// TestFewGoodSources: with too few of them, nothing is proposed that blocks
// anybody sooner, and a warning says so.
func TestFewGoodSources(t *testing.T) {
	var l log
	l.people(3, 8, 1)
	l.attack(30, monday, 3*time.Minute, 8*24*time.Hour)
	l.attack(20, monday.Add(time.Second), 2*time.Second, 8*time.Minute) // these are blocked, and come again
	for d := range 8 {
		l.attack(20, monday.Add(time.Duration(d)*24*time.Hour), 10*time.Second, 3*time.Hour)
	}
	set := setOf(t, plain)
	r := tuned(t, Options{Settings: 60}, set, l.String())
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "Only 3 good sources failed") {
		t.Errorf("got the warnings %q", r.Warnings)
	}
	if r.Proposal >= 0 {
		b, err := openBook(set, set.Rules[0])
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Tried[r.Proposal].s; b.harder(s) || b.longer(s) {
			t.Errorf("got %v, which blocks sooner or much longer", r.Tried[r.Proposal].Changes)
		}
	}
}

// TestClockThatJumps: lines of other years decide on nothing, and are told of.
func TestClockThatJumps(t *testing.T) {
	var l log
	l.people(40, 8, 4)
	l.attack(30, monday, 3*time.Minute, 8*24*time.Hour)
	lines := strings.SplitAfter(l.String(), "\n")
	for _, i := range []int{100, 5000, 9000, 20000} {
		for j := range 40 {
			at := monday.AddDate(-20+i/500, 0, 0).Add(time.Duration(j) * time.Second)
			lines[i] += fmt.Sprintf("%s h sshd[9%d]: Failed password for root from 198.18.3.4 port 4000 ssh2\n", at.Format(time.RFC3339), j)
		}
	}
	r := tuned(t, Options{Settings: 40}, setOf(t, plain), strings.Join(lines, ""))
	if r.Verdict != Propose || r.Begin.Before(monday) || r.End.After(monday.AddDate(0, 0, 9)) {
		t.Errorf("got %s, %s to %s: %s", r.Verdict, r.Begin, r.End, r.Why)
	}
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "clock goes back") {
		t.Errorf("got the warnings %q, want one about the clock", r.Warnings)
	}
}

// TestGoodFile: who is named as good is no attacker, and meeting a block counts.
func TestGoodFile(t *testing.T) {
	var l log
	l.people(30, 8, 2)
	l.attack(30, monday, 3*time.Minute, 8*24*time.Hour)
	set := setOf(t, plain)
	before := tuned(t, Options{Settings: 10}, set, l.String())
	named := tuned(t, Options{Settings: 10, Good: []netipPrefix{mustPrefix("198.18.0.0/20")}}, set, l.String())
	if before.Labels.Attackers != 30 || named.Labels.Attackers != 14 || named.Labels.Good != before.Labels.Good+16 {
		t.Errorf("got %+v and %+v, want 16 of 30 attackers named as good", before.Labels, named.Labels)
	}
	worst := 0
	for _, x := range named.Tried {
		worst = max(worst, x.First.Hit)
	}
	if worst == 0 {
		t.Error("no setting hits any of the sources that were named as good")
	}
}

// TestStopped: what is known when the search is stopped is reported.
func TestStopped(t *testing.T) {
	var l log
	l.people(40, 8, 4)
	l.attack(30, monday, 3*time.Minute, 8*24*time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := Options{Told: func(done, _ int) {
		if done == 5 {
			cancel()
		}
	}}
	o.Replay = replay.Options{Set: setOf(t, plain), Files: []string{"-"}, Stdin: strings.NewReader(l.String()), Zone: time.UTC}
	r, err := Run(ctx, o)
	if err != nil || !r.Stopped || len(r.Tried) < 5 || len(r.Tried) > 30 || !r.Tried[0].Today || r.Verdict == "" {
		t.Errorf("got %v, %+v", err, r)
	}
}

// TestBoundedMemory: a log that is too long is thinned by whole networks, and the
// shares stay.
func TestBoundedMemory(t *testing.T) {
	var l log
	for i := range 4000 {
		for k := range 5 {
			l.add(monday.Add(time.Duration(i*5+k)*time.Second), false, "root", fmt.Sprintf("%d.%d.3.4", 11+i/200, i%200))
		}
	}
	set := setOf(t, plain)
	c := newCollector(set.Rules, true)
	c.bounds.events = 6000
	_, err := replay.Read(context.Background(), replay.Options{Set: set, Files: []string{"-"}, Stdin: strings.NewReader(l.String()), Zone: time.UTC}, adder(c))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.events) >= 6000 || c.half < 2 || c.half > 4 {
		t.Fatalf("got %d events, one of %d networks", len(c.events), 1<<c.half)
	}
	per := map[uint32]int{}
	for _, e := range c.events {
		per[e.src]++
	}
	for src, n := range per {
		if n != 5 {
			t.Errorf("%s has %d of its 5 events", c.sources[src].addr, n)
		}
	}
	if n, want := len(per), 4000>>c.half; n < want/2 || n > want*2 {
		t.Errorf("got %d sources, want about %d", n, want)
	}
}

// TestWebRule: of a rule on requests, a source is good if most of its requests get
// pages.
func TestWebRule(t *testing.T) {
	set := setOf(t, "use: []\nrules:\n  - {name: xmlrpc, match: {method: POST, path: /xmlrpc.php}, bucket: {capacity: 20, leak: 5s}}\n")
	var b strings.Builder
	for m := range 4 * 24 * 60 {
		at := monday.Add(time.Duration(m) * time.Minute).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&b, "203.0.%d.9 - - [%s] \"GET /page%d HTTP/1.1\" 200 10 \"-\" \"x\"\n", m%40, at, m%7)
		if m%50 == 0 {
			fmt.Fprintf(&b, "203.0.%d.9 - - [%s] \"POST /xmlrpc.php HTTP/1.1\" 200 10 \"-\" \"x\"\n", m%40, at)
		}
		for i := range 8 {
			fmt.Fprintf(&b, "198.18.%d.9 - - [%s] \"POST /xmlrpc.php HTTP/1.1\" 200 10 \"-\" \"x\"\n", i, at)
		}
	}
	o := Options{Settings: 40}
	o.Replay = replay.Options{Service: "http", Format: "combined"}
	set2 := *set
	o.Replay.Set, o.Replay.Files, o.Replay.Stdin, o.Replay.Zone = &set2, []string{"-"}, strings.NewReader(b.String()), time.UTC
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Labels.Good != 4 && r.Labels.Good != 40 || r.Labels.Attackers != 8 {
		t.Errorf("got %+v, want 8 attackers", r.Labels)
	}
	if r.Matched == 0 || len(r.Tried) == 0 {
		t.Errorf("got %s: %s", r.Verdict, r.Why)
	}
}

// TestEveryBuiltInRule can be opened, or says why not, and what is pasted loads.
func TestEveryBuiltInRule(t *testing.T) {
	set := setOf(t, "use: auto\n")
	for _, r := range set.Rules {
		if !r.Key.HasSource() || !slices.ContainsFunc(r.Levels, func(l rules.Level) bool { return l.Kind == rules.Bucket }) {
			continue
		}
		b, err := openBook(set, r)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		s := b.today()
		for i := range b.params {
			if v := b.values(&b.params[i], 4); len(v) > 1 {
				s[i] = v[len(v)-1]
			}
		}
		want, err := b.compile(s)
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
			continue
		}
		text, err := b.paste(s)
		if err != nil {
			t.Fatal(err)
		}
		again, problems := rules.LoadBytes("pasted", []byte(text), "")
		if again == nil {
			t.Errorf("%s: %v in\n%s", r.Name, problems, text)
			continue
		}
		got := again.Find(r.Name)
		if len(again.Rules) != len(set.Rules) || got.Prefix != want.Prefix || len(got.Levels) != len(want.Levels) {
			t.Errorf("%s: got %d rules, %v; want %d, %v", r.Name, len(again.Rules), got.Prefix, len(set.Rules), want.Prefix)
			continue
		}
		for i := range got.Levels {
			g, w := got.Levels[i], want.Levels[i]
			if g.Capacity != w.Capacity || g.Leak != w.Leak || g.TTL != w.TTL || g.Multiply != w.Multiply {
				t.Errorf("%s, level %d: got %+v, want %+v", r.Name, i, g, w)
			}
		}
	}
}
