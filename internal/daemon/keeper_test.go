package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// testWall is a wall in memory that fails when told and can be changed by
// others behind our back.
type testWall struct {
	mu      sync.Mutex
	held    map[netip.Prefix]firewall.Entry
	policy  firewall.Policy
	failing error
	broken  bool
	setups  int
	changed chan struct{} // one token a call that changed something
}

func newTestWall() *testWall {
	return &testWall{held: map[netip.Prefix]firewall.Entry{}, changed: make(chan struct{}, 10000)}
}

func (w *testWall) Name() string { return "test" }

func (w *testWall) do(f func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	f()
	w.changed <- struct{}{}
	return nil
}

func (w *testWall) Setup(_ context.Context, p firewall.Policy) error {
	return w.do(func() { w.policy, w.broken, w.setups = p, false, w.setups+1 })
}

func (w *testWall) Block(_ context.Context, es []firewall.Entry) error {
	return w.do(func() {
		for _, e := range es {
			w.held[e.Prefix] = e
		}
	})
}

func (w *testWall) Unblock(_ context.Context, ps []netip.Prefix) error {
	return w.do(func() {
		for _, p := range ps {
			delete(w.held, p)
		}
	})
}

func (w *testWall) List(_ context.Context, emit func(firewall.Entry)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	for _, e := range w.held {
		emit(e)
	}
	return nil
}

func (w *testWall) Teardown(context.Context) error { return nil }

func (w *testWall) Check(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing != nil {
		return w.failing
	}
	if w.broken {
		return fmt.Errorf("table test: %w", firewall.ErrBroken)
	}
	return nil
}

// fail makes every order fail with err, nil to work again.
func (w *testWall) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = err
}

// meddle lets somebody else change the wall.
func (w *testWall) meddle(f func(held map[netip.Prefix]firewall.Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.held)
}

func (w *testWall) has(p string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.held[netip.MustParsePrefix(p)]
	return ok
}

// until waits until ok, looking again whenever the wall was changed.
func (w *testWall) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-w.changed:
		case <-timeout:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// live is a daemon that runs until the test ends.
type live struct {
	*daemon
	wall *testWall
	c    *control.Client
	log  *syncBuffer
	stop func()
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const quietRules = `
use: []
protect: {own: false, ssh_peers: false}
block: {ttl: 1h, multiply: 1}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`

// startDaemon runs a daemon with the rules on a state folder and waits until
// its wall stands.
func startDaemon(t *testing.T, dir, text string) *live {
	t.Helper()
	wall := newTestWall()
	x := startOn(t, dir, text, wall, nil)
	x.wall = wall
	return x
}

// startOn does the same on any wall, after tune.
func startOn(t *testing.T, dir, text string, wall firewall.Backend, tune func(*keeper)) *live {
	t.Helper()
	sock := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	ready := make(chan struct{})
	d, err := open(Options{
		Version: "test", StateDir: dir, Listener: l, Wall: wall, WallName: "test",
		Load:  func() (*rules.Set, []rules.Problem) { return rules.LoadBytes("test", []byte(text), "") },
		Log:   slog.New(slog.NewTextHandler(io.Writer(log), nil)),
		Ready: func() { close(ready) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if tune != nil {
		tune(d.keeper)
	}
	// signal.NotifyContext of Go 1.26.0 gives a cause that is not context.Canceled.
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	x := &live{daemon: d, c: control.Dial(sock), log: log}
	var once sync.Once
	x.stop = func() {
		once.Do(func() {
			x.c.Close()
			cancel(errors.New("terminated signal received"))
			if err := <-done; err != nil {
				t.Errorf("the daemon ended with: %v", err)
			}
			d.ledger.Close()
		})
	}
	t.Cleanup(x.stop)
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatalf("not ready:\n%s", log)
	}
	return x
}

func (x *live) block(t *testing.T, targets ...string) {
	t.Helper()
	for _, target := range targets {
		if _, err := x.c.Block(context.Background(), control.Order{Target: target}); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range targets {
		x.wall.until(t, target+" held", func() bool { return x.wall.has(target) })
	}
}

// turn makes the keeper look at once instead of at its next tick.
func (x *live) turn(step func(context.Context) error) {
	x.keeper.settle(context.Background(), step)
}

func (x *live) status(t *testing.T) control.Status {
	t.Helper()
	s, err := x.c.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOrdersReachTheWall(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28", "2001:db8::/64")
	if _, err := x.c.Unblock(context.Background(), control.Order{Target: "192.0.2.7"}); err != nil {
		t.Fatal(err)
	}
	x.wall.until(t, "the covering block lifted", func() bool { return !x.wall.has("192.0.2.0/28") })
	if !x.wall.has("2001:db8::/64") {
		t.Error("an unblock lifted what it does not touch")
	}
	if _, err := x.c.Allow(context.Background(), control.Order{Target: "2001:db8::5"}); err != nil {
		t.Fatal(err)
	}
	x.wall.until(t, "the allowance", func() bool {
		x.wall.mu.Lock()
		defer x.wall.mu.Unlock()
		return len(x.wall.policy.Allow) == 1 && x.wall.policy.Allow[0].String() == "2001:db8::5/128"
	})
}

// An allowance for a time is taken from the wall when it ends.
func TestAllowanceEnds(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	allowed := func() int {
		x.wall.mu.Lock()
		defer x.wall.mu.Unlock()
		return len(x.wall.policy.Allow)
	}
	for target, ttl := range map[string]time.Duration{"198.51.100.7": 300 * time.Millisecond, "2001:db8::5": time.Hour} {
		if _, err := x.c.Allow(context.Background(), control.Order{Target: target, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	x.wall.until(t, "both allowances", func() bool { return allowed() == 2 })
	x.wall.until(t, "the end of one", func() bool { return allowed() == 1 })
}

const lockdownRules = `
use: []
sources: [{file: LOG, service: sshd}]
protect: {own: false, ssh_peers: false}
widen: {ipv4: 24, over: 3, ttl: 2h}
rules:
  - name: lockdown
    match: {service: sshd, outcome: failure}
    key: all
    window: {count: 3, within: 1m}
    then: [{lockdown: {ports: [22], for: 1h}}]
`

// A lockdown is listed, and somebody can end it.
func TestLockdownEndsByHand(t *testing.T) {
	log := filepath.Join(t.TempDir(), "auth.log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x := startDaemon(t, t.TempDir(), strings.Replace(lockdownRules, "LOG", log, 1))
	locked := func() bool {
		x.wall.mu.Lock()
		defer x.wall.mu.Unlock()
		return x.wall.policy.Lockdown.Until.After(time.Now())
	}
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A first start begins at the end of the log: wait until that is known.
	for deadline := time.Now().Add(30 * time.Second); x.status(t).State == "recovering"; {
		if time.Now().After(deadline) {
			t.Fatal("the log is not followed")
		}
	}
	for i := range 3 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for root from 192.0.2.%d port 4000 ssh2\n", time.Now().UTC().Format(time.RFC3339), i, 10*i)
	}
	x.wall.until(t, "the lockdown", locked)
	fs, err := x.c.Flags(context.Background())
	if err != nil || len(fs) != 1 || fs[0].Name != "lockdown" || fs[0].By != "rule lockdown" {
		t.Errorf("flags = %v, %v; want the lockdown", fs, err)
	}
	if _, err := x.c.SetFlag(context.Background(), control.FlagOrder{Name: "lockdown", For: time.Hour}); err == nil {
		t.Error("a flag was raised that looks like a lockdown")
	}
	if _, err := x.c.ClearFlag(context.Background(), control.FlagOrder{Name: "lockdown"}); err != nil {
		t.Fatal(err)
	}
	x.wall.until(t, "its end", func() bool { return !locked() })
	if fs, _ := x.c.Flags(context.Background()); len(fs) != 0 {
		t.Errorf("flags after its end: %v", fs)
	}
	if w := x.ledgerOptions(x.set).Widen; w.Count != 4 || w.TTL != 2*time.Hour {
		t.Errorf("widen over 3 for 2h: got %+v, want 4 for 2h", w)
	}
}

func TestRefusals(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules+"allow: [\"198.51.100.0/24\"]\n")
	for target, word := range map[string]string{
		"198.51.100.7":       "allow",
		"0.0.0.0/0":          "floor",
		"10.0.0.0/8":         "floor",
		"::/0":               "floor",
		"host.example":       "not an IP address",
		"192.0.2.1/33":       "not an IP address",
		"fe80::1%eth0":       "not an IP address",
		"::ffff:1.2.3.0/120": "not an IP address",
	} {
		_, err := x.c.Block(context.Background(), control.Order{Target: target})
		if !errors.Is(err, control.ErrBadOrder) {
			t.Errorf("block %s: %v, want a refusal", target, err)
		} else if !strings.Contains(err.Error(), word) {
			t.Errorf("block %s: %v, want a word of %q", target, err, word)
		}
	}
	if n := len(x.wall.held); n != 0 {
		t.Errorf("%d refused orders reached the wall", n)
	}
}

// TestAllowedArePrefixes: all that is exempt is told as prefixes, which export
// reads; protected addresses too.
func TestAllowedArePrefixes(t *testing.T) {
	x := startDaemon(t, t.TempDir(), strings.Replace(quietRules, "own: false", "own: true", 1)+"allow: [\"198.51.100.7\"]\n")
	as, err := x.c.Allowed(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	protected := 0
	for _, a := range as {
		if strings.HasPrefix(a.Origin, "protected") {
			protected++
		}
		if _, err := netip.ParsePrefix(a.Prefix); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if protected == 0 {
		t.Errorf("got %+v, want the machine's own addresses too", as)
	}
}

func TestFailingWallIsRetried(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.wall.fail(errors.New("xtables lock: held by another program"))
	for what, order := range map[string]func(context.Context, control.Order) (control.Answer, error){"block": x.c.Block, "unblock": x.c.Unblock, "allow": x.c.Allow} {
		target := "192.0.2.0/28"
		if what != "block" {
			target = map[string]string{"unblock": "198.51.100.0/28", "allow": "203.0.113.0/28"}[what]
			x.wall.fail(nil)
			x.block(t, target)
			x.wall.fail(errors.New("xtables lock: held by another program"))
		}
		if a, err := order(context.Background(), control.Order{Target: target}); err == nil || !strings.Contains(err.Error(), "xtables lock") {
			t.Errorf("%s while the wall fails: got %v, %v, want its error", what, a.Lines, err)
		}
	}
	// Degraded is said as soon as the first try failed.
	deadline := time.Now().Add(30 * time.Second)
	for x.status(t).State != "degraded" {
		if time.Now().After(deadline) {
			t.Fatal("a failing wall is not reported")
		}
	}
	if s := x.status(t); !strings.Contains(strings.Join(s.Trouble, " "), "xtables lock") {
		t.Errorf("status does not say what fails: %q", s.Trouble)
	}
	x.wall.fail(nil)
	x.wall.until(t, "the block after the wall works again", func() bool { return x.wall.has("192.0.2.0/28") })
}

// lameWalls are two walls of which the second fails.
type lameWalls struct{ *testWall }

func (w lameWalls) Block(ctx context.Context, es []firewall.Entry) error {
	return errors.Join(w.testWall.Block(ctx, es), errors.New("the second wall fails"))
}

func (w lameWalls) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return errors.Join(w.testWall.Unblock(ctx, ps), errors.New("the second wall fails"))
}

// What is decided while a wall is waited for reaches those that work.
func TestOneWallFailsAlone(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	w := lameWalls{newTestWall()}
	k := newKeeper(w, x.daemon)
	gone, come := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("192.0.2.16/28")
	w.held[gone] = firewall.Entry{Prefix: gone}
	ctx, cancel := context.WithCancel(context.Background())
	paused := make(chan struct{})
	go func() {
		defer close(paused)
		k.pause(ctx, time.Hour)
	}()
	k.change([]ledger.Change{
		{Op: ledger.Lift, Block: ledger.Block{Prefix: gone}},
		{Op: ledger.Set, Block: ledger.Block{Prefix: come, Until: time.Now().Add(time.Hour)}},
	})
	w.until(t, "the block that came during the pause", func() bool { return w.has(come.String()) && !w.has(gone.String()) })
	cancel()
	<-paused
	if len(k.queue) != 2 {
		t.Errorf("%d orders wait for the wall that fails, want 2", len(k.queue))
	}
}

func TestFlushedWallIsRestored(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28", "192.0.2.16/28", "2001:db8::/64")
	x.wall.meddle(func(held map[netip.Prefix]firewall.Entry) { clear(held) })
	x.wall.broken = true
	x.turn(x.keeper.check)
	for _, p := range []string{"192.0.2.0/28", "192.0.2.16/28", "2001:db8::/64"} {
		if !x.wall.has(p) {
			t.Errorf("%s was not restored", p)
		}
	}
	if !strings.Contains(x.log.String(), "restoring") {
		t.Error("the repair was not reported")
	}
}

func TestDeletedByHandStaysSo(t *testing.T) {
	dir := t.TempDir()
	x := startDaemon(t, dir, quietRules)
	x.block(t, "192.0.2.0/28", "192.0.2.16/28", "2001:db8::/64")
	p := netip.MustParsePrefix("192.0.2.16/28")
	x.wall.meddle(func(held map[netip.Prefix]firewall.Entry) { delete(held, p) })
	x.turn(x.keeper.compare)
	if x.wall.has("192.0.2.16/28") {
		t.Error("what the administrator deleted came back")
	}
	bs, err := x.c.List(context.Background())
	if err != nil || len(bs) != 2 {
		t.Errorf("list = %v, %v; want the two others", bs, err)
	}
	h, err := x.c.History(context.Background(), control.HistoryQuery{Target: "192.0.2.16/28"})
	if err != nil || len(h) == 0 || h[0].What != "unblock" || h[0].By != "firewall tools" {
		t.Errorf("the audit trail has %+v, %v", h, err)
	}
}

func TestForeignElementsGo(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28")
	x.wall.meddle(func(held map[netip.Prefix]firewall.Entry) {
		p := netip.MustParsePrefix("203.0.113.0/28")
		held[p] = firewall.Entry{Prefix: p, Until: time.Now().Add(time.Hour)}
	})
	x.turn(x.keeper.compare)
	if x.wall.has("203.0.113.0/28") {
		t.Error("what the ledger does not know of is still blocked")
	}
	if !x.wall.has("192.0.2.0/28") {
		t.Error("our own block went")
	}
}

// TestRestart looks at what a new daemon makes of the state of an old one.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	x := startDaemon(t, dir, quietRules)
	x.block(t, "192.0.2.0/28", "2001:db8::/64")
	if _, err := x.c.Block(context.Background(), control.Order{Target: "198.51.100.1", TTL: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	x.stop()
	y := startDaemon(t, dir, quietRules)
	if !y.wall.has("192.0.2.0/28") || !y.wall.has("2001:db8::/64") {
		t.Errorf("the new wall holds %v", y.wall.held)
	}
	if y.wall.has("198.51.100.1/32") {
		t.Error("what expired meanwhile is back")
	}
}

// TestReload keeps the old rules when the new ones are broken.
func TestReload(t *testing.T) {
	text := quietRules
	x := startDaemon(t, t.TempDir(), quietRules)
	x.opt.Load = func() (*rules.Set, []rules.Problem) { return rules.LoadBytes("test", []byte(text), "") }
	text = "deny: [192.0.2.1]\nuse: [-ssh]\n" + strings.Replace(strings.Replace(quietRules, "use: []\n", "", 1), "capacity", "capcity", 1)
	a, err := x.c.Reload(context.Background())
	if err != nil || len(a.Problems) != 1 || !strings.Contains(strings.Join(a.Problems, " "), "capacity") {
		t.Errorf("a broken file: %+v, %v", a, err)
	}
	if s := x.status(t); s.State != "degraded" || len(s.RuleStats) != 1 {
		t.Errorf("after a refused reload: %s, %d rules", s.State, len(s.RuleStats))
	}
	text = quietRules + "  - name: second\n    match: {service: vsftpd, outcome: failure}\n    bucket: {capacity: 5, leak: 1m}\n"
	a, err = x.c.Reload(context.Background())
	if err != nil || len(a.Problems) != 0 {
		t.Fatalf("a good file: %+v, %v", a, err)
	}
	if s := x.status(t); s.State != "ok" || len(s.RuleStats) != 2 {
		t.Errorf("after a reload: %s, %d rules", s.State, len(s.RuleStats))
	}
	x.opt.Load = func() (*rules.Set, []rules.Problem) { return rules.LoadBytes("other", []byte(text), "") }
	a, err = x.c.Reload(context.Background())
	if err != nil || len(a.Lines) != 1 || !strings.HasSuffix(a.Lines[0], " from other") || x.status(t).Rules != "other" {
		t.Errorf("rules that came from elsewhere: %+v, %v, status says %q", a, err, x.status(t).Rules)
	}
}

// TestPlights: status tells of a listener or an export that fails until it
// works, or is wanted no more.
func TestPlights(t *testing.T) {
	dir := t.TempDir()
	with := func(s string) func() (*rules.Set, []rules.Problem) {
		return func() (*rules.Set, []rules.Problem) { return rules.LoadBytes("test", []byte(quietRules+s), "") }
	}
	x := startDaemon(t, t.TempDir(), quietRules)
	reload := func(s, want string) {
		t.Helper()
		x.opt.Load = with(s)
		if a, err := x.c.Reload(context.Background()); err != nil || len(a.Problems) != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			got := strings.Join(x.status(t).Trouble, "; ")
			if want == "" && got == "" || want != "" && strings.Contains(got, want) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("trouble is %q, want %q", got, want)
			}
		}
	}
	token := filepath.Join(dir, "token")
	for _, at := range []string{"feed", "metrics"} {
		reload("listen: {"+at+": {addr: \"127.0.0.1:0\", token_file: "+token+"}}\n", at+": ")
		reload("", "")
	}
	reload("listen: {page: {addr: \"192.0.2.1:1\"}}\n", "the page: ")
	reload("exports: {format: plain, file: "+filepath.Join(dir, "none", "list")+"}\n", "no such file")
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o755); err != nil {
		t.Fatal(err)
	}
	reload("exports: {format: plain, file: "+filepath.Join(dir, "none", "list")+"}\n", "")
}

// A file of customers is taken up by itself; the rules beside it, which
// somebody may be editing, only when that is asked for.
func TestTiersAreReread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("acme: free\n")
	text := quietRules + "    key: user\n    tiers: {by: user, file: " + file + ", default: free, free: {capacity: 1, leak: 1s}, pro: {capacity: 9, leak: 1s}}\n    then: [{flag: f, for: 1m}]\n"
	text = strings.Replace(text, "    bucket: {capacity: 5, leak: 1m}\n", "", 1)
	x := startDaemon(t, t.TempDir(), text)
	room := func(n int, when string) {
		t.Helper()
		err := x.ask(context.Background(), func() {
			x.lookAround(time.Now())
			if got := x.set.Rules[0].Tiers.Of("acme").Capacity; got != n || len(x.set.Rules) != 1 {
				t.Errorf("%s: got a room of %d in %d rules, want %d in 1", when, got, len(x.set.Rules), n)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	room(1, "at first")
	err := x.ask(context.Background(), func() {
		edited := text + "  - {name: half-done, match: {service: vsftpd}, bucket: {capacity: 5, leak: 1m}}\n"
		x.opt.Load = func() (*rules.Set, []rules.Problem) { return rules.LoadBytes("test", []byte(edited), "") }
	})
	if err != nil {
		t.Fatal(err)
	}
	write("acme: pro\n# grown\n")
	room(9, "a new tier")
	write("acme: prro\n")
	room(9, "a mistake")
	if got := x.status(t).Trouble; len(got) != 1 || !strings.Contains(got[0], file+":1:7") {
		t.Errorf("a mistake: got trouble %q, want its place", got)
	}
	write("acme: free\n# and shrunk again\n")
	room(1, "mended")
	if got := x.status(t).Trouble; len(got) != 0 {
		t.Errorf("mended: got trouble %q", got)
	}
}

// The log calls a block of a whole network what the list calls it.
func TestWidenedInTheLog(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules+"widen: {ipv4: 24, over: 1}\n")
	err := x.ask(context.Background(), func() {
		now := time.Now()
		b := &source.Batch{Origin: &source.Origin{Name: "auth.log", Spec: -1}, Arrival: now}
		for i := range 12 {
			text := fmt.Sprintf("%s h sshd[%d]: Failed password for bob from 192.0.2.%d port 22 ssh2", now.Format(time.RFC3339), i+1, i/6*16+1)
			b.Lines = append(b.Lines, source.Line{Text: []byte(text), Number: int64(i + 1)})
		}
		x.take(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prefix=192.0.2.16/28 rule=ssh-login count=6", "prefix=192.0.2.0/24 rule=widen count=2"} {
		if got := x.log.String(); !strings.Contains(got, want) {
			t.Errorf("got the log %s\nwant %s", got, want)
		}
	}
}

// TestFeud: changes of the wall are repaired at once, but for those that never
// end: these after a pause, and status reports them.
func TestFeud(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	k := x.daemon.keeper
	for range patient {
		if wait := k.repairing("a test"); wait != 0 {
			t.Errorf("one of the first repairs waits %s", wait)
		}
	}
	if got := x.status(t).Trouble; len(got) > 0 {
		t.Errorf("after %d repairs: got trouble %q", patient, got)
	}
	for range 100 {
		if wait := k.repairing("a test"); wait != truce {
			t.Fatalf("waits %s, want %s", wait, truce)
		}
	}
	if got := strings.Join(x.status(t).Trouble, "; "); !strings.Contains(got, "103 times") {
		t.Errorf("at last: trouble %q", got)
	}
	if n := strings.Count(x.log.String(), "somebody changed the wall"); n > 10 {
		t.Errorf("logged %d times", n)
	}
	f := feud{last: time.Now().Add(-2 * peace), times: 100}
	if told := f.trouble(time.Now()); told != "" || f.again(time.Now()) != 0 {
		t.Errorf("in peace: told %q, or a repair waits", told)
	}
}

// TestBrokenOnce: what was broken several times is restored once.
func TestBrokenOnce(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28")
	x.stop()
	more := make(chan firewall.Change, 16)
	for range cap(more) {
		more <- firewall.Change{Broken: true}
	}
	before := x.wall.setups
	if err := x.keeper.onChange(t.Context(), firewall.Change{Broken: true}, more); err != nil {
		t.Fatal(err)
	}
	if n := x.wall.setups - before; len(more) > 0 || n > 1 {
		t.Errorf("set up %d times, %d changes wait still", n, len(more))
	}
	if n := x.keeper.status().feud.times; n != 1 {
		t.Errorf("counted as %d repairs, want 1", n)
	}
}

// hookedWall calls a function before each look and each order to block.
type hookedWall struct {
	*testWall
	list  func(emit func(firewall.Entry)) func(firewall.Entry)
	block func() error
}

func (w *hookedWall) List(ctx context.Context, emit func(firewall.Entry)) error {
	if w.list != nil {
		emit = w.list(emit)
	}
	return w.testWall.List(ctx, emit)
}

func (w *hookedWall) Block(ctx context.Context, es []firewall.Entry) error {
	if w.block != nil {
		return w.block()
	}
	return w.testWall.Block(ctx, es)
}

// TestDeletionIsLookedAtTwice: what one listing misses and the next one has was
// not deleted by hand.
func TestDeletionIsLookedAtTwice(t *testing.T) {
	wall := &hookedWall{testWall: newTestWall()}
	x := startOn(t, t.TempDir(), quietRules, wall, func(k *keeper) { k.checks, k.lists = time.Hour, time.Hour })
	x.wall = wall.testWall
	x.block(t, "192.0.2.0/28", "198.51.100.0/28", "203.0.113.0/28")
	p, looks := netip.MustParsePrefix("192.0.2.0/28"), 0
	wall.list = func(emit func(firewall.Entry)) func(firewall.Entry) {
		looks++
		return func(e firewall.Entry) {
			if looks > 1 || e.Prefix != p {
				emit(e)
			}
		}
	}
	x.turn(x.keeper.compare)
	bs, err := x.c.List(context.Background())
	if err != nil || len(bs) != 3 || looks != 2 {
		t.Errorf("after %d looks %d blocks stand, %v; want 3 after 2", looks, len(bs), err)
	}
}

// TestNewerOrderWins: an order that failed is not tried again over a newer one of
// the same prefix.
func TestNewerOrderWins(t *testing.T) {
	set, problems := rules.LoadBytes("test", []byte(quietRules), "")
	if set == nil {
		t.Fatal(problems)
	}
	wall := &hookedWall{testWall: newTestWall()}
	k := newKeeper(wall, &daemon{set: set})
	order := func(op ledger.Op, prefix string) {
		k.change([]ledger.Change{{Op: op, Block: ledger.Block{Prefix: netip.MustParsePrefix(prefix), Until: time.Now().Add(time.Hour)}}})
	}
	wall.block = func() error {
		order(ledger.Lift, "192.0.2.0/28")
		return errors.New("down")
	}
	order(ledger.Set, "192.0.2.0/28")
	order(ledger.Set, "198.51.100.0/28")
	if err := k.drain(context.Background()); err == nil {
		t.Fatal("the wall did not fail")
	}
	for prefix, lift := range map[string]bool{"192.0.2.0/28": true, "198.51.100.0/28": false} {
		if o, queued := k.queue[netip.MustParsePrefix(prefix)]; !queued || o.lift != lift {
			t.Errorf("%s: queued %v, to lift %v, want %v", prefix, queued, o.lift, lift)
		}
	}
}
