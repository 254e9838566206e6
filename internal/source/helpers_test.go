package source

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for an event that must come.
const patience = 20 * time.Second

// need skips the test when program is not installed, or fails it where every
// test is required.
func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/lib/systemd"} {
		path := filepath.Join(dir, program)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	unmet(t, program+" is not installed")
	return ""
}

// unmet skips the test for reason, or fails it where every test is required.
func unmet(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// rounds is how often a test rotates: 20 times, 1,000 with STOPLOG_SOAK=1, and
// as often as a larger number there says.
func rounds() int {
	n, _ := strconv.Atoi(os.Getenv("STOPLOG_SOAK"))
	switch {
	case n <= 0:
		return 20
	case n == 1:
		return 1000
	}
	return n
}

// got is one line as it arrived.
type got struct {
	origin, text string
	number       int64
	cut, backlog bool
	pos          Pos
	entry        *Entry
}

// running is a Set that runs, and what came out of it.
type running struct {
	*Set
	t      testing.TB
	cancel context.CancelFunc
	done   chan error

	mu       sync.Mutex
	news     chan struct{} // closed with the next line or problem
	lines    []got
	saved    map[string]Pos
	problems []string
}

func startSet(t testing.TB, o Options, specs ...Spec) *running {
	t.Helper()
	r := &running{t: t, news: make(chan struct{}), saved: map[string]Pos{}, done: make(chan error, 1)}
	o.Report = r.report
	o.trace = onlyTable(t)
	set, err := New(specs, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Set = set
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	out := make(chan *Batch, 4)
	go func() {
		err := set.Run(ctx, out)
		close(out)
		r.done <- err
	}()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for b := range out {
			r.take(b)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-collected
	})
	return r
}

func (r *running) report(p Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, p.Error())
	r.tell()
}

func (r *running) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *running) take(b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range b.Lines {
		g := got{origin: b.Origin.Name, text: string(l.Text), number: l.Number, cut: l.Cut, backlog: b.Backlog, pos: b.Pos}
		if l.Entry != nil {
			e := *l.Entry
			e.Ident, e.Exe, e.Unit = bytes.Clone(e.Ident), bytes.Clone(e.Exe), bytes.Clone(e.Unit)
			g.entry = &e
		}
		r.lines = append(r.lines, g)
	}
	r.saved[b.Origin.Name] = b.Pos
	b.Release()
	r.tell()
}

// until waits until ok, called under the lock, is true.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		r.mu.Lock()
		good, news := ok(), r.news
		r.mu.Unlock()
		if good {
			return
		}
		select {
		case <-news:
		case <-poll.C: // for what is seen in Status
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("waited for %s in vain; %d lines came, the last %v; problems %q; status %+v",
				what, len(r.lines), r.last(), r.problems, r.Set.Status())
		}
	}
}

func (r *running) last() []string {
	var texts []string
	for _, g := range r.lines[max(0, len(r.lines)-3):] {
		texts = append(texts, strconv.Quote(g.text[:min(80, len(g.text))]))
	}
	return texts
}

// stop ends the Set and returns the positions to resume at.
func (r *running) stop() map[string]Pos {
	r.t.Helper()
	r.cancel()
	if err := <-r.done; err != nil {
		r.t.Errorf("Run: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saved
}

func (r *running) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, g := range r.lines {
		all = append(all, g.text)
	}
	return all
}

// wantTexts waits for exactly these lines.
func (r *running) wantTexts(want ...string) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d lines", len(want)), func() bool { return len(r.lines) >= len(want) })
	got := r.texts()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Fatalf("got lines %q, want %q", got, want)
	}
}

// state waits until the origin is in the state.
func (r *running) state(name string, want State) Status {
	r.t.Helper()
	var st Status
	r.until(name+" "+string(want), func() bool {
		for _, st = range r.Set.Status() {
			if st.Name == name && st.State == want {
				return true
			}
		}
		return false
	})
	return st
}

// caughtUp waits until everything that was there at the start is read.
func (r *running) caughtUp() {
	r.t.Helper()
	select {
	case <-r.CaughtUp():
	case <-time.After(patience):
		r.t.Fatalf("did not catch up: %+v", r.Status())
	}
}

// counter writes and checks numbered lines.
type counter struct {
	t    testing.TB
	next int
}

// line is the next numbered line.
func (c *counter) line() string {
	c.next++
	return fmt.Sprintf("line %d of a log that is rotated\n", c.next)
}

func (c *counter) write(f *os.File, n int) {
	c.t.Helper()
	for range n {
		if _, err := f.WriteString(c.line()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// check waits until every line arrived, and fails unless each did once.
func (c *counter) check(r *running) {
	c.t.Helper()
	r.until(fmt.Sprintf("%d numbered lines", c.next), func() bool { return len(r.lines) >= c.next })
	c.exactly(r.texts())
}

func (c *counter) exactly(texts []string) {
	c.t.Helper()
	seen := make([]int, c.next+1)
	for _, text := range texts {
		var n int
		if _, err := fmt.Sscanf(text, "line %d of a log that is rotated", &n); err != nil || n < 1 || n > c.next {
			c.t.Fatalf("got a line that was not written: %.80q", text)
		}
		seen[n]++
	}
	lost, doubled := 0, 0
	for _, n := range seen[1:] {
		if n == 0 {
			lost++
		}
		doubled += max(0, n-1)
	}
	if lost+doubled > 0 {
		c.t.Fatalf("of %d lines %d were lost and %d came twice", c.next, lost, doubled)
	}
}

func openAppend(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f := openAppend(t, path)
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stampsOf reads the stamps of every origin in one way.
func stampsOf(stamp func([]byte) (int64, bool)) func(*Origin) func([]byte) (int64, bool) {
	return func(*Origin) func([]byte) (int64, bool) { return stamp }
}

// stepped is an engine that looks only when it is told to, so that a test
// decides what happens between two looks.
type stepped struct {
	*engine
	t        *testing.T
	lines    []got
	saved    map[string]Pos
	problems []string
	caughtUp []int // how many lines had come each time it was called
}

// startStepped starts, looks once and reads to the end.
func startStepped(t *testing.T, o Options, specs ...Spec) *stepped {
	t.Helper()
	s := &stepped{t: t, saved: map[string]Pos{}}
	o.NoInotify = true
	o.trace = onlyTable(t)
	o.Report = func(p Problem) { s.problems = append(s.problems, p.Error()) }
	set, err := New(specs, o)
	must(t, err)
	s.engine = set.newEngine(nil)
	s.send = func(_ context.Context, b *Batch) bool {
		for _, l := range b.Lines {
			s.lines = append(s.lines, got{origin: b.Origin.Name, text: string(l.Text), backlog: b.Backlog, pos: b.Pos})
		}
		s.saved[b.Origin.Name] = b.Pos
		b.Release()
		return true
	}
	s.engine.caughtUp = func() { s.caughtUp = append(s.caughtUp, len(s.lines)) }
	s.specs = set.specs
	s.begun, s.first = time.Now(), true
	s.scan()
	for _, f := range s.list {
		s.look(f)
	}
	s.first = false
	t.Cleanup(s.closeAll)
	s.step()
	return s
}

// step is one sweep over everything, and reads to the end.
func (s *stepped) step() {
	s.scan()
	for _, f := range s.list {
		f.check = true
		s.enqueue(f)
	}
	for len(s.queue) > 0 {
		s.turn(context.Background())
	}
}

// stop gives everything up and returns the positions to resume at.
func (s *stepped) stop() map[string]Pos {
	s.closeAll()
	s.list = nil
	return s.saved
}

// want takes the lines that came since it was called last.
func (s *stepped) want(texts ...string) {
	s.t.Helper()
	var have []string
	for _, g := range s.lines {
		have = append(have, g.text)
	}
	if fmt.Sprintf("%q", have) != fmt.Sprintf("%q", texts) {
		s.t.Errorf("got lines %.600q, want %.600q; problems %q", have, texts, s.problems)
	}
	s.lines = nil
}
