package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"stoplog/internal/rules"
	"strings"
	"testing"
	"time"
)

const replayRules = `
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 3h, multiply: 2, max: 30d}
widen: {ipv4: 24, over: 3}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    weight: {user: {root: 2}}
    clears: success
    buckets:
      - {capacity: 5, leak: 1m}
      - {capacity: 9, leak: 12h, ttl: 7d}
  - name: spray
    match: {service: sshd, outcome: failure}
    window: {distinct: user, over: 6, within: 1h}
    ttl: 5h
  - name: flood
    match: {service: sshd, outcome: failure}
    key: user
    window: {distinct: prefix, over: 8, within: 30m}
    then: [{block: contributors, each: 2}]
`

// chance writes a line of one of many people, some of whom get in.
func chance(rnd *rand.Rand, at time.Time) string {
	say, addr := "Failed", fmt.Sprintf("203.0.%d.%d", rnd.IntN(24), rnd.IntN(256))
	if rnd.IntN(8) == 0 {
		say = "Accepted"
	}
	user := []string{"root", "alice", "bob", "carl", "dora", "emil", "fred", "gina", "hans"}[rnd.IntN(9)]
	return fmt.Sprintf("%s host sshd[%d]: %s password for %s from %s port 4000 ssh2\n", at.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), rnd.IntN(1<<20)+1, say, user, addr)
}

// blockFact is what live and replay must agree on.
type blockFact struct{ prefix, rule, at, until string }

func (p *plainRun) listed(t *testing.T) (fs []blockFact) {
	t.Helper()
	for l := range strings.Lines(p.ask(t, "list", "--json")) {
		var b struct {
			Prefix, Rule string
			Since, Until time.Time
		}
		if err := json.Unmarshal([]byte(l), &b); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		fs = append(fs, blockFact{b.Prefix, b.Rule, b.Since.UTC().String(), b.Until.UTC().String()})
	}
	return sortFacts(fs)
}

// replayed lists the blocks that a replay says stand at the end.
func (p *plainRun) replayed(t *testing.T, log string, end time.Time) (fs []blockFact) {
	t.Helper()
	out, err := exec.Command(binary, "replay", "--config", p.config, "--json", log).Output()
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	last := map[string]blockFact{}
	for l := range strings.Lines(string(out)) {
		var b struct {
			Type, Prefix, Rule, TTL string
			At                      time.Time
		}
		if err := json.Unmarshal([]byte(l), &b); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		ttl, err := rules.ParseDuration(b.TTL)
		if b.Type != "block" {
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if until := b.At.Add(ttl); until.After(end) {
			last[b.Prefix] = blockFact{b.Prefix, b.Rule, b.At.UTC().String(), until.UTC().String()}
		}
	}
	for _, f := range last {
		fs = append(fs, f)
	}
	return sortFacts(fs)
}

func sortFacts(fs []blockFact) []blockFact {
	slices.SortFunc(fs, func(a, b blockFact) int { return strings.Compare(a.prefix, b.prefix) })
	return fs
}

func compareFacts(t *testing.T, live, replay []blockFact) {
	t.Helper()
	if len(replay) < 10 {
		t.Fatalf("only %d blocks: the test blocks too little", len(replay))
	}
	for _, f := range live {
		if !slices.Contains(replay, f) {
			t.Errorf("live only:   %v", f)
		}
	}
	for _, f := range replay {
		if !slices.Contains(live, f) {
			t.Errorf("replay only: %v", f)
		}
	}
}

// TestLiveIsReplay follows a log that is written now, and replays it.
func TestLiveIsReplay(t *testing.T) {
	dir := scratch(t)
	log := put(t, filepath.Join(dir, "auth.log"), "", 0o644)
	p := newPlain(t, fmt.Sprintf(replayRules, log))
	p.start(t)
	p.out.waitFor(t, "caught up")
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 3000 {
		if _, err := f.WriteString(chance(rnd, time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		attempt(t, f, 2000000+i, "198.51.100.200")
	}
	p.out.waitFor(t, "prefix=198.51.100.192/28")
	compareFacts(t, p.listed(t), p.replayed(t, log, time.Now()))
}

// TestLateIsReplay reads a log of the last two days at the first start: what
// it would have blocked then and would stand now does, for the rest of its
// time.
func TestLateIsReplay(t *testing.T) {
	dir := scratch(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	var b strings.Builder
	const lines = 4000
	for i := range lines {
		b.WriteString(chance(rnd, time.Now().Add(-time.Duration(lines-i)*43*time.Second)))
	}
	log := put(t, filepath.Join(dir, "auth.log"), b.String(), 0o644)
	p := newPlain(t, fmt.Sprintf(replayRules, log))
	p.extra = []string{"--since", "7d"}
	p.start(t)
	p.out.waitFor(t, "caught up")
	compareFacts(t, p.listed(t), p.replayed(t, log, time.Now()))
	// The same after a crash.
	p.kill()
	p.start(t)
	p.out.waitFor(t, "caught up")
	compareFacts(t, p.listed(t), p.replayed(t, log, time.Now()))
}
