package source

import (
	"context"
	"fmt"
	"testing"
	"time"
)

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
