package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// sameRules have something of everything that decides on a block.
const sameRules = `
use: []
sources: [{file: /var/log/same.log}]
protect: {own: false, ssh_peers: false, known_good: 2h}
block: {ttl: 3m, multiply: 3, max: 2h, decay: 4h}
widen: {ipv4: 24, over: 2, ttl: 20m}
networks: {203.0.1.0/24: {prefix: 32, capacity: x2}}
rules:
  - name: login
    match: {outcome: failure}
    weight: {unknown_user: 2, user: {root: 2}}
    clears: success
    buckets:
      - {capacity: 6, leak: 1m}
      - {capacity: 14, leak: 20m, ttl: 1h}
  - name: strict
    match: {outcome: failure}
    when: {flag: captcha, capacity: 1}
    bucket: {capacity: 12, leak: 30s, ttl: 4m}
  - name: rolling
    match: {outcome: failure}
    key: address
    window: {count: 3, within: 3m}
    ttl: 90s
  - name: spray
    match: {outcome: failure}
    window: {distinct: user, over: 3, within: 5m}
  - name: one-account
    match: {outcome: failure}
    key: user
    window: {distinct: prefix, over: 6, within: 4m}
    then: [{block: contributors, each: 2}]
  - name: flood
    match: {outcome: failure}
    key: all
    bucket: {capacity: 12, leak: 8s}
    then: [{flag: captcha, for: 5m}]
`

// stamped is a line and its own time.
type stamped struct {
	at   time.Time
	text string
}

// sameLog makes n lines, some at the same instant as others, some late by less
// than a minute, some hours after the one before.
func sameLog(rnd *rand.Rand, n int) []stamped {
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	out := make([]stamped, n)
	for i := range out {
		switch rnd.IntN(40) {
		case 0:
			at = at.Add(time.Duration(rnd.IntN(90)) * time.Minute)
		case 1, 2, 3, 4, 5, 6, 7, 8:
		default:
			at = at.Add(time.Duration(rnd.Int64N(int64(9 * time.Second))))
		}
		t := at
		if rnd.IntN(6) == 0 {
			t = t.Add(-time.Duration(rnd.Int64N(int64(50 * time.Second))))
		}
		out[i] = stamped{t.Truncate(time.Microsecond), sameLine(rnd, t)}
	}
	return out
}

func sameLine(rnd *rand.Rand, at time.Time) string {
	addr := fmt.Sprintf("203.0.%d.%d", rnd.IntN(3), rnd.IntN(5)*14+rnd.IntN(2))
	user := []string{"root", "alice", "bob", "carl", "dora", "emil"}[rnd.IntN(6)]
	if rnd.IntN(4) == 0 { // of a login that nobody can forge
		says := []string{"FAIL", "FAIL", "OK"}[rnd.IntN(3)]
		return fmt.Sprintf("%s [pid %d] [%s] %s LOGIN: Client \"%s\"", at.UTC().Format("Mon Jan _2 15:04:05 2006"), rnd.IntN(200)+1, user, says, addr)
	}
	say := fmt.Sprintf([]string{
		"Failed password for %s from %s port 4000 ssh2",
		"Failed password for %s from %s port 4000 ssh2",
		"Failed password for %s from %s port 4000 ssh2",
		"Failed password for invalid user %s from %s port 4000 ssh2",
		"Invalid user %s from %s port 4000",
		"Connection closed by authenticating user %s %s port 4000 [preauth]",
		"Accepted password for %s from %s port 4000 ssh2",
	}[rnd.IntN(7)], user, addr)
	return fmt.Sprintf("%s host sshd[%d]: %s", at.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), rnd.IntN(200)+1, say)
}

// sameBatch is what arrived together.
type sameBatch struct {
	first   int
	lines   []stamped
	arrival time.Time
}

// arrivals cuts a log as it would have come in live: each line within a minute
// of its stamp.
func arrivals(rnd *rand.Rand, log []stamped) (out []sameBatch) {
	var now time.Time
	for first := 0; first < len(log); {
		b := sameBatch{first: first}
		oldest, newest := log[first].at, now
		for n := 1 + rnd.IntN(30); first < len(log) && len(b.lines) < n; first++ {
			at := log[first].at
			if at.After(newest) {
				newest = at
			}
			if at.Before(oldest) {
				oldest = at
			}
			if len(b.lines) > 0 && newest.Sub(oldest) > 59*time.Second {
				break
			}
			b.lines, now = append(b.lines, log[first]), newest
		}
		b.arrival = now
		out = append(out, b)
	}
	return out
}

// sameBlock is a block as it was set.
type sameBlock struct {
	prefix, rule string
	at, until    int64
	count        int
}

// follower takes the log as a daemon does.
type follower struct {
	t        *testing.T
	opt      ledger.Options
	dir      string
	machine  *pipeline.Machine
	origin   *source.Origin
	breaches []string
	blocks   []sameBlock
}

func sameSet(t *testing.T) *rules.Set {
	t.Helper()
	set, problems := rules.LoadBytes("same", []byte(sameRules), "")
	if set == nil {
		t.Fatal(problems)
	}
	return set
}

func newFollower(t *testing.T, dir string, now time.Time) *follower {
	d := &daemon{log: slog.New(slog.DiscardHandler)}
	f := &follower{t: t, dir: dir, origin: &source.Origin{Name: "/var/log/same.log", Spec: -1}}
	f.opt = d.ledgerOptions(sameSet(t))
	f.open(now)
	f.machine.Ledger.RecoveryDone(now)
	return f
}

// open makes a machine of what is in the folder.
func (f *follower) open(now time.Time) {
	f.t.Helper()
	led, rec, err := ledger.Open(f.dir, now, f.opt)
	if err != nil {
		f.t.Fatal(err)
	}
	set := sameSet(f.t)
	compiled, err := pipeline.Compile(set, time.UTC)
	if err != nil {
		f.t.Fatal(err)
	}
	eng := detect.New(set, detect.Options{Seed: 7})
	f.machine = pipeline.New(compiled, eng, led)
	d := &daemon{log: slog.New(slog.DiscardHandler), engine: eng, ledger: led, machine: f.machine, positions: map[string]source.Pos{}}
	if d.restore(rec); len(d.notes) > 0 {
		f.t.Fatal(d.notes)
	}
}

func (f *follower) save(now time.Time) {
	d := &daemon{log: slog.New(slog.DiscardHandler), engine: f.machine.Engine, ledger: f.machine.Ledger, machine: f.machine}
	if d.save(now); d.saveErr != nil {
		f.t.Fatal(d.saveErr)
	}
}

// reload puts the same rules in place again.
func (f *follower) reload(now time.Time) {
	f.t.Helper()
	compiled, err := pipeline.Compile(sameSet(f.t), time.UTC)
	if err != nil {
		f.t.Fatal(err)
	}
	f.machine.Swap(compiled)
	if lifted, err := f.machine.Ledger.SetOptions(f.opt, now); err != nil || len(lifted.Changes) > 0 {
		f.t.Fatal(lifted, err)
	}
}

func (f *follower) take(b sameBatch, backlog bool, now time.Time) {
	f.t.Helper()
	sb := &source.Batch{Origin: f.origin, Arrival: b.arrival, Backlog: backlog}
	for i, l := range b.lines {
		sb.Lines = append(sb.Lines, source.Line{Text: []byte(l.text), Number: int64(b.first + i + 1)})
	}
	err := f.machine.Take(sb, now, func(br *detect.Breach, o ledger.Outcome) {
		f.breaches = append(f.breaches, fmt.Sprint(br.At, br.Rule, br.Level, br.Key, br.Prefix, br.Count, br.Contributors, br.Line))
		for _, c := range o.Changes {
			if c.Op == ledger.Set {
				f.blocks = append(f.blocks, sameBlock{c.Block.Prefix.String(), c.Block.Rule, c.Block.Since.UnixNano(), c.Block.Until.UnixNano(), c.Block.Count})
			}
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// die ends without saving, and comes back: the lines since the snapshot are
// read again, and lead to nothing new.
func (f *follower) die(since []sameBatch, breaches int, now time.Time) {
	f.t.Helper()
	if err := f.machine.Ledger.Close(); err != nil {
		f.t.Fatal(err)
	}
	before, blocks := f.breaches, len(f.blocks)
	f.breaches = nil
	f.open(now)
	for _, b := range since {
		f.take(b, true, now)
	}
	f.machine.Ledger.RecoveryDone(now)
	if !slices.Equal(f.breaches, before[breaches:]) || len(f.blocks) != blocks {
		f.t.Errorf("read again:\n%s\nat first:\n%s\nblocks set again: %v", strings.Join(f.breaches, "\n"), strings.Join(before[breaches:], "\n"), f.blocks[blocks:])
	}
	f.breaches = before
}

// live follows the log as it comes in, with reloads, sweeps, snapshots and
// deaths in between.
func (f *follower) live(rnd *rand.Rand, batches []sameBatch) {
	saved, told := 0, 0
	for i, b := range batches {
		f.machine.Ledger.Expire(b.arrival)
		switch rnd.IntN(12) {
		case 0:
			f.reload(b.arrival)
		case 1:
			f.machine.Engine.Sweep(b.arrival.UnixNano())
		case 2:
			f.save(b.arrival)
			saved, told = i, len(f.breaches)
		case 3:
			f.die(batches[saved:i], told, b.arrival)
		}
		f.take(b, false, b.arrival)
	}
}

// replayedBlocks are the blocks of a replay of the log.
func replayedBlocks(t *testing.T, log []stamped) (out []sameBlock) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "same.log")
	var text bytes.Buffer
	for _, l := range log {
		text.WriteString(l.text + "\n")
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := replay.Run(context.Background(), replay.Options{Set: sameSet(t), Files: []string{file}, Zone: time.UTC}, func(b replay.Answer) error {
		if b.Kind != replay.Block {
			return nil
		}
		out = append(out, sameBlock{b.Prefix.String(), b.Rule, b.At.UnixNano(), b.At.Add(b.TTL).UnixNano(), b.Count})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b sameBlock) String() string {
	at := func(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000000") }
	return fmt.Sprintf("%s %s %s-%s %d", b.prefix, b.rule, at(b.at), at(b.until), b.count)
}

func sameBlocks(t *testing.T, what string, got, want []sameBlock) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s: from the block %d on got\n%v\nwant\n%v", what, i+1, got[min(i, len(got)):min(i+3, len(got))], want[min(i, len(want)):min(i+3, len(want))])
			return
		}
	}
}

// The same lines lead to the same blocks in the same order, whether they are
// read as they come, late, or by a replay; reloads, restarts and sweeps in
// between change nothing.
func TestSameLiveLateAndReplayed(t *testing.T) {
	rounds := uint64(25)
	if os.Getenv("STOPLOG_SOAK") != "" {
		rounds = 2000
	}
	blocks := 0
	for seed := range rounds {
		rnd := rand.New(rand.NewPCG(seed, 20261120))
		log := sameLog(rnd, 600)
		batches := arrivals(rnd, log)
		begin, end := batches[0].arrival, batches[len(batches)-1].arrival

		live := newFollower(t, t.TempDir(), begin)
		live.live(rnd, batches)
		live.machine.Ledger.Close()

		late := newFollower(t, "", end)
		for _, b := range arrivals(rnd, log) {
			late.take(b, true, end)
		}
		if !slices.Equal(live.breaches, late.breaches) {
			t.Errorf("seed %d: breaches live and late differ:\n%s\n\n%s", seed, strings.Join(live.breaches, "\n"), strings.Join(late.breaches, "\n"))
		}
		var stand []sameBlock
		for _, b := range live.blocks {
			if b.until > end.UnixNano() {
				stand = append(stand, b)
			}
		}
		sameBlocks(t, fmt.Sprintf("seed %d, late", seed), late.blocks, stand)
		sameBlocks(t, fmt.Sprintf("seed %d, replayed", seed), replayedBlocks(t, log), live.blocks)
		if blocks += len(live.blocks); t.Failed() {
			return
		}
	}
	if blocks < int(rounds)*10 {
		t.Errorf("only %d blocks in %d logs: too few to tell", blocks, rounds)
	}
}
