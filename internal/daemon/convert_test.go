package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/detect"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/ledger"
	"stoplog/internal/protect"
	"stoplog/internal/reconcile"
	"stoplog/internal/rules"
)

// TestTrustedProxiesAreAllowed: a proxy speaks for everybody behind it, so it is
// exempt like what is listed under allow.
func TestTrustedProxiesAreAllowed(t *testing.T) {
	x := startDaemon(t, t.TempDir(), "use: []\nprotect: {own: false, ssh_peers: false}\nallow: [\"192.0.2.9\"]\nsources:\n  - {file: /nowhere/access.log, service: http, client: {header: x-forwarded-for, trusted: [198.51.100.0/24]}}\nrules:\n  - {name: r, match: {status: 404}, bucket: {capacity: 1, leak: 1m}}\n")
	x.wall.Until(t, "the allowlist in the wall", func() bool {
		x.wall.Mu.Lock()
		defer x.wall.Mu.Unlock()
		return slices.Equal(x.wall.Policy.Allow, []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32"), netip.MustParsePrefix("198.51.100.0/24")})
	})
	if _, err := x.c.Block(context.Background(), control.Order{Target: "198.51.100.7"}); err == nil {
		t.Error("a trusted proxy was blocked by hand")
	}
}

// TestRunningConnectionsAreCutOnce: a block that is prolonged cuts nothing again,
// for what runs by then was let in by an exception or came before it.
func TestRunningConnectionsAreCutOnce(t *testing.T) {
	set, problems := rules.LoadBytes("test", []byte("use: []\nfirewall: {cut: true}\nsources: [auth]\nrules:\n  - {name: r, match: {service: sshd}, bucket: {capacity: 1, leak: 1m}}\n"), "")
	if set == nil {
		t.Fatal(problems)
	}
	d := &daemon{set: set}
	p := netip.MustParsePrefix("192.0.2.0/28")
	for _, fresh := range []bool{true, false} {
		os := d.orders([]ledger.Change{{Op: ledger.Set, New: fresh, Block: ledger.Block{Prefix: p, Until: time.Now().Add(time.Hour)}}})
		if got := os[0].Entry; got.Cut != fresh || got.Action != firewall.Drop {
			t.Errorf("new %v: the wall gets %+v", fresh, got)
		}
	}
}

// TestLockdownLetsInItsService: during a lockdown, only sources that are known-good
// for the service of the lockdown's rule are let in.
func TestLockdownLetsInItsService(t *testing.T) {
	now := time.Now()
	l, _, err := ledger.Open("", now, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.RecoveryDone(now)
	for i, service := range []string{"sshd", "dovecot"} {
		l.Login(service, []byte("ann"), netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), now.UnixNano(), true)
	}
	l.Breach(&detect.Breach{At: now.UnixNano(), Rule: "lockdown", Key: "all", Services: []string{"sshd"}, Count: 150,
		Answers: []detect.Answer{{Kind: detect.Lockdown, For: time.Hour, Ports: []detect.Ports{{From: 22, To: 22}}}}}, now)
	d := &daemon{ledger: l}
	if got := fmt.Sprint(d.policy(now).Lockdown.Known); got != "[192.0.2.1]" {
		t.Errorf("got %s, want the one who logged in by SSH", got)
	}
}

// TestRestoredBlocksCutNothing: what a start, a repair or a comparison gives the
// wall again was cut when it was new.
func TestRestoredBlocksCutNothing(t *testing.T) {
	dir, text := t.TempDir(), quietRules+"\nfirewall: {cut: true}\n"
	x := startDaemon(t, dir, text)
	x.block(t, "192.0.2.0/28")
	p := netip.MustParsePrefix("192.0.2.0/28")
	check := func(when string, cut bool) {
		t.Helper()
		x.wall.Mu.Lock()
		defer x.wall.Mu.Unlock()
		if e, held := x.wall.Held[p]; !held || e.Cut != cut {
			t.Errorf("%s: held %v, cut %v, want %v", when, held, e.Cut, cut)
		}
	}
	check("new", true)
	x.wall.Meddle(func(held map[netip.Prefix]firewall.Entry) {
		clear(held)
		x.wall.Broken = true
	})
	x.turn(t, x.reconciler.CheckNow)
	check("restored", false)
	x.wall.Meddle(func(held map[netip.Prefix]firewall.Entry) {
		e := held[p]
		e.Until, e.Cut = e.Until.Add(-5*time.Minute), true
		held[p] = e
	})
	x.turn(t, x.reconciler.CompareNow)
	check("refreshed", false)
	x.stop()
	x = startDaemon(t, dir, text)
	check("after a start", false)
}

// TestRulesReachTheLedger: limits, floors and what protects somebody are not
// lost between the rules file and the ledger.
func TestRulesReachTheLedger(t *testing.T) {
	options := func(text string) ledger.Options {
		set, problems := rules.LoadBytes("test", []byte(text+"\nuse: []\nsources: [auth]\nrules: [{name: r, match: {service: sshd}, bucket: {capacity: 1, leak: 1m}}]\n"), "")
		if set == nil {
			t.Fatal(problems)
		}
		d := &daemon{set: set, log: slog.New(slog.DiscardHandler), opt: Options{FlagsDir: "/f"}}
		return d.ledgerOptions(set)
	}
	o := options("protect: {known_good: 5d}\nallow: [192.0.2.9]\ndeny: [203.0.113.0/24]\nblock: {ttl: 20m, multiply: 3, max: 9d, decay: 8d}\nfloor: {ipv4: 20, ipv6: 40}\nwiden: {over: 3, ipv4: 24, ttl: 2h}\nprivacy: {keep: 6d}\n")
	if o.KnownGood != 5*24*time.Hour || o.Floor4 != 20 || o.Floor6 != 40 || fmt.Sprint(o.Allow, o.Deny) != "[192.0.2.9/32] [203.0.113.0/24]" ||
		o.Escalation.TTL != 20*time.Minute || o.Escalation.Multiply != 3 || o.Escalation.Max != 9*24*time.Hour ||
		o.Widen.Count != 4 || o.Widen.Bits4 != 24 || o.Widen.TTL != 2*time.Hour || o.FlagsDir != "/f" {
		t.Errorf("got %+v", o)
	}
	if o.MaxBlocks == 0 || o.MaxKnown == 0 || o.MaxStrikes == 0 || o.MaxEvidence == 0 || o.MaxAudit == 0 || o.KeepAudit != 6*24*time.Hour {
		t.Errorf("without a limit: %+v", o)
	}
	if o := options("protect: {known_good: 0s}\n"); o.KnownGood >= 0 || o.Widen.Count != 0 {
		t.Errorf("nobody is known-good, nothing widened: got %+v", o)
	}
}

// TestProtectedLater: an address that becomes the machine's own while it is
// blocked is lifted at once, passes the wall, and is not blocked again.
func TestProtectedLater(t *testing.T) {
	own := netip.MustParseAddr("198.51.100.7")
	var found []net.Addr
	wall := firewalltest.NewMemory()
	x := startOn(t, t.TempDir(), strings.Replace(quietRules, "own: false", "own: true", 1), wall, func(d *daemon, o *reconcile.Options) {
		o.Check, o.Compare = time.Hour, time.Hour // no comparison does it later
		d.finder = protect.Finder{Root: t.TempDir(), Interfaces: func() ([]net.Addr, error) { return found, nil }}
	})
	x.wall = wall
	x.block(t, "198.51.100.7/32", "192.0.2.0/28")
	err := x.ask(context.Background(), func() {
		found = []net.Addr{&net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(24, 32)}}
		x.refreshProtected(time.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	wall.Until(t, "the machine's own address lifted and allowed", func() bool {
		wall.Mu.Lock()
		defer wall.Mu.Unlock()
		_, held := wall.Held[netip.MustParsePrefix("198.51.100.7/32")]
		return !held && slices.Contains(wall.Policy.Allow, netip.PrefixFrom(own, 32))
	})
	if _, err := x.c.Block(context.Background(), control.Order{Target: own.String()}); err == nil {
		t.Error("it was blocked again")
	}
	if !wall.Has("192.0.2.0/28") {
		t.Error("another block went, too")
	}
}
