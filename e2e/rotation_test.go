package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The rotation harness: many logs, each rotated in its own way, are written to
// while the program that follows them is killed, stopped and continued at
// random instants. Every line carries an address of its own, so that what was
// counted returns which lines were read and how often.

// CI runs the short version. STOPLOG_SOAK=1 runs the whole one, and a larger
// number there is the number of signals. STOPLOG_ROTATIONS picks the kinds
// whose names contain it, STOPLOG_SEED repeats a choice of rotations.
func TestNoLineIsLostOrDoubledBySignalsDuringRotations(t *testing.T) {
	signals := 8
	if n, _ := strconv.Atoi(os.Getenv("STOPLOG_SOAK")); n > 0 {
		signals = max(n, 600)
	}
	if n, _ := strconv.Atoi(os.Getenv("STOPLOG_SIGNALS")); n > 0 {
		signals = n
	}
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("STOPLOG_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d, %d signals", seed, signals)
	h := newHarness(t, seed)
	h.start()
	for range signals {
		h.live(time.Duration(100+h.rnd.IntN(900)) * time.Millisecond)
		h.signal()
	}
	h.live(500 * time.Millisecond)
	h.judge()
}

// rotLog is one log of the harness and the process that writes it.
type rotLog struct {
	*harness
	kind  *rotKind
	n     int // which log it is: the third group of its addresses
	dir   string
	path  string
	w     *os.File
	late  []lateWriter
	lines int
	turns int       // rotations
	next  time.Time // the earliest next rotation
	told  []string  // what was done to it, with times
	// mayMiss are lines written to a file that no name leads to: only a
	// process that has it open can read them.
	mayMiss map[int]bool
	written []time.Time
}

// lateWriter is a process that has not noticed a rotation yet.
type lateWriter struct {
	f        *os.File
	until    time.Time
	nameless bool
}

// rotKind is a way to rotate. turn is called with everything written.
type rotKind struct {
	name string
	turn func(l *rotLog)
	// sure waits until what was written is in the saved state, because the
	// rotation destroys it.
	sure bool
	// every is the least time between two rotations.
	every time.Duration
	logs  int // how many logs share the folder, 1 when 0
	link  bool
	// slowLate writers write a line now and then.
	slowLate bool
	// restarts marks kinds whose writers go on with a file that was rotated: over a
	// restart some lines of it are still lost or counted twice, a handful in 100,000
	// (docs/sources.md). Only the soak judges them.
	restarts bool
	conf     string // for logrotate
}

type harness struct {
	t     *testing.T
	rnd   *rand.Rand
	p     *plainRun
	logs  []*rotLog
	down  bool
	begun time.Time
	turns int
	sent  map[string]int
}

const rotRules = `
use: []
sources: [{file: %s/*/app*.log}, {file: %s/probe.log}]
protect: {own: false, ssh_peers: false}
prefix: {ipv6: 64}
block: {ttl: 30d, multiply: 1, max: 30d}
limits: {blocks: 200000, buckets: 500000}
rules:
  - name: twice
    pattern: 'login failed id=\d+ ip=(?P<ip>\S+)'
    bucket: {capacity: 1, leak: 30d}
`

func newHarness(t *testing.T, seed uint64) *harness {
	h := &harness{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), begun: time.Now(), sent: map[string]int{}}
	h.p = newPlain(t, "")
	root := filepath.Join(h.p.dir, "logs")
	must(t, os.Mkdir(root, 0o755))
	put(t, filepath.Join(root, "probe.log"), "", 0o644)
	put(t, h.p.config, fmt.Sprintf(rotRules, root, root), 0o644)
	pick := os.Getenv("STOPLOG_ROTATIONS")
	for i := range rotKinds {
		k := &rotKinds[i]
		if k.restarts && os.Getenv("STOPLOG_SOAK") == "" && pick == "" {
			continue
		}
		if !strings.Contains(k.name, pick) || k.conf != "" && !has("logrotate") {
			continue
		}
		dir := filepath.Join(root, strings.ReplaceAll(k.name, " ", "-"))
		must(t, os.Mkdir(dir, 0o755))
		for j := range max(1, k.logs) {
			l := &rotLog{harness: h, kind: k, n: len(h.logs), dir: dir, path: filepath.Join(dir, fmt.Sprintf("app%d.log", j)), mayMiss: map[int]bool{}}
			if k.link {
				l.relink()
			} else {
				l.open()
			}
			h.logs = append(h.logs, l)
		}
	}
	return h
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *harness) start() {
	h.p.extra = []string{"--save-every", []string{"100ms", "300ms", "1s"}[h.rnd.IntN(3)]}
	h.note(strings.Join(h.p.extra, " "))
	h.p.start(h.t)
	h.down = false
	if len(h.sent) == 0 {
		h.p.out.waitFor(h.t, "caught up")
	}
	out := h.p.out
	go func() {
		for l := range out.lines {
			if os.Getenv("STOPLOG_VERBOSE") != "" {
				fmt.Fprintf(os.Stderr, "%8d %s\n", time.Since(h.begun).Milliseconds(), l)
			}
		}
	}()
}

// live writes and rotates for a while.
func (h *harness) live(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		h.step()
		// What pauses is the world that is tested, not the test.
		time.Sleep(time.Duration(h.rnd.IntN(120_000/len(h.logs))) * time.Microsecond)
	}
}

func (h *harness) step() {
	l := h.logs[h.rnd.IntN(len(h.logs))]
	l.writeLate()
	if h.rnd.IntN(4) > 0 {
		l.write(l.w, 1+h.rnd.IntN(3), false)
		return
	}
	if time.Now().Before(l.next) || l.kind.sure && (h.down || !l.settled()) {
		return
	}
	l.next = time.Now().Add(max(l.kind.every, 150*time.Millisecond))
	l.note("rotates")
	l.kind.turn(l)
	l.turns++
	h.turns++
	l.note("rotated")
}

// signal does one of what an administrator, a crash and a busy machine do.
func (h *harness) signal() {
	switch which := h.rnd.IntN(10); {
	case which < 5:
		h.note("KILL")
		h.sent["KILL"]++
		h.p.kill()
		h.away()
		h.note("start")
		h.start()
	case which < 8:
		h.note("TERM")
		h.sent["TERM"]++
		_ = h.p.cmd.Process.Signal(syscall.SIGTERM)
		if h.rnd.IntN(2) == 0 {
			h.step() // while it ends
		}
		<-h.p.ended
		h.away()
		h.note("start")
		h.start()
	default:
		h.note("STOP")
		h.sent["STOP"]++
		_ = h.p.cmd.Process.Signal(syscall.SIGSTOP)
		h.away()
		h.note("CONT")
		h.down = false
		_ = h.p.cmd.Process.Signal(syscall.SIGCONT)
	}
}

func (h *harness) away() {
	h.down = true
	h.live(time.Duration(h.rnd.IntN(1500)) * time.Millisecond)
}

func (h *harness) note(what string) {
	for _, l := range h.logs {
		l.note(what)
	}
}

func (l *rotLog) note(what string) {
	l.told = append(l.told, fmt.Sprintf("%d ms, line %d: %s", time.Since(l.begun).Milliseconds(), l.lines, what))
}

func (l *rotLog) open() {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(l.t, err)
	l.w = f
}

// write writes lines at once, each with an address of its own.
func (l *rotLog) write(f *os.File, n int, nameless bool) {
	var b bytes.Buffer
	for range n {
		fmt.Fprintf(&b, "%s host app[%d]: login failed id=%d ip=%s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"), l.n, l.lines, l.addr(l.lines))
		if nameless {
			l.mayMiss[l.lines] = true
		}
		l.written = append(l.written, time.Now())
		l.lines++
	}
	_, err := f.Write(b.Bytes())
	must(l.t, err)
}

func (l *rotLog) addr(i int) string { return fmt.Sprintf("2001:db8:%x:%x::1", l.n+1, i) }

// lag keeps the file open for a writer that goes on with it for a while.
func (l *rotLog) lag(f *os.File, nameless bool) {
	l.late = append(l.late, lateWriter{f, time.Now().Add(time.Duration(l.rnd.IntN(1000)) * time.Millisecond), nameless})
}

func (l *rotLog) writeLate() {
	l.late = slices.DeleteFunc(l.late, func(w lateWriter) bool {
		if time.Now().After(w.until) {
			w.f.Close()
			return true
		}
		if l.rnd.IntN(2) == 0 && (!l.kind.slowLate || l.rnd.IntN(8) == 0) {
			l.write(w.f, 1, w.nameless)
		}
		return false
	})
}

// savedPos is what the saved state reports about a log.
func (h *harness) savedPos(path string) (pos struct {
	Ino    uint64
	Offset int64
}) {
	b, err := os.ReadFile(filepath.Join(h.p.dir, "state", "dry-run", "state"))
	if err != nil {
		return pos
	}
	key, _ := json.Marshal(path)
	if _, rest, ok := bytes.Cut(b, append(key, ':')); ok {
		_ = json.NewDecoder(bytes.NewReader(rest)).Decode(&pos)
	}
	return pos
}

// isSaved reports whether all of the log's file is in the saved state.
func (l *rotLog) isSaved() bool {
	info, err := os.Stat(l.path)
	if err != nil {
		return false
	}
	pos := l.savedPos(l.path)
	return pos.Ino == info.Sys().(*syscall.Stat_t).Ino && pos.Offset == info.Size()
}

// settled waits a while until it is.
func (l *rotLog) settled() bool {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if l.isSaved() {
			return true
		}
	}
	return false
}

// addresses are those that were counted twice or more.
func (h *harness) addresses() map[string]bool {
	found := map[string]bool{}
	for l := range strings.Lines(h.p.ask(h.t, "list", "--json")) {
		var b struct{ Prefix string }
		must(h.t, json.Unmarshal([]byte(l), &b))
		found[strings.TrimSuffix(b.Prefix, "/64")] = true
	}
	return found
}

// judge waits until everything was read and tells what was lost and doubled.
func (h *harness) judge() {
	t := h.t
	for _, l := range h.logs {
		for _, w := range l.late {
			w.f.Close()
		}
		l.write(l.w, 1, false)
	}
	for _, l := range h.logs {
		h.await(l.path+" to be read to its end", l.isSaved)
	}
	doubled := h.addresses()
	probe, err := os.OpenFile(filepath.Join(h.p.dir, "logs", "probe.log"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	defer probe.Close()
	lines := 0
	for _, l := range h.logs {
		l.w.Close()
		for i := range l.lines {
			fmt.Fprintf(probe, "host app: login failed id=%d ip=%s\n", i, l.addr(i))
		}
		lines += l.lines
	}
	all := &rotLog{harness: h, path: probe.Name()}
	h.await("the probes to be read", all.isSaved)
	var counted map[string]bool
	missing := func() (n int) {
		for _, l := range h.logs {
			for i := range l.lines {
				if !counted[l.key(i)] && !l.mayMiss[i] {
					n++
				}
			}
		}
		return n
	}
	for end := time.Now().Add(patience / 3); ; time.Sleep(200 * time.Millisecond) {
		counted = h.addresses()
		if missing() == 0 || time.Now().After(end) {
			break
		}
	}
	lost, twice, nameless := 0, 0, 0
	for _, l := range h.logs {
		myLost, myTwice := []int{}, []int{}
		for i := range l.lines {
			if doubled[l.key(i)] {
				myTwice = append(myTwice, i)
			}
			switch {
			case counted[l.key(i)]:
			case l.mayMiss[i]:
				nameless++
			default:
				myLost = append(myLost, i)
			}
		}
		lost, twice = lost+len(myLost), twice+len(myTwice)
		l.explain("lost", myLost)
		l.explain("doubled", myTwice)
	}
	t.Logf("%d lines of %d logs, %d rotations, signals %v: %d lost, %d doubled, %d of files without a name lost", lines, len(h.logs), h.turns, h.sent, lost, twice, nameless)
}

// key is the address as a block shows it.
func (l *rotLog) key(i int) string {
	p, _ := netip.MustParseAddr(l.addr(i)).Prefix(64)
	return p.Addr().String()
}

// explain fails the test with the lines and what happened around the first.
func (l *rotLog) explain(what string, lines []int) {
	if len(lines) == 0 {
		return
	}
	first := l.written[lines[0]].Sub(l.begun).Milliseconds()
	var around []string
	for _, s := range l.told {
		var at int64
		fmt.Sscanf(s, "%d", &at)
		if at > first-2500 && at < first+8000 {
			around = append(around, s)
		}
	}
	l.t.Errorf("%s: %s %d lines, %v, the first written at %d ms\n%s", l.path, what, len(lines), lines[:min(len(lines), 20)], first, strings.Join(around, "\n"))
}

func (h *harness) await(what string, ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("waited for %s in vain: %s", what, h.p.ask(h.t, "status"))
		}
	}
}
