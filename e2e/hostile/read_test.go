package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/parse"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// attack is what a test does to one server.
type attack struct {
	logs []string // the files that the server writes, where the ready rules look for them
	// try makes one attempt that fails, with the payload in every field.
	try func(payload string) error
	// plain is an ordinary failure that the log reports, by the name given; nil:
	// try with the name.
	plain func(name string) error
	// synced waits until the log holds what was tried; nil when the server
	// writes before it answers.
	synced  func()
	n, own  int      // payloads of a short run: others' lines, and its own
	workers int      // attempts at the same time, for servers that answer late
	more    []string // payloads made for this server
	// nameless: the log does not name who failed.
	nameless bool
	// apart is how many plain failures follow each payload of the server's own
	// records, so that what is not believed after one does not hide the next.
	apart int
	// blind: the log reports no failure.
	blind bool
}

// run attacks the server and checks what stoplog reads from its logs.
func (a *attack) run(t *testing.T) {
	t.Helper()
	if a.plain == nil {
		a.plain = a.try
	}
	if a.n == 0 {
		a.n = 200
	}
	if a.own == 0 {
		a.own = 250
	}
	a.attempt(t, a.plain, mark)
	a.attempt(t, a.try, mark)
	a.wait(t, mark)
	payloads := append(own(a.lines(t), a.own), a.more...)
	if a.apart > 0 {
		for _, p := range payloads {
			a.attempt(t, a.try, p)
			for range a.apart {
				a.attempt(t, a.plain, "honest")
			}
		}
	} else {
		a.each(t, a.try, payloads)
	}
	others := foreign(t, a.n)
	a.each(t, a.try, others)
	payloads = append(payloads, others...)
	a.each(t, a.plain, slices.Repeat([]string{"honest"}, 25))
	a.wait(t, "honest")
	a.check(t, len(payloads))
}

// each makes the attempts, several at a time where a server makes clients wait.
func (a *attack) each(t *testing.T, try func(string) error, payloads []string) {
	t.Helper()
	work := make(chan string)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range max(a.workers, 1) {
		wg.Go(func() {
			for p := range work {
				if err := try(p); err != nil {
					err = fmt.Errorf("with %q: %w", p, err)
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	for _, p := range payloads {
		work <- p
	}
	close(work)
	wg.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

func (a *attack) attempt(t *testing.T, try func(string) error, payload string) {
	t.Helper()
	if err := try(payload); err != nil {
		t.Fatalf("with %q: %v", payload, err)
	}
}

// wait waits until the name is in a log.
func (a *attack) wait(t *testing.T, name string) {
	t.Helper()
	if a.synced != nil {
		a.synced()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, l := range a.lines(t) {
			if strings.Contains(l, name) {
				return
			}
		}
		if a.blind || a.nameless {
			return
		}
	}
	t.Fatalf("no log names %q:\n%s", name, strings.Join(a.lines(t), "\n"))
}

// lines reads the logs.
func (a *attack) lines(t *testing.T) (all []string) {
	t.Helper()
	for _, path := range a.paths(t) {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		all = append(all, strings.Split(string(b), "\n")...)
	}
	return all
}

func (a *attack) paths(t *testing.T) (all []string) {
	t.Helper()
	for _, glob := range a.logs {
		paths, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, paths...)
	}
	return all
}

// check reads the logs by the default rules, as the daemon would.
func (a *attack) check(t *testing.T, payloads int) {
	t.Helper()
	example, err := os.ReadFile("../../rules.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set, problems := rules.LoadBytes("rules.example.yaml", example, "")
	if set == nil {
		t.Fatal(problems)
	}
	compiled, err := pipeline.Compile(set, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	led, _, err := ledger.Open("", time.Now(), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := pipeline.New(compiled, detect.New(set, detect.Options{Seed: 1}), led)
	seen := tally{client: netip.MustParseAddr(clientAddr), t: t}
	readers := map[string]*pipeline.Reader{}
	err = source.ReadFiles(context.Background(), a.paths(t), source.ReadOptions{}, func(b *source.Batch) error {
		defer b.Release()
		r := readers[b.Origin.Name]
		if r == nil {
			if r, err = compiled.Reader(b.Origin); err != nil {
				return err
			}
			readers[b.Origin.Name] = r
		}
		b.Backlog = true
		r.Read(b)
		m.Join(r, time.Now())
		seen.lines += len(b.Lines)
		r.Each(seen.add)
		m.Apply(r, time.Now(), func(*detect.Breach, ledger.Outcome) {})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle(time.Now(), true, func(r *pipeline.Reader) { r.Each(seen.add) })
	for _, path := range a.paths(t) {
		seen.doubted += m.Stats(path).Doubted
	}
	t.Logf("%d payloads: %d lines, %d events, %d failures of the client, %d others' blamed, %d successes, %d not believed", payloads, seen.lines, seen.events, seen.client0, seen.blamed, seen.good, seen.doubted)
	if seen.client0 == 0 && !a.blind {
		lines := a.lines(t)
		t.Errorf("the client's own failures are not seen; the log ends with\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	for _, b := range led.List(time.Now()) {
		if !b.Prefix.Contains(seen.client) {
			t.Errorf("blocked %s by %s", b.Prefix, b.Rule)
		}
	}
}

// tally counts what the events of a log say.
type tally struct {
	t                      *testing.T
	client                 netip.Addr
	lines, events, client0 int
	doubted                uint64
	blamed, good, told     int
}

func (s *tally) add(ev *parse.Event) {
	s.events++
	bad := ""
	switch {
	case ev.Outcome == parse.Success:
		s.good++
		bad = "a success"
	case ev.Addr.IsValid() && ev.Addr != s.client:
		s.blamed++
		bad = "another address"
	case ev.Outcome == parse.Failure && ev.Addr == s.client:
		s.client0 += max(ev.Count, 0)
	}
	if bad != "" {
		if s.told++; s.told <= 12 {
			s.t.Errorf("%s: %s %s %s user %q from %s in %q", bad, ev.Service, ev.Outcome, ev.Kind, ev.User, ev.Addr, ev.Message)
		}
	}
}
