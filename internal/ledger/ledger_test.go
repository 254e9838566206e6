package ledger

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func pfxs(ss ...string) (out []netip.Prefix) {
	for _, s := range ss {
		out = append(out, pfx(s))
	}
	return out
}
func adr(s string) netip.Addr { return netip.MustParseAddr(s) }

// fresh is a ledger in memory that is not recovering.
func fresh(t *testing.T, o Options) *Ledger {
	t.Helper()
	l, _, err := Open("", epoch, o)
	if err != nil {
		t.Fatal(err)
	}
	l.RecoveryDone(epoch)
	return l
}

// breach is one of a prefix, at so many seconds.
func breach(prefix string, seconds int) *detect.Breach {
	p := pfx(prefix)
	return &detect.Breach{At: at(seconds).UnixNano(), Rule: "ssh", Key: prefix, Prefix: p, Addr: p.Addr(), Service: "sshd", Count: 6, Points: 6, Unit: "failure"}
}

// brief prints blocks as prefix+TTL.
func brief(bs []Block) string {
	var out []string
	for _, b := range bs {
		out = append(out, fmt.Sprintf("%v+%v", b.Prefix, b.Until.Sub(b.Since)))
	}
	return strings.Join(out, " ")
}

func changes(cs []Change) string {
	var out []string
	for _, c := range cs {
		s := [...]string{"set ", "lift "}[c.Op] + c.Block.Prefix.String()
		if c.Op == Set {
			s += " until " + fmt.Sprint(c.Block.Until.Sub(epoch))
		}
		if c.New {
			s += " new"
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestEscalation(t *testing.T) {
	for _, c := range []struct {
		base     time.Duration
		multiply float64
		most     time.Duration
		n        int
		want     time.Duration
	}{
		{10 * time.Minute, 4, 30 * day, 1, 10 * time.Minute},
		{10 * time.Minute, 4, 30 * day, 2, 40 * time.Minute},
		{10 * time.Minute, 4, 30 * day, 3, 160 * time.Minute},
		{10 * time.Minute, 4, 30 * day, 1_000_000, 30 * day},
		{10 * time.Minute, 1, 30 * day, 9, 10 * time.Minute},
		{10 * time.Minute, 1.5, time.Hour, 3, 1350 * time.Second},
		{60 * day, 4, 30 * day, 3, 60 * day}, // the rule's own TTL is longer than the maximum
		{time.Hour, 1e300, 1<<63 - 1, 3, maxTTL},
	} {
		if got := ttl(c.base, c.multiply, c.most, c.n); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// TestStrikes plays one prefix's offences: each row is when it breaches and how
// long it is blocked for.
func TestStrikes(t *testing.T) {
	l := fresh(t, Options{Escalation: Escalation{TTL: time.Minute, Multiply: 2, Max: 10 * time.Minute, Decay: time.Hour}})
	for i, r := range []struct {
		at   int
		want string
	}{
		{0, "1m0s"}, {30, "1m30s"}, // within the block: prolonged, no strike
		{100, "2m0s"}, {300, "4m0s"}, {600, "8m0s"}, {1100, "10m0s"}, {2000, "10m0s"},
		{2600 + 3600 + 1, "10m0s"},  // one of six is forgotten
		{6801 + 5*3600 + 1, "2m0s"}, // five of six
		{25000 + 100*3600, "1m0s"},  // all
		{25000 + 100*3600 - 30, ""}, // late, shortly before: the same offence, no longer
		{25000 + 100*3600 + 90, "2m0s"},
	} {
		out := l.Breach(breach("192.0.2.0/28", r.at), at(r.at))
		got := ""
		if len(out.Changes) > 0 {
			b := out.Changes[0].Block
			got = b.Until.Sub(b.Since).String()
		}
		if got != r.want {
			t.Errorf("row %d at %ds: got %q, want %q", i, r.at, got, r.want)
		}
	}
}

func TestBreachOutcomes(t *testing.T) {
	o := Options{Allow: []netip.Prefix{pfx("198.51.100.0/24"), pfx("203.0.113.5/32")}}
	narrow := func(b *detect.Breach, f func(*detect.Breach)) *detect.Breach { f(b); return b }
	for name, c := range map[string]struct {
		b       *detect.Breach
		now     int
		changes string
		refused string
		answers int
		fresh   bool
	}{
		"plain":           {b: breach("192.0.2.0/28", 0), changes: "set 192.0.2.0/28 until 10m0s new", fresh: true},
		"late":            {b: breach("192.0.2.0/28", 0), now: 400, changes: "set 192.0.2.0/28 until 10m0s new", fresh: true},
		"nothing remains": {b: breach("192.0.2.0/28", 0), now: 601, fresh: true},
		"rule's TTL": {b: narrow(breach("2001:db8::/64", 0), func(b *detect.Breach) { b.TTL = time.Hour }),
			changes: "set 2001:db8::/64 until 1h0m0s new", fresh: true},
		"allowed":           {b: breach("198.51.100.16/28", 0), refused: "ssh: not blocking 198.51.100.16/28: it is allowed", fresh: true},
		"holds an allowed":  {b: breach("203.0.113.0/28", 0), changes: "set 203.0.113.0/28 until 10m0s new", fresh: true},
		"wider than /16":    {b: breach("192.0.0.0/15", 0), refused: "ssh: not blocking 192.0.0.0/15: wider than the floor", fresh: true},
		"everything":        {b: breach("0.0.0.0/0", 0), refused: "ssh: not blocking 0.0.0.0/0: wider than the floor", fresh: true},
		"everything of six": {b: breach("::/0", 0), refused: "ssh: not blocking ::/0: wider than the floor", fresh: true},
		"no address": {b: narrow(breach("192.0.2.0/28", 0), func(b *detect.Breach) { b.Prefix = netip.Prefix{} }),
			refused: "ssh: not blocking invalid Prefix: not an address", fresh: true},
		"mapped": {b: narrow(breach("192.0.2.0/28", 0), func(b *detect.Breach) { b.Prefix = pfx("::ffff:192.0.2.0/124") }),
			refused: "ssh: not blocking ::ffff:192.0.2.0/124: it is an IPv4-mapped address", fresh: true},
		"observed": {b: narrow(breach("192.0.2.0/28", 0), func(b *detect.Breach) {
			b.Observe = true
			b.Answers = []detect.Answer{{}, {Kind: detect.Notify}, {Kind: detect.Exec}}
		}), answers: 1, fresh: true},
		"notify and exec": {b: narrow(breach("192.0.2.0/28", 0), func(b *detect.Breach) {
			b.Answers = []detect.Answer{{Kind: detect.Notify}, {Kind: detect.Exec}}
		}), answers: 2, fresh: true},
		"contributors": {b: narrow(breach("192.0.2.0/28", 0), func(b *detect.Breach) {
			b.Prefix, b.Contributors = netip.Prefix{}, []netip.Prefix{pfx("192.0.2.0/28"), pfx("198.51.100.0/28"), pfx("192.0.2.32/28")}
			b.Answers = []detect.Answer{{Kind: detect.BlockContributors}}
		}), changes: "set 192.0.2.0/28 until 10m0s new, set 192.0.2.32/28 until 10m0s new",
			refused: "ssh: not blocking 198.51.100.0/28: it is allowed", fresh: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t, o)
			out := l.Breach(c.b, at(c.now))
			if got := changes(out.Changes); got != c.changes {
				t.Errorf("changes: got %q, want %q", got, c.changes)
			}
			if got := strings.Join(out.Refused, "|"); got != c.refused || l.Stats().Refused != uint64(len(out.Refused)) {
				t.Errorf("refused: got %q, %d counted, want %q", got, l.Stats().Refused, c.refused)
			}
			if len(out.Answers) != c.answers || out.Fresh != c.fresh {
				t.Errorf("got %d answers, fresh %v, want %d, %v", len(out.Answers), out.Fresh, c.answers, c.fresh)
			}
		})
	}
}

// TestVerdictsByEventTime wants a block to stand from its breach to its end by
// the log's time, also for lines that come late, and also when it was over
// before anybody read of it.
func TestVerdictsByEventTime(t *testing.T) {
	l := fresh(t, Options{Allow: []netip.Prefix{pfx("192.0.2.5/32")}})
	l.Breach(breach("192.0.2.0/28", 100), at(5000)) // over at 700
	l.Breach(breach("2001:db8::/64", 100), at(120))
	l.Breach(breach("192.0.2.0/28", 4000), at(5000)) // second: forty minutes
	for _, c := range []struct {
		addr string
		at   int
		want detect.Verdict
	}{
		{"192.0.2.1", 99, detect.Stranger}, {"192.0.2.1", 100, detect.Blocked}, {"192.0.2.15", 699, detect.Blocked},
		{"192.0.2.1", 700, detect.Stranger}, {"192.0.2.1", 3999, detect.Stranger}, {"192.0.2.1", 4000, detect.Blocked},
		{"192.0.2.1", 6399, detect.Blocked}, {"192.0.2.1", 6400, detect.Stranger},
		{"192.0.2.16", 200, detect.Stranger}, {"192.0.2.5", 200, detect.Allowed},
		{"2001:db8::7", 200, detect.Blocked}, {"2001:db8:0:1::7", 200, detect.Stranger},
	} {
		if got := l.Verdict(adr(c.addr), "sshd", nil, at(c.at).UnixNano()); got != c.want {
			t.Errorf("%s at %d: got %v, want %v", c.addr, c.at, got, c.want)
		}
	}
	if got := l.Verdict(netip.Addr{}, "sshd", nil, at(0).UnixNano()); got != detect.Stranger {
		t.Errorf("no address: got %v", got)
	}
}

func TestPortsBlockOnlyTheirService(t *testing.T) {
	l := fresh(t, Options{})
	b := breach("192.0.2.0/28", 0)
	b.Answers = []detect.Answer{{Kind: detect.Block, Ports: []detect.Ports{{From: 22, To: 22}}}}
	l.Breach(b, at(0))
	if got := l.Verdict(adr("192.0.2.1"), "sshd", nil, at(1).UnixNano()); got != detect.Blocked {
		t.Errorf("sshd: got %v, want blocked", got)
	}
	if got := l.Verdict(adr("192.0.2.1"), "nginx", nil, at(1).UnixNano()); got != detect.Stranger {
		t.Errorf("nginx: got %v, want a stranger, whose failures count", got)
	}
	all := breach("192.0.2.0/28", 1)
	all.Rule, all.TTL = "web", time.Hour
	l.Breach(all, at(1))
	if got := l.List(at(2)); len(got) != 1 || len(got[0].Ports) != 0 || got[0].Rule != "web" {
		t.Errorf("after a block of all ports: got %+v", got)
	}
}

// TestLevelsOfOneEvent wants the longest block when one event makes two
// buckets run over, and one strike.
func TestLevelsOfOneEvent(t *testing.T) {
	l := fresh(t, Options{})
	short, long := breach("192.0.2.0/28", 0), breach("192.0.2.0/28", 0)
	long.Level, long.TTL = 1, 7*day
	first := l.Breach(short, at(0))
	second := l.Breach(long, at(0))
	third := l.Breach(short, at(0))
	if got := changes(append(first.Changes, second.Changes...)); got != "set 192.0.2.0/28 until 10m0s new, set 192.0.2.0/28 until 168h0m0s" {
		t.Errorf("got %s", got)
	}
	if len(third.Changes) != 0 || third.Fresh {
		t.Errorf("the same again: got %+v", third)
	}
	if got := l.strikes.by[keyOf(pfx("192.0.2.0/28"))].n; got != 1 {
		t.Errorf("got %d strikes, want 1", got)
	}
}

func TestExpire(t *testing.T) {
	l := fresh(t, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.BlockByHand(pfx("198.51.100.1/32"), time.Minute, "because", "me", at(0))
	if got := l.NextExpiry(); !got.Equal(at(60)) {
		t.Errorf("next: got %v, want 60 s", got.Sub(epoch))
	}
	for _, c := range []struct {
		at   int
		want string
	}{{59, ""}, {60, "lift 198.51.100.1/32"}, {61, ""}, {600, "lift 192.0.2.0/28"}, {601, ""}, {1300, ""}} {
		if got := changes(l.Expire(at(c.at))); got != c.want {
			t.Errorf("at %d: got %q, want %q", c.at, got, c.want)
		}
		if next := l.NextExpiry(); !next.IsZero() && !next.After(at(c.at)) {
			t.Errorf("at %d: the next is %v, which is over", c.at, next.Sub(epoch))
		}
	}
	if l.blocks.len() != 0 || !l.NextExpiry().IsZero() {
		t.Errorf("got %d records left, want none", l.blocks.len())
	}
}

func TestForeverIsALease(t *testing.T) {
	l := fresh(t, Options{})
	l.BlockByHand(pfx("192.0.2.1/32"), 0, "", "", at(0))
	now, renewed := at(0), 0
	for range 100 {
		now = l.NextExpiry()
		for _, c := range l.Expire(now) {
			if c.Op == Lift {
				t.Fatalf("lifted at %v", now.Sub(epoch))
			}
			renewed++
		}
		if b := l.List(now); len(b) != 1 || b[0].Until.Sub(now) < lease/2 {
			t.Fatalf("at %v: got %+v", now.Sub(epoch), b)
		}
	}
	if renewed != 100 {
		t.Errorf("renewed %d times, want 100", renewed)
	}
	if got := changes(l.Expire(now.Add(10 * lease))); !strings.HasPrefix(got, "set 192.0.2.1/32") {
		t.Errorf("long after its lease: got %q, want it set again", got)
	}
}

func TestWiden(t *testing.T) {
	o := Options{Widen: Widening{Count: 3}, Allow: []netip.Prefix{pfx("198.51.100.200/32")}}
	l := fresh(t, o)
	got := ""
	for i, p := range []string{"192.0.2.0/28", "192.0.2.16/28", "192.0.2.16/28", "192.0.2.32/28", "192.0.2.48/28"} {
		got += changes(l.Breach(breach(p, i), at(i)).Changes) + "; "
	}
	want := "set 192.0.2.0/28 until 10m0s new; set 192.0.2.16/28 until 10m1s new; set 192.0.2.16/28 until 10m2s; set 192.0.2.32/28 until 10m3s new, set 192.0.2.0/24 until 10m3s new; set 192.0.2.48/28 until 10m4s new; "
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for i, p := range []string{"198.51.100.0/28", "198.51.100.16/28", "198.51.100.32/28", "198.51.100.48/28"} {
		if got := l.Breach(breach(p, i), at(i)).Changes; len(got) != 1 {
			t.Errorf("over an allowed address: got %s", changes(got))
		}
	}
	lifted, err := l.Unblock(pfx("192.0.2.1/32"), "me", at(10))
	if err != nil || changes(lifted.Changes) != "lift 192.0.2.0/24, lift 192.0.2.0/28" || fmt.Sprint(lifted.Forget) != "[192.0.2.0/28]" {
		t.Errorf("unblock: got %s, forget %v, %v", changes(lifted.Changes), lifted.Forget, err)
	}
	if got := changes(l.Breach(breach("192.0.2.64/28", 20), at(20)).Changes); got != "set 192.0.2.64/28 until 10m20s new" {
		t.Errorf("after the unblock: got %s, want no widening over it", got)
	}
}

// A network has a time of its own where the options say so.
func TestWidenTTL(t *testing.T) {
	l := fresh(t, Options{Widen: Widening{Count: 2, TTL: time.Hour}})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	got := changes(l.Breach(breach("192.0.2.16/28", 1), at(1)).Changes)
	if want := "set 192.0.2.16/28 until 10m1s new, set 192.0.2.0/24 until 1h0m1s new"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Read late, when the network's own time is over and the block's is not.
	l = fresh(t, Options{Widen: Widening{Count: 2, TTL: time.Minute}})
	l.Breach(breach("192.0.2.0/28", 0), at(120))
	if got := changes(l.Breach(breach("192.0.2.16/28", 1), at(120)).Changes); got != "set 192.0.2.16/28 until 10m1s new" {
		t.Errorf("read late: got %s, want no network", got)
	}
}

func TestKnownGood(t *testing.T) {
	l := fresh(t, Options{KnownGood: time.Hour})
	owner := adr("192.0.2.7")
	if !l.Login("sshd", []byte("alice"), owner, at(0).UnixNano(), true) || l.Login("sshd", []byte("alice"), owner, at(60).UnixNano(), true) {
		t.Error("the first login is new, the second is not")
	}
	for _, c := range []struct {
		addr, service, user string
		at                  int
		want                detect.Verdict
		known               bool
	}{
		{"192.0.2.7", "sshd", "alice", 100, detect.KnownGood, true},
		{"192.0.2.7", "sshd", "bob", 100, detect.Stranger, true},
		{"192.0.2.7", "dovecot", "alice", 100, detect.Stranger, false},
		{"192.0.2.8", "sshd", "alice", 100, detect.Stranger, false},
		{"192.0.2.7", "sshd", "alice", -1, detect.Stranger, false},
		{"192.0.2.7", "sshd", "alice", 3659, detect.KnownGood, true},
		{"192.0.2.7", "sshd", "alice", 3660, detect.Stranger, false},
	} {
		if got := l.Verdict(adr(c.addr), c.service, []byte(c.user), at(c.at).UnixNano()); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
		if got := l.KnownAddr(adr(c.addr), c.service, at(c.at).UnixNano()); got != c.known {
			t.Errorf("%+v: known: got %v", c, got)
		}
	}
	l.Login("imap", nil, adr("2001:db8::1"), at(70).UnixNano(), true)
	if got := fmt.Sprint(l.KnownAddrs(at(100))); got != "[2001:db8::1 192.0.2.7]" {
		t.Errorf("addresses: got %s", got)
	}
	if got := fmt.Sprint(l.KnownAddrs(at(100), "sshd", "dropbear")); got != "[192.0.2.7]" {
		t.Errorf("addresses of sshd: got %s", got)
	}
	if !l.KnownAddr(adr("2001:db8::77"), "imap", at(100).UnixNano()) || l.KnownAddr(adr("2001:db8:0:1::1"), "imap", at(100).UnixNano()) {
		t.Error("an IPv6 address is known by its /64, and by no more")
	}
	// A line that anybody may have written gives room, and nothing else.
	l.Login("sshd", []byte("carol"), adr("192.0.2.99"), at(70).UnixNano(), false)
	if v := l.Verdict(adr("192.0.2.99"), "sshd", []byte("carol"), at(100).UnixNano()); v != detect.KnownGood {
		t.Errorf("an unverified login: got %v, want more room", v)
	}
	if got := fmt.Sprint(l.KnownAddrs(at(100), "sshd")); got != "[192.0.2.7]" {
		t.Errorf("an unverified login passes a lockdown: got %s", got)
	}
	l.Login("sshd", []byte("alice"), owner, at(3000).UnixNano(), false)
	if got := fmt.Sprint(l.KnownAddrs(at(3700), "sshd")); got != "[]" {
		t.Errorf("an unverified login prolongs a verified one: got %s", got)
	}
	l.Login("sshd", []byte("carol"), adr("192.0.2.99"), at(3700).UnixNano(), true)
	if got := fmt.Sprint(l.KnownAddrs(at(3800), "sshd")); got != "[192.0.2.99]" {
		t.Errorf("once verified: got %s", got)
	}
	if !l.Login("sshd", []byte("alice"), owner, at(90000).UnixNano(), true) {
		t.Error("a login after the hour is new again")
	}
	off := fresh(t, Options{KnownGood: -1})
	if !off.Login("sshd", nil, owner, 0, true) || off.KnownAddr(owner, "sshd", 0) {
		t.Error("switched off: nobody is known")
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	for name, o := range map[string]Options{
		"floor":  {Floor4: 33},
		"floor6": {Floor6: 129},
		"deny":   {Deny: []netip.Prefix{pfx("10.0.0.0/8")}},
		"widen":  {Widen: Widening{Count: 3, Bits4: 8}},
		"blocks": {MaxBlocks: 1},
		"ttl":    {Escalation: Escalation{TTL: -1}},
	} {
		if _, _, err := Open("", epoch, o); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, _, err := Open("/no/such/place", epoch, Options{}); err == nil {
		t.Error("no directory: got no error")
	}
}

// TestBreachWithinABlock: a breach that a standing block answers already is
// told once for each rule, writes nothing after that and changes nothing.
func TestBreachWithinABlock(t *testing.T) {
	dir := t.TempDir()
	l, _ := opened(t, dir, at(0), Options{})
	l.RecoveryDone(at(0))
	long := breach("192.0.2.0/28", 0)
	long.TTL = time.Hour
	l.Breach(long, at(0))
	written := int64(0)
	for i := range 3 {
		short := breach("192.0.2.0/28", 60+i)
		short.Rule, short.TTL = "other", time.Minute
		if out := l.Breach(short, at(60+i)); len(out.Changes) > 0 || out.Fresh != (i == 0) {
			t.Errorf("breach %d: got %s, fresh %v", i, changes(out.Changes), out.Fresh)
		}
		if i > 0 && l.store.journal.bytes != written {
			t.Errorf("breach %d: %d bytes were written", i, l.store.journal.bytes-written)
		}
		written = l.store.journal.bytes
	}
	if b := l.List(at(60)); len(b) != 1 || b[0].Rule != "ssh" || !b[0].Until.Equal(at(3600)) {
		t.Errorf("got %+v, want the first", b)
	}
}

// TestBlockExplains: a block says everything that the breach told.
func TestBlockExplains(t *testing.T) {
	l := fresh(t, Options{})
	b := breach("192.0.2.0/28", 0)
	b.Source, b.Line, b.User, b.Level, b.Partial = "auth.log", 123, "root", 1, true
	b.Evidence = []string{"the line"}
	ports := []detect.Ports{{Proto: "tcp", From: 22, To: 22}}
	b.Answers = []detect.Answer{{Kind: detect.Block, Action: "reject", Ports: ports, Cut: true}}
	l.Breach(b, at(0))
	want := Block{Prefix: b.Prefix, Rule: "ssh", Since: at(0).UTC(), Until: at(600).UTC(), Count: 6, Points: 6, Strikes: 1,
		Reason: b.Counted() + " by 192.0.2.0/28", Action: "reject", Ports: ports, Cut: true, Evidence: b.Evidence, Partial: true,
		Source: "auth.log", Line: 123, Key: "192.0.2.0/28", Service: "sshd", User: "root", Level: 1}
	if got := l.List(at(1)); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
