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
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/reconcile"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// live is a daemon that runs until the test ends.
type live struct {
	*daemon
	wall *firewalltest.Memory
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
	wall := firewalltest.NewMemory()
	x := startOn(t, dir, text, wall, nil)
	x.wall = wall
	return x
}

// startOn does the same on any wall, after tune.
func startOn(t *testing.T, dir, text string, wall firewall.Backend, tune func(*daemon, *reconcile.Options)) *live {
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
		o := reconcile.Options{Log: d.log, Ready: d.opt.Ready}
		tune(d, &o)
		d.reconciler = reconcile.New(wall, firewallLedger{d}, o)
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
		x.wall.Until(t, target+" held", func() bool { return x.wall.Has(target) })
	}
}

// turn makes the reconciler take a step at once instead of at its next tick.
func (x *live) turn(t *testing.T, step func(context.Context) error) {
	t.Helper()
	if err := step(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	x.wall.Until(t, "the covering block lifted", func() bool { return !x.wall.Has("192.0.2.0/28") })
	if !x.wall.Has("2001:db8::/64") {
		t.Error("an unblock lifted what it does not touch")
	}
	if _, err := x.c.Allow(context.Background(), control.Order{Target: "2001:db8::5"}); err != nil {
		t.Fatal(err)
	}
	x.wall.Until(t, "the allowance", func() bool {
		x.wall.Mu.Lock()
		defer x.wall.Mu.Unlock()
		return len(x.wall.Policy.Allow) == 1 && x.wall.Policy.Allow[0].String() == "2001:db8::5/128"
	})
}

// An allowance for a time is taken from the wall when it ends.
func TestAllowanceEnds(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	allowed := func() int {
		x.wall.Mu.Lock()
		defer x.wall.Mu.Unlock()
		return len(x.wall.Policy.Allow)
	}
	for target, ttl := range map[string]time.Duration{"198.51.100.7": 300 * time.Millisecond, "2001:db8::5": time.Hour} {
		if _, err := x.c.Allow(context.Background(), control.Order{Target: target, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	x.wall.Until(t, "both allowances", func() bool { return allowed() == 2 })
	x.wall.Until(t, "the end of one", func() bool { return allowed() == 1 })
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
		x.wall.Mu.Lock()
		defer x.wall.Mu.Unlock()
		return x.wall.Policy.Lockdown.Until.After(time.Now())
	}
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A first start begins at the end of the log: wait until that is known.
	x.until(t, "end of the log", func(s control.Status) bool { return s.State != "recovering" })
	for i := range 3 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for root from 192.0.2.%d port 4000 ssh2\n", time.Now().UTC().Format(time.RFC3339), i, 10*i)
	}
	x.wall.Until(t, "the lockdown", locked)
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
	x.wall.Until(t, "its end", func() bool { return !locked() })
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
	if n := len(x.wall.Held); n != 0 {
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
	x.wall.Fail(errors.New("xtables lock: held by another program"))
	for what, order := range map[string]func(context.Context, control.Order) (control.Answer, error){"block": x.c.Block, "unblock": x.c.Unblock, "allow": x.c.Allow} {
		target := "192.0.2.0/28"
		if what != "block" {
			target = map[string]string{"unblock": "198.51.100.0/28", "allow": "203.0.113.0/28"}[what]
			x.wall.Fail(nil)
			x.block(t, target)
			x.wall.Fail(errors.New("xtables lock: held by another program"))
		}
		if a, err := order(context.Background(), control.Order{Target: target}); err == nil || !strings.Contains(err.Error(), "xtables lock") {
			t.Errorf("%s while the wall fails: got %v, %v, want its error", what, a.Lines, err)
		}
	}
	// Degraded is said as soon as the first try failed.
	x.until(t, "report of the failing wall", func(s control.Status) bool { return s.State == "degraded" })
	if s := x.status(t); !strings.Contains(strings.Join(s.Trouble, " "), "xtables lock") {
		t.Errorf("status does not say what fails: %q", s.Trouble)
	}
	x.wall.Fail(nil)
	x.wall.Until(t, "the block after the wall works again", func() bool { return x.wall.Has("192.0.2.0/28") })
}

func TestFlushedWallIsRestored(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	x.block(t, "192.0.2.0/28", "192.0.2.16/28", "2001:db8::/64")
	x.wall.Meddle(func(held map[netip.Prefix]firewall.Entry) {
		clear(held)
		x.wall.Broken = true
	})
	x.turn(t, x.reconciler.CheckNow)
	for _, p := range []string{"192.0.2.0/28", "192.0.2.16/28", "2001:db8::/64"} {
		if !x.wall.Has(p) {
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
	x.wall.Meddle(func(held map[netip.Prefix]firewall.Entry) { delete(held, p) })
	x.turn(t, x.reconciler.CompareNow)
	if x.wall.Has("192.0.2.16/28") {
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
	x.wall.Meddle(func(held map[netip.Prefix]firewall.Entry) {
		p := netip.MustParsePrefix("203.0.113.0/28")
		held[p] = firewall.Entry{Prefix: p, Until: time.Now().Add(time.Hour)}
	})
	x.turn(t, x.reconciler.CompareNow)
	if x.wall.Has("203.0.113.0/28") {
		t.Error("what the ledger does not know of is still blocked")
	}
	if !x.wall.Has("192.0.2.0/28") {
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
	if !y.wall.Has("192.0.2.0/28") || !y.wall.Has("2001:db8::/64") {
		t.Errorf("the new wall holds %v", y.wall.Held)
	}
	if y.wall.Has("198.51.100.1/32") {
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

// TestProblems: status reports a listener or an export that fails until it
// works or is no longer configured.
func TestProblems(t *testing.T) {
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

// TestDeletionIsLookedAtTwice: what one listing misses and the next one has was
// not deleted by hand.
func TestDeletionIsLookedAtTwice(t *testing.T) {
	wall := &firewalltest.Hooked{Memory: firewalltest.NewMemory()}
	x := startOn(t, t.TempDir(), quietRules, wall, func(d *daemon, o *reconcile.Options) { o.Check, o.Compare = time.Hour, time.Hour })
	x.wall = wall.Memory
	x.block(t, "192.0.2.0/28", "198.51.100.0/28", "203.0.113.0/28")
	p, looks := netip.MustParsePrefix("192.0.2.0/28"), 0
	wall.OnList = func(emit func(firewall.Entry)) func(firewall.Entry) {
		looks++
		return func(e firewall.Entry) {
			if looks > 1 || e.Prefix != p {
				emit(e)
			}
		}
	}
	x.turn(t, x.reconciler.CompareNow)
	bs, err := x.c.List(context.Background())
	if err != nil || len(bs) != 3 || looks != 2 {
		t.Errorf("after %d looks %d blocks stand, %v; want 3 after 2", looks, len(bs), err)
	}
}
