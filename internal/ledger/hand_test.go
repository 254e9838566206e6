package ledger

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
)

func TestUnblock(t *testing.T) {
	for _, c := range []struct{ order, want, left string }{
		{"192.0.2.1/32", "lift 192.0.2.0/24, lift 192.0.2.0/28", "192.0.2.17/32 198.51.100.0/28"},
		{"192.0.2.0/28", "lift 192.0.2.0/24, lift 192.0.2.0/28", "192.0.2.17/32 198.51.100.0/28"},
		{"192.0.2.16/28", "lift 192.0.2.0/24, lift 192.0.2.17/32", "192.0.2.0/28 198.51.100.0/28"},
		{"192.0.0.0/16", "lift 192.0.2.0/24, lift 192.0.2.0/28, lift 192.0.2.17/32", "198.51.100.0/28"},
		{"203.0.113.1/32", "", "192.0.2.0/24 192.0.2.0/28 192.0.2.17/32 198.51.100.0/28"},
		{"0.0.0.0/0", "lift 192.0.2.0/24, lift 192.0.2.0/28, lift 192.0.2.17/32, lift 198.51.100.0/28", ""},
	} {
		l := fresh(t, Options{})
		for _, p := range []string{"192.0.2.0/28", "192.0.2.17/32", "192.0.2.0/24", "198.51.100.0/28"} {
			l.Breach(breach(p, 0), at(0))
		}
		lifted, err := l.Unblock(pfx(c.order), "me", at(10))
		if got := changes(lifted.Changes); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.order, got, err, c.want)
		}
		var left []string
		for _, b := range l.List(at(10)) {
			left = append(left, b.Prefix.String())
		}
		if got := strings.Join(left, " "); got != c.left {
			t.Errorf("%s: left: got %q, want %q", c.order, got, c.left)
		}
	}
	if _, err := fresh(t, Options{}).Unblock(netip.Prefix{}, "me", at(0)); err == nil {
		t.Error("no prefix: got no error")
	}
}

// TestUnblockForgives wants the lines of before an unblock not to count, those
// after it to count, and the next offence to be a first one.
func TestUnblockForgives(t *testing.T) {
	l := fresh(t, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.Breach(breach("192.0.2.0/28", 700), at(700))
	l.Unblock(pfx("192.0.2.1/32"), "me", at(720))
	for _, c := range []struct {
		at   int
		want detect.Verdict
	}{{719, detect.Allowed}, {720, detect.Allowed}, {721, detect.Stranger}} {
		if got := l.Verdict(adr("192.0.2.9"), "sshd", nil, at(c.at).UnixNano()); got != c.want {
			t.Errorf("at %d: got %v, want %v", c.at, got, c.want)
		}
	}
	if got := l.Breach(breach("192.0.2.0/28", 715), at(730)); len(got.Changes) != 0 {
		t.Errorf("a late breach of before: got %s, want nothing", changes(got.Changes))
	}
	if got := changes(l.Breach(breach("192.0.2.0/28", 800), at(800)).Changes); got != "set 192.0.2.0/28 until 23m20s new" {
		t.Errorf("after it: got %s, want ten minutes", got)
	}
}

func TestBlockByHand(t *testing.T) {
	l := fresh(t, Options{Allow: []netip.Prefix{pfx("10.0.0.0/8")}})
	for _, bad := range []struct {
		p   netip.Prefix
		ttl time.Duration
	}{{pfx("10.1.0.0/16"), time.Hour}, {pfx("192.0.0.0/8"), time.Hour}, {pfx("::/16"), time.Hour}, {netip.Prefix{}, time.Hour}, {pfx("192.0.2.0/28"), -1}} {
		if cs, err := l.BlockByHand(bad.p, bad.ttl, "", "me", at(0)); err == nil || cs != nil {
			t.Errorf("%v for %v: got %s, no error", bad.p, bad.ttl, changes(cs))
		}
	}
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	cs, err := l.BlockByHand(pfx("192.0.2.3/28"), time.Minute, "enough", "me", at(60))
	if got := changes(cs); err != nil || got != "set 192.0.2.0/28 until 2m0s" {
		t.Errorf("shortening: got %s, %v", got, err)
	}
	if b := l.Covering(adr("192.0.2.1"), at(61)); len(b) != 1 || b[0].By != "me" || b[0].Reason != "enough" {
		t.Errorf("got %+v", b)
	}
	if l.Verdict(adr("192.0.2.1"), "sshd", nil, at(30).UnixNano()) != detect.Blocked {
		t.Error("the rule's block before it is forgotten")
	}
	if out := l.Breach(breach("192.0.2.0/28", 300), at(300)); changes(out.Changes) != "set 192.0.2.0/28 until 45m0s new" {
		t.Errorf("after it: got %s, want the second strike", changes(out.Changes))
	}
}

func TestAllow(t *testing.T) {
	l := fresh(t, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.Breach(breach("192.0.2.16/28", 0), at(0))
	lifted, err := l.Allow(pfx("192.0.2.0/28"), time.Hour, "customer", "me", at(10))
	if changes(lifted.Changes) != "lift 192.0.2.0/28" || err != nil || len(lifted.Forget) != 1 {
		t.Errorf("got %s, %v", changes(lifted.Changes), err)
	}
	if lifted, _ := l.Allow(pfx("192.0.2.17/32"), 0, "", "me", at(10)); len(lifted.Changes) != 0 {
		t.Errorf("within a wider block: got %s, want it to stay", changes(lifted.Changes))
	}
	for _, c := range []struct {
		addr string
		at   int
		want detect.Verdict
	}{{"192.0.2.1", 11, detect.Allowed}, {"192.0.2.1", 3610, detect.Stranger}, {"192.0.2.17", 999999, detect.Allowed}, {"192.0.2.18", 100, detect.Blocked}} {
		if got := l.Verdict(adr(c.addr), "", nil, at(c.at).UnixNano()); got != c.want {
			t.Errorf("%s at %d: got %v, want %v", c.addr, c.at, got, c.want)
		}
	}
	if got := fmt.Sprint(l.AllowedPrefixes(at(20))); got != "[192.0.2.0/28 192.0.2.17/32]" {
		t.Errorf("allowed: got %s", got)
	}
	if found, _ := l.Disallow(pfx("192.0.2.0/29"), "me", at(20)); found {
		t.Error("another prefix: got true")
	}
	if found, err := l.Disallow(pfx("192.0.2.0/28"), "me", at(20)); !found || err != nil {
		t.Errorf("got %v, %v, want true", found, err)
	}
	if got := len(l.Allowances(at(21))); got != 1 || l.Verdict(adr("192.0.2.1"), "", nil, at(15).UnixNano()) != detect.Allowed || l.Verdict(adr("192.0.2.1"), "", nil, at(21).UnixNano()) != detect.Stranger {
		t.Errorf("got %d allowances, want one, and the other until 20 s", got)
	}
	for _, bad := range []netip.Prefix{{}, pfx("::ffff:1.2.3.4/128")} {
		if _, err := l.Allow(bad, 0, "", "", at(0)); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
	l.Expire(at(100_000))
	if len(l.allow.hand) != 1 {
		t.Errorf("got %d, want the ended one forgotten", len(l.allow.hand))
	}
}

func TestProtectedAndReload(t *testing.T) {
	l := fresh(t, Options{})
	l.Breach(breach("192.0.2.0/28", 0), at(0))
	l.BlockByHand(pfx("198.51.100.7/32"), time.Hour, "", "me", at(0))
	if got := changes(l.SetProtected([]netip.Prefix{pfx("198.51.100.7/32"), pfx("192.0.2.3/32")}, at(1)).Changes); got != "lift 198.51.100.7/32" {
		t.Errorf("protected: got %s", got)
	}
	if l.Verdict(adr("192.0.2.3"), "", nil, at(2).UnixNano()) != detect.Allowed {
		t.Error("a protected address within a block is not allowed")
	}
	lifted, err := l.SetOptions(Options{Allow: []netip.Prefix{pfx("192.0.2.0/24")}, Deny: []netip.Prefix{pfx("203.0.113.0/24"), pfx("192.0.2.16/28")}}, at(3))
	if got := changes(lifted.Changes); err != nil || !strings.HasPrefix(got, "lift 192.0.2.0/28, set 203.0.113.0/24") {
		t.Errorf("reload: got %s, %v", got, err)
	}
	if lifted, _ := l.SetOptions(Options{Deny: []netip.Prefix{pfx("203.0.113.0/24")}}, at(4)); len(lifted.Changes) != 0 {
		t.Errorf("the same list: got %s", changes(lifted.Changes))
	}
	if lifted, _ := l.SetOptions(Options{}, at(5)); changes(lifted.Changes) != "lift 203.0.113.0/24" {
		t.Errorf("no list: got %s", changes(lifted.Changes))
	}
	if _, err := l.SetOptions(Options{Floor4: 99}, at(6)); err == nil {
		t.Error("options that cannot work: got no error")
	}
}

func TestFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "flags")
	l := fresh(t, Options{FlagsDir: dir})
	b := breach("192.0.2.0/28", 0)
	b.Rule, b.Answers = "flood", []detect.Answer{{Kind: detect.RaiseFlag, Flag: "captcha", For: time.Hour}, {Kind: detect.Notify}}
	if out := l.Breach(b, at(0)); len(out.Answers) != 1 || !out.Fresh {
		t.Errorf("got %+v", out)
	}
	b.At = at(10).UnixNano()
	if out := l.Breach(b, at(10)); out.Fresh || len(out.Answers) != 0 {
		t.Errorf("again: got %+v, want nothing", out)
	}
	want := fmt.Sprintf("%d\n2026-11-20T10:00:00Z\n", at(3600).Unix())
	path := filepath.Join(dir, "captcha")
	info, err := os.Stat(path)
	if got, _ := os.ReadFile(path); err != nil || string(got) != want || info.Mode().Perm() != 0o644 {
		t.Errorf("file: got %q, %v, want %q, readable by all", got, err, want)
	}
	if l.Flag("captcha", at(-1).UnixNano()) || !l.Flag("captcha", at(0).UnixNano()) || l.Flag("captcha", at(3600).UnixNano()) || l.Flag("other", at(1).UnixNano()) {
		t.Error("up at the wrong times")
	}
	b.At = at(1800).UnixNano()
	if l.Breach(b, at(1800)); len(l.Flags(at(1801))) != 1 || !l.Flags(at(1801))[0].Until.Equal(at(5400)) {
		t.Errorf("prolonged: got %+v", l.Flags(at(1801)))
	}
	if up, err := l.ClearFlag("captcha", "me", at(2000)); !up || err != nil || l.Flag("captcha", at(2000).UnixNano()) || !l.Flag("captcha", at(1999).UnixNano()) {
		t.Errorf("clearing: got %v, %v", up, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	for _, bad := range []string{"", "../x", "A", "a b", "-x", strings.Repeat("x", 65), "a/b", "."} {
		if l.RaiseFlag(bad, time.Hour, "", "me", at(0)) == nil {
			t.Errorf("%q: got no error", bad)
		}
		b.Answers[0].Flag, b.At = bad, at(9000).UnixNano()
		if out := l.Breach(b, at(9000)); len(out.Refused) != 1 {
			t.Errorf("%q by a rule: got %+v", bad, out)
		}
	}
	if err := l.RaiseFlag("slow", time.Minute, "test", "me", at(3000)); err != nil {
		t.Error(err)
	}
	l.Expire(at(3060))
	if left, _ := os.ReadDir(dir); len(left) != 0 || len(l.Flags(at(3060))) != 0 {
		t.Errorf("after its end: %v is left", left)
	}
}

func TestStaleFlagsGoAtOpen(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"captcha", "Not-ours", ".hidden"} {
		os.WriteFile(filepath.Join(dir, name), []byte("1\n"), 0o644)
	}
	fresh(t, Options{FlagsDir: dir})
	left, _ := os.ReadDir(dir)
	if len(left) != 2 {
		t.Errorf("got %v, want only what is no flag's", left)
	}
}

func TestLockdown(t *testing.T) {
	l := fresh(t, Options{})
	b := breach("192.0.2.0/28", 0)
	b.Answers = []detect.Answer{{Kind: detect.Lockdown, For: 5 * time.Minute, Ports: []detect.Ports{{Proto: "tcp", From: 22, To: 22}}}}
	if out := l.Breach(b, at(0)); !out.Policy || !l.Lockdown().Until.Equal(at(300)) {
		t.Errorf("got %+v, %+v", out, l.Lockdown())
	}
	b.At = at(1).UnixNano()
	if out := l.Breach(b, at(1)); out.Policy || out.Fresh {
		t.Errorf("a second later: got %+v, want nothing", out)
	}
	b.At = at(200).UnixNano()
	if out := l.Breach(b, at(200)); !out.Policy || out.Fresh || !l.Lockdown().Until.Equal(at(500)) {
		t.Errorf("prolonging: got %+v, %+v", out, l.Lockdown())
	}
	if err := l.EndLockdown("me", at(210)); err != nil || l.Lockdown().Until.After(at(210)) {
		t.Errorf("ending: %v, %+v", err, l.Lockdown())
	}
	b.At = at(0).UnixNano()
	b.Rule = "other"
	if out := l.Breach(b, at(9999)); out.Policy {
		t.Error("one that is over: the walls need not know")
	}
}

// A lockdown lets in who is known-good for what its rule looks at. Two that stand
// together let in who is known-good for one of them, and anybody known-good when
// one of the rules looks at every service.
func TestLockdownOfServices(t *testing.T) {
	l := fresh(t, Options{})
	lock := func(second int, services ...string) []string {
		b := breach("192.0.2.0/28", second)
		b.Rule, b.Services = fmt.Sprint(services), services
		b.Answers = []detect.Answer{{Kind: detect.Lockdown, For: 5 * time.Minute}}
		l.Breach(b, at(second))
		return l.Lockdown().Services
	}
	for i, c := range []struct {
		services []string
		want     string
	}{
		{[]string{"sshd"}, "[sshd]"},
		{[]string{"dovecot", "sshd"}, "[sshd dovecot]"},
		{nil, "[]"},
		{[]string{"sshd"}, "[]"},
	} {
		if got := fmt.Sprint(lock(i*100, c.services...)); got != c.want {
			t.Errorf("after %v: got %s, want %s", c.services, got, c.want)
		}
	}
	if got := fmt.Sprint(lock(2000, "sshd")); got != "[sshd]" {
		t.Errorf("once those are over: got %s, want [sshd]", got)
	}
}

// TestLockdownsOfTwoRules wants the ports of both to be shut, after a restart too.
func TestLockdownsOfTwoRules(t *testing.T) {
	dir := t.TempDir()
	l, _, err := Open(dir, at(0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	lock := func(rule string, second int, long time.Duration, ports ...uint16) Outcome {
		b := breach("192.0.2.0/28", second)
		b.Rule = rule
		a := detect.Answer{Kind: detect.Lockdown, For: long}
		for _, p := range ports {
			a.Ports = append(a.Ports, detect.Ports{Proto: "tcp", From: p, To: p})
		}
		b.Answers = []detect.Answer{a}
		return l.Breach(b, at(second))
	}
	want := func(what string, ports, until int) {
		t.Helper()
		if got := l.Lockdown(); len(got.Ports) != ports || !got.Until.Equal(at(until)) {
			t.Errorf("%s: got %+v, want %d ports until %v", what, got, ports, at(until))
		}
	}
	lock("ssh", 0, 5*time.Minute, 22)
	if out := lock("mail", 1, 4*time.Minute, 25); !out.Policy {
		t.Error("the walls do not hear of the second")
	}
	want("a shorter one", 2, 300)
	if out := lock("again", 2, 5*time.Minute, 22, 25); out.Policy {
		t.Error("the walls hear of what is shut already")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, _, err = Open(dir, at(4), Options{}); err != nil {
		t.Fatal(err)
	}
	want("after a restart", 2, 300)
	lock("all", 5, time.Minute)
	want("all ports", 0, 300)
	lock("later", 400, time.Minute, 22)
	want("when both are over", 1, 460)
}

// TestToldOnce wants a bucket that stays over its brim to be told of once, and
// a rule without a bucket each time.
func TestToldOnce(t *testing.T) {
	l := fresh(t, Options{})
	b := breach("192.0.2.0/28", 0)
	b.Observe = true
	told := 0
	for i := range 1300 {
		b.At = at(i).UnixNano()
		if l.Breach(b, at(i)).Fresh {
			told++
		}
	}
	if told != 3 { // at 0, and each ten minutes while it goes on
		t.Errorf("observing: told %d times, want 3", told)
	}
	login := breach("192.0.2.0/28", 0)
	login.Rule, login.Count, login.Points, login.Answers = "new-login", 1, 1, []detect.Answer{{Kind: detect.Notify}}
	for range 3 {
		if out := l.Breach(login, at(0)); !out.Fresh || len(out.Answers) != 1 {
			t.Errorf("a login: got %+v, want to be told", out)
		}
	}
}
