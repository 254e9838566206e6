package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

// TestNeverBlocked: whoever asks, a rule, the administrator or a list.
func TestNeverBlocked(t *testing.T) {
	bad := []string{"0.0.0.0/28", "224.0.0.240/28", "255.255.255.255/32", "169.254.1.0/28", "::/64", "ff02::/16", "fe80::/64", "fe80::1/128", "64:ff9b::/64"}
	l := fresh(t, Options{Floor6: 16, Deny: append(pfxs(bad...), pfx("198.51.100.0/24"))})
	l.deny(epoch)
	if got := brief(l.List(epoch)); !strings.HasPrefix(got, "198.51.100.0/24") || strings.Contains(got, " ") {
		t.Errorf("the deny list: %s", got)
	}
	for _, p := range bad {
		if cs, err := l.BlockByHand(pfx(p), time.Hour, "", "me", epoch); err == nil || len(cs) > 0 || !strings.Contains(err.Error(), p) {
			t.Errorf("%s by hand: %v, %s", p, err, changes(cs))
		}
		if o := l.Breach(breach(p, 1), epoch); len(o.Changes) > 0 || len(o.Refused) != 1 {
			t.Errorf("%s by a rule: %s, refused %q", p, changes(o.Changes), o.Refused)
		}
	}
	for _, p := range []string{"192.0.2.0/28", "203.0.113.0/24", "2001:db8::/64", "240.0.0.0/28"} {
		if _, err := l.BlockByHand(pfx(p), time.Hour, "", "me", epoch); err != nil {
			t.Error(err)
		}
	}
}

// TestOldStateOfNever: what an older version blocked goes with the first start.
func TestOldStateOfNever(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	for _, p := range []string{"64:ff9b::/64", "ff02::/64", "192.0.2.0/28"} {
		l.adopt(Block{Prefix: pfx(p), Rule: "ssh", Since: at(0), Until: at(3600), Strikes: 1})
	}
	if err := l.Save(at(1), nil); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, rec := opened(t, dir, at(2), Options{})
	if got := brief(l.List(at(2))); got != "192.0.2.0/28+1h0m0s" || len(rec.Notes) > 0 {
		t.Errorf("got %s, notes %q", got, rec.Notes)
	}
}

// TestFormsOfOneClient: an IPv4 client is one client by whatever address.
func TestFormsOfOneClient(t *testing.T) {
	forms := []string{"192.0.2.1", "64:ff9b::c000:201", "2002:c000:201:5::7", "2001:0:4136:e378:8000:63bf:3fff:fdfe"}
	l := fresh(t, Options{Allow: pfxs("192.0.2.7/32", "2002:c000:208::/48")})
	verdict := func(a string, at int64) detect.Verdict { return l.Verdict(adr(a), "sshd", []byte("bob"), at) }
	now := at(10).UnixNano()
	for _, form := range forms {
		l.Login("sshd", []byte("bob"), adr(form), at(0).UnixNano(), true)
		for _, other := range forms {
			if v := verdict(other, now); v != detect.KnownGood || !l.KnownAddr(adr(other), "sshd", now) {
				t.Errorf("%s after a login from %s: verdict %d", other, form, v)
			}
		}
		clear(l.known.by)
		l.known.n = 0
	}
	if _, err := l.BlockByHand(pfx("64:ff9b::c000:200/124"), time.Hour, "", "me", at(1)); err != nil {
		t.Fatal(err)
	}
	if got := brief(l.List(at(1))); got != "192.0.2.0/28+1h0m0s" {
		t.Errorf("blocked by hand by a form: %s", got)
	}
	for _, form := range forms {
		if v := verdict(form, now); v != detect.Blocked {
			t.Errorf("%s inside the block: verdict %d", form, v)
		}
		if bs := l.Covering(adr(form), at(10)); len(bs) != 1 {
			t.Errorf("%s is covered by %s", form, brief(bs))
		}
	}
	for _, exempt := range []string{"192.0.2.7", "64:ff9b::c000:207", "2002:c000:207::9", "2002:c000:208::9"} {
		if v := verdict(exempt, now); v != detect.Allowed {
			t.Errorf("%s is allowed: verdict %d", exempt, v)
		}
	}
	if v := verdict("192.0.2.8", now); v != detect.Blocked {
		t.Errorf("only a form of 192.0.2.8 is allowed: verdict %d", v)
	}
	lifted, err := l.Unblock(pfx("2002:c000:205::/48"), "me", at(11))
	if err != nil || changes(lifted.Changes) != "lift 192.0.2.0/28" {
		t.Errorf("unblock by a form: %s, %v", changes(lifted.Changes), err)
	}
	for _, form := range forms {
		if v := verdict(form, now); v != detect.Allowed { // forgiven up to now
			t.Errorf("%s after the unblock: verdict %d", form, v)
		}
	}
}

// neighbours is a breach of a whole network, counted by /64.
func neighbours(prefix string, seconds int) *detect.Breach {
	b := breach(prefix, seconds)
	b.Narrow, b.TTL = 64, time.Hour
	return b
}

// TestKnownGoodInsideANetworkPass: a block of a network lets those pass from
// which somebody logged in, for detection, walls and exports alike, and over a
// restart; not those that another block holds.
func TestKnownGoodInsideANetworkPass(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	for _, a := range []string{"2001:db8:1:2::5", "2001:db8:1:2::9", "2001:db8:1:3::5", "2001:db8:1:4::5", "2001:db8:2::1", "192.0.2.1"} {
		l.Login("sshd", []byte("ann"), adr(a), at(0).UnixNano(), true)
	}
	l.Login("sshd", []byte("ann"), adr("2001:db8:1:6::5"), at(0).UnixNano(), false)                     // perhaps forged
	l.Login("sshd", []byte("ann"), adr("2001:db8:1:8::5"), at(10).Add(-l.o.KnownGood).UnixNano(), true) // too long ago
	l.Login("sshd", []byte("ann"), adr("2001:db8:1:9::5"), at(15).UnixNano(), true)                     // afterwards
	first := neighbours("2001:db8:1::/48", 10)
	first.Evidence = []string{"a line"}
	o := l.Breach(first, at(10))
	if got := changes(o.Changes); got != "set 2001:db8:1::/48 until 1h0m10s new" || len(o.Refused) > 0 {
		t.Fatalf("got %s, refused %q", got, o.Refused)
	}
	want := pfxs("2001:db8:1:2::/64", "2001:db8:1:3::/64", "2001:db8:1:4::/64")
	check := func(when string, l *Ledger, want []netip.Prefix) {
		t.Helper()
		if got := l.Excepted(at(20)); !slices.Equal(got, want) {
			t.Errorf("%s: %v pass, want %v", when, got, want)
		}
		if got := l.AllowedPrefixes(at(20)); !slices.Equal(got, want) {
			t.Errorf("%s: walls let %v pass, want %v", when, got, want)
		}
	}
	check("blocked", l, want)
	for i := range 300 { // what fills the memory for evidence takes no exception away
		b := breach(fmt.Sprintf("20.%d.%d.0/28", i/250, i%250), 11)
		b.Evidence = slices.Repeat([]string{strings.Repeat("x", 1000)}, 16)
		l.Breach(b, at(11))
	}
	check("without evidence", l, want)
	for a, blocked := range map[string]bool{"2001:db8:1:2::77": false, "2001:db8:1:7::1": true, "2001:db8:2::1": false} {
		if v := l.Verdict(adr(a), "sshd", []byte("eve"), at(20).UnixNano()); (v == detect.Blocked) != blocked {
			t.Errorf("%s: verdict %d", a, v)
		}
	}
	l.Breach(breach("2001:db8:1:3::/64", 15), at(15)) // it failed by itself
	l.Breach(breach("2001:db8:1:4::5/128", 15), at(15))
	check("two of them are blocked themselves", l, want[:1])
	if err := l.Save(at(20), nil); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, _ = opened(t, dir, at(20), Options{})
	check("after a restart", l, want[:1])
	if _, err := l.Unblock(pfx("2001:db8:1::/48"), "me", at(20)); err != nil {
		t.Fatal(err)
	}
	check("unblocked", l, nil)
	l.RecoveryDone(at(20))
	if l.Expire(at(20 + 7200)); len(l.excepting) != 0 {
		t.Errorf("%d blocks are remembered as having exceptions", len(l.excepting))
	}
}

// TestNetworkOfManyGoodSourcesStays: a network from which many log in is not
// an attacker's.
func TestNetworkOfManyGoodSourcesStays(t *testing.T) {
	for _, n := range []int{maxExcept, maxExcept + 1} {
		l := fresh(t, Options{})
		for i := range n {
			l.Login("sshd", []byte("ann"), adr(fmt.Sprintf("2001:db8:1:%x::1", i)), at(0).UnixNano(), true)
		}
		o := l.Breach(neighbours("2001:db8:1::/48", 10), at(10))
		if (len(o.Refused) == 1) != (n > maxExcept) || (len(o.Changes) == 0) != (n > maxExcept) {
			t.Errorf("with %d: %s, refused %q", n, changes(o.Changes), o.Refused)
		}
	}
}
