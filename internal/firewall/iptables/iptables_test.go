package iptables

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/firewalltest"
)

// fakeWall is an iptables wall over two fakes.
func fakeWall(t *testing.T, o firewall.Options) (w *Wall, v4, v6 *fake) {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 = newFake(), newFake()
	w.open = func(six bool) (xtables, error) {
		if six {
			return v6, nil
		}
		return v4, nil
	}
	return w, v4, v6
}

func TestSplitWords(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string
	}{
		{`-A INPUT -j DROP`, []string{"-A", "INPUT", "-j", "DROP"}},
		{`-m comment --comment "a b"`, []string{"-m", "comment", "--comment", "a b"}},
		{`--comment "it\'s \"x\" \\ y" -j Z`, []string{"--comment", `it's "x" \ y`, "-j", "Z"}},
		{`--comment "" -j Z`, []string{"--comment", "", "-j", "Z"}},
		{`a  b `, []string{"a", "b"}},
		{`"open`, []string{"open"}},
		{``, nil},
	} {
		if got := splitWords(tc.in); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add(`-A STOPLOG-BLOCKS -s 192.0.2.0/28 -m time --datestop 2026-11-21T09:23:10 -m comment --comment "stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop" -j DROP`)
	f.Add(`-A X -m comment --comment "\"`)
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parseRule(s)
		if ok && len(r.spec) == 0 {
			t.Error("a rule of nothing")
		}
		if e, ok := base.ParseNote(r.Comment); ok && e.Validate() != nil {
			t.Errorf("took %+v", e)
		}
	})
}

// TestIPTablesRules pins what is run as root.
func TestIPTablesRules(t *testing.T) {
	until := time.Date(2026, 11, 21, 9, 23, 10, 500, time.UTC)
	v4 := Maker{time: true, ct: true, Slow: 3}
	for _, tc := range []struct {
		e    firewall.Entry
		want []string
	}{
		{firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28")}, []string{
			"-s 192.0.2.0/28 -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j DROP"}},
		{firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Action: firewall.Reject}, []string{
			"-s 192.0.2.0/28 -p tcp -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j REJECT --reject-with tcp-reset",
			"-s 192.0.2.0/28 -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j REJECT"}},
		{firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "", From: 53, To: 54}}}, []string{
			"-s 192.0.2.0/28 -p tcp -m multiport --dports 22,53:54 -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j DROP",
			"-s 192.0.2.0/28 -p udp -m multiport --dports 53:54 -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j DROP"}},
		{firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Action: firewall.Slow, Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}}, []string{
			"-s 192.0.2.0/28 -p tcp -m multiport --dports 22 -m conntrack --ctstate NEW -m limit --limit 3/minute --limit-burst 3 -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j RETURN",
			"-s 192.0.2.0/28 -p tcp -m multiport --dports 22 -m conntrack --ctstate NEW -m time --datestop 2026-11-21T09:23:09 -m comment --comment NOTE -j DROP"}},
	} {
		tc.e.Until = until
		var got []string
		for _, r := range v4.block(tc.e) {
			got = append(got, strings.Replace(strings.Join(r.spec, " "), base.Note(tc.e), "NOTE", 1))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v:\ngot  %q\nwant %q", tc.e, got, tc.want)
		}
	}
}

func TestIPTablesAllowWins(t *testing.T) {
	w, v4, v6 := fakeWall(t, firewall.Options{})
	allow := []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("2001:db8::5/128")}
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	firewalltest.Block(t, w, "2001:db8::/64", time.Hour)
	verdicts := func(allowed, allowed6, blocked string) {
		t.Helper()
		for _, tc := range []struct {
			f    *fake
			addr string
			want string
		}{
			{v4, "192.0.2.5", allowed}, {v4, "192.0.2.6", blocked}, {v4, "192.0.2.16", ""},
			{v6, "2001:db8::5", allowed6}, {v6, "2001:db8::6", blocked}, {v6, "2001:db8:1::", ""},
		} {
			if got := tc.f.verdict("filter", "STOPLOG", netip.MustParseAddr(tc.addr)); got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.addr, got, tc.want)
			}
		}
	}
	verdicts("DROP", "DROP", "DROP")
	if err := w.Setup(t.Context(), firewall.Policy{Allow: allow}); err != nil {
		t.Fatal(err)
	}
	verdicts("", "", "DROP")
	if err := w.Setup(t.Context(), firewall.Policy{Allow: allow[:1]}); err != nil {
		t.Fatal(err)
	}
	verdicts("", "DROP", "DROP")
}

// TestIPTablesNeverOpen: at no step of a change of policy or of a refresh is
// an allowed host blocked, or a blocked one let in.
func TestIPTablesNeverOpen(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{})
	keep, fresh, old := netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("192.0.2.6/32"), netip.MustParsePrefix("192.0.2.7/32")
	if err := w.Setup(t.Context(), firewall.Policy{Allow: []netip.Prefix{keep, old}}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	step := &stepping{fake: v4, after: func() {
		if v := v4.verdict("filter", "STOPLOG", keep.Addr()); v != "" {
			t.Errorf("the allowed one: got %s", v)
		}
		if v := v4.verdict("filter", "STOPLOG", netip.MustParseAddr("192.0.2.9")); v != "DROP" {
			t.Errorf("the blocked one: got %q", v)
		}
	}}
	w.fams[0].x = step
	if err := w.Setup(t.Context(), firewall.Policy{Allow: []netip.Prefix{keep, fresh}}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", 2*time.Hour)
	if step.steps < 4 {
		t.Errorf("got %d steps, want to have looked at some", step.steps)
	}
}

// stepping looks after each change.
type stepping struct {
	*fake
	after func()
	steps int
}

func (s *stepping) look(err error) error {
	s.steps++
	s.after()
	return err
}

func (s *stepping) Insert(table, chain string, pos int, spec ...string) error {
	return s.look(s.fake.Insert(table, chain, pos, spec...))
}

func (s *stepping) Append(table, chain string, spec ...string) error {
	return s.look(s.fake.Append(table, chain, spec...))
}

func (s *stepping) Delete(table, chain string, spec ...string) error {
	return s.look(s.fake.Delete(table, chain, spec...))
}

func TestIPTablesHooksFirst(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{Forward: true})
	for range 2 {
		if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{"INPUT", "FORWARD", "DOCKER-USER"} {
			rules := v4.chains["filter "+c]
			if len(rules) == 0 || after(rules[0], "-j") != "STOPLOG" || strings.Count(v4.dump(), "-j STOPLOG\n") != 3 {
				t.Fatalf("%s: got\n%s", c, v4.dump())
			}
		}
		// Somebody comes before us.
		if err := v4.Insert("filter", "INPUT", 1, "-p", "tcp", "-j", "ACCEPT"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIPTablesWithoutTimeMatch(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{})
	v4.refuse = "--datestop"
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	if es, err := firewall.ListAll(t.Context(), w); len(es) != 1 || err != nil {
		t.Errorf("got %v, %v", es, err)
	}
	if v4.refused != 1 {
		t.Errorf("the kernel was asked %d times for what it lacks, want once", v4.refused)
	}
	if n := w.Notes(); len(n) == 0 || !strings.Contains(n[0], "no time match") {
		t.Errorf("Notes: got %q", n)
	}
}

func TestIPTablesSetupLeavesNothingHalfMade(t *testing.T) {
	w, v4, v6 := fakeWall(t, firewall.Options{})
	before := v4.dump() + v6.dump()
	v6.refuse = "DROP"
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatalf("DROP only in blocks: %v", err)
	}
	if err := w.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	v6.refuse = "RETURN"
	if err := w.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.HasPrefix(err.Error(), "ip6tables: ") {
		t.Fatalf("Setup: got %v, want ip6tables' error", err)
	}
	if got := v4.dump() + v6.dump(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

func TestIPTablesExpire(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{})
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	old := Maker{time: true}.block(firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Unix(1600000000, 0)})
	put := func() {
		t.Helper()
		if err := v4.Append("filter", "STOPLOG-BLOCKS", old[0].spec...); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if err := v4.Append("filter", "STOPLOG-BLOCKS", "-s", "203.0.113.1/32", "-j", "RETURN"); err != nil { // somebody's own
		t.Fatal(err)
	}
	if es, _ := firewall.ListAll(t.Context(), w); len(es) != 0 {
		t.Errorf("List: got %v, want none", es)
	}
	if err := w.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(v4.chains["filter STOPLOG-BLOCKS"]); n != 2 { // and our mark
		t.Errorf("after Expire: got %d rules, want two", n)
	}
	put()
	firewalltest.Block(t, w, "198.51.100.0/28", time.Hour)
	if n := len(v4.chains["filter STOPLOG-BLOCKS"]); n != 3 {
		t.Errorf("after Block: got %d rules, want three", n)
	}
}

// Nothing stands yet, or somebody else took it down: nothing has ended.
func TestIPTablesExpireNothing(t *testing.T) {
	w, v4, v6 := fakeWall(t, firewall.Options{})
	before := v4.dump() + v6.dump()
	if err := w.Expire(t.Context()); err != nil {
		t.Errorf("Expire without chains: %v", err)
	}
	if got := v4.dump() + v6.dump(); got != before {
		t.Errorf("got\n%s\nwant\n%s", got, before)
	}
}

func TestIPTablesRaw(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{Hook: firewall.HookRaw})
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	if v := v4.verdict("raw", "PREROUTING", netip.MustParseAddr("192.0.2.1")); v != "DROP" {
		t.Errorf("got %q", v)
	}
	for _, a := range []firewall.Action{firewall.Reject, firewall.Slow} {
		e := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour), Action: a}
		if err := w.Block(t.Context(), []firewall.Entry{e}); !errors.Is(err, firewall.ErrUnsupported) {
			t.Errorf("%s: got %v, want ErrUnsupported", a, err)
		}
	}
	if len(w.Notes()) == 0 {
		t.Error("nothing said about replies")
	}
}

func TestIPTablesErrors(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{})
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	v4.broken = errors.New("the cause")
	for name, err := range map[string]error{
		"Setup":    w.Setup(t.Context(), firewall.Policy{}),
		"Block":    w.Block(t.Context(), []firewall.Entry{{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour)}}),
		"Unblock":  w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}),
		"Expire":   w.Expire(t.Context()),
		"Check":    w.Check(t.Context()),
		"Teardown": w.Teardown(t.Context()),
	} {
		if !errors.Is(err, v4.broken) || strings.Count(err.Error(), "the cause") != 1 {
			t.Errorf("%s: got %v, want the cause, once", name, err)
		}
	}
	if w, err := New(firewall.Options{IPTables: "/nonexistent/iptables"}); err != nil {
		t.Error(err)
	} else if err := w.Setup(t.Context(), firewall.Policy{}); err == nil {
		t.Error("without the program: got no error")
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []firewall.Options{{Name: "-x"}, {Name: "UPPER"}, {Name: "seventeen-letters"}, {Name: "a b"}, {Hook: "output"}} {
		if _, err := o.WithDefaults(); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	if o, err := (firewall.Options{}).WithDefaults(); err != nil || o.Name != "stoplog" || o.MaxRules != 2000 || o.Hook != firewall.HookInput {
		t.Errorf("got %+v, %v", o, err)
	}
}

// TestIPTablesEmptied: all rules gone at once is no unblock by hand.
func TestIPTablesEmptied(t *testing.T) {
	w, v4, _ := fakeWall(t, firewall.Options{})
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	v4.chains["filter STOPLOG-BLOCKS"] = nil
	if err := w.Check(t.Context()); !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("got %v, want ErrBroken", err)
	}
	late := []firewall.Entry{{Prefix: netip.MustParsePrefix("198.51.100.0/28"), Until: time.Now().Add(time.Hour)}}
	if err := w.Block(t.Context(), late); !errors.Is(err, firewall.ErrBroken) {
		t.Errorf("Block into it: got %v, want ErrBroken", err)
	}
	if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	if err := w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context()); err != nil {
		t.Errorf("empty as it should be: %v", err)
	}
}

func TestQuoteWord(t *testing.T) {
	for _, w := range []string{"-s", "192.0.2.0/28", "a b", `it's "x" \ y`, ""} {
		if got := splitWords("x " + quoteWord(w)); len(got) != 2 || got[1] != w {
			t.Errorf("%q: quoted %s, read %q", w, quoteWord(w), got)
		}
	}
}

// TestIPTablesRestore pins what a batch gives to iptables-restore.
func TestIPTablesRestore(t *testing.T) {
	x := &firewalltest.Transcript{Want: []firewalltest.Exchange{{
		Argv:  "ip6tables-restore --noflush --wait=5",
		Stdin: "*filter\n-A S-BLOCKS -s 2001:db8::/64 -m comment --comment \"a b\" -j DROP\n-D S-BLOCKS -j DROP\nCOMMIT\n",
	}}}
	r := realXtables{nil, x, "ip6tables-restore"}
	ops := []xtOp{
		{"-A", Rule{spec: []string{"-s", "2001:db8::/64", "-m", "comment", "--comment", "a b", "-j", "DROP"}}},
		{"-D", Rule{spec: []string{"-j", "DROP"}}},
	}
	if err := r.Restore(t.Context(), "filter", restoreLines("S-BLOCKS", ops)); err != nil || x.Bad != "" {
		t.Errorf("got %v; %s", err, x.Bad)
	}
}
