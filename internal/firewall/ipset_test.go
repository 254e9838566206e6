package firewall

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestIPSetTranscript pins what is run as root, first and later.
func TestIPSetTranscript(t *testing.T) {
	w, _, _ := FakeIPSetWall(Options{})
	if !hasIPv6() {
		t.Skip("the transcript is that of a machine with IPv6")
	}
	x := &transcript{want: []exchange{
		{argv: "ipset list -t", stdout: "Name: theirs\nType: hash:ip\nHeader: family inet hashsize 1024 maxelem 65536\nNumber of entries: 1\n"},
		{argv: "ipset restore -exist", stdin: "" +
			"create stoplog4-allow hash:net family inet maxelem 1024\n" +
			"create stoplog4-allow-new hash:net family inet maxelem 1024\n" +
			"add stoplog4-allow-new 192.0.2.5/32\n" +
			"swap stoplog4-allow-new stoplog4-allow\ndestroy stoplog4-allow-new\n" +
			"create stoplog4-known hash:net family inet maxelem 1024\n" +
			"create stoplog4-known-new hash:net family inet maxelem 1024\n" +
			"swap stoplog4-known-new stoplog4-known\ndestroy stoplog4-known-new\n" +
			"create stoplog6-allow hash:net family inet6 maxelem 1024\n" +
			"create stoplog6-allow-new hash:net family inet6 maxelem 1024\n" +
			"add stoplog6-allow-new ::/1\nadd stoplog6-allow-new 8000::/1\n" +
			"swap stoplog6-allow-new stoplog6-allow\ndestroy stoplog6-allow-new\n" +
			"create stoplog6-known hash:net family inet6 maxelem 1024\n" +
			"create stoplog6-known-new hash:net family inet6 maxelem 1024\n" +
			"swap stoplog6-known-new stoplog6-known\ndestroy stoplog6-known-new\n"},
		{argv: "ipset list -t"},
		{argv: "ipset restore -exist", stdin: "create stoplog4-drop hash:net family inet timeout 0 maxelem 65536\n"},
		{argv: "ipset restore -exist", stdin: "add stoplog4-drop 192.0.2.0/28 timeout 3599\n"},
		{argv: "ipset restore -exist", stdin: "del stoplog4-drop 192.0.2.0/28\n"},
	}}
	w.x = x
	p := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("::/0")}}
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	block(t, w, "192.0.2.0/28", time.Hour)
	if err := w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("198.51.100.0/28")}); err != nil {
		t.Fatal(err)
	}
	if x.bad != "" || len(x.want) > 0 {
		t.Errorf("%s; left: %v", x.bad, x.want)
	}
}

// TestIPSetGrows: a set made for fewer is made anew and says so.
func TestIPSetGrows(t *testing.T) {
	w, dump, _ := FakeIPSetWall(Options{})
	sets := w.x.(*fakeIPSet)
	if err := w.Setup(t.Context(), Policy{}); err != nil {
		t.Fatal(err)
	}
	var es []Entry
	for i := range ipsetFirstSize {
		a := netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)})
		es = append(es, Entry{Prefix: netip.PrefixFrom(a, 32), Until: time.Now().Add(time.Hour)})
	}
	if err := w.Block(t.Context(), es[:1000]); err != nil {
		t.Fatal(err)
	}
	if got := sets.sets["stoplog4-drop"].size; got != ipsetFirstSize {
		t.Errorf("at first: got %d, want %d", got, ipsetFirstSize)
	}
	if err := w.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	if got, err := w.List(t.Context()); err != nil || len(got) != len(es) {
		t.Errorf("got %d, %v, want %d", len(got), err, len(es))
	}
	if got := sets.sets["stoplog4-drop"].size; got != 2*ipsetFirstSize {
		t.Errorf("grown: got %d, want %d", got, 2*ipsetFirstSize)
	}
	if strings.Contains(dump(), "stoplog4-drop-g") {
		t.Error("the set to grow into was left behind")
	}
	if n := w.Notes(); len(n) == 0 || !strings.Contains(n[len(n)-1], "grown to 131072") {
		t.Errorf("Notes: got %q", n)
	}
}

// TestIPSetLongTTL: the kernel's timeouts are bounded; the block is held for
// that long and refreshed later.
func TestIPSetLongTTL(t *testing.T) {
	now := time.Now()
	e := Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: now.Add(300 * 24 * time.Hour)}
	if line, ok := ipsetAdd("s", e, now); !ok || line != "add s 192.0.2.0/28 timeout 2147483\n" {
		t.Errorf("got %q", line)
	}
	e.Until = now.Add(999 * time.Millisecond) // 0 would be for ever
	if line, ok := ipsetAdd("s", e, now); ok {
		t.Errorf("got %q, want nothing", line)
	}
	w, _, _ := FakeIPSetWall(Options{})
	if err := w.Setup(t.Context(), Policy{}); err != nil {
		t.Fatal(err)
	}
	e.Until = now.Add(300 * 24 * time.Hour)
	if err := w.Block(t.Context(), []Entry{e}); err != nil {
		t.Fatal(err)
	}
	have, _ := w.List(t.Context())
	if d := Reconcile([]Entry{e}, have, true, now); len(d.Refresh) != 1 {
		t.Errorf("got %+v, want it to be refreshed", d)
	}
}

func TestParseIPSet(t *testing.T) {
	p, ttl, ok := parseIPSetAdd("add x 192.0.2.7 timeout 12")
	if !ok || p.String() != "192.0.2.7/32" || ttl != 12*time.Second {
		t.Errorf("got %v, %v, %v", p, ttl, ok)
	}
	for _, l := range []string{"", "create x hash:net", "add x 192.0.2.7", "add x 192.0.2.7 timeout 0", "add x name timeout 1", "add x 192.0.2.1/28 timeout 1", "add x 0.0.0.0/0 timeout 9"} {
		if p, _, ok := parseIPSetAdd(l); ok {
			t.Errorf("%q: got %v", l, p)
		}
	}
	got := parseIPSetList("Name: a\nType: hash:net\nHeader: family inet maxelem 7 timeout 0\nNumber of entries: 3\n\nName: b\nHeader: x\n")
	if want := map[string]ipsetInfo{"a": {7, 3}, "b": {}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIPSetKind(t *testing.T) {
	for _, k := range []ipsetKind{{}, {v6: true, action: Slow}, {action: Reject, ports: "tcp/22,80-90"}} {
		if got, ok := parseIPSetKind(k.comment(), k.v6); !ok || got != k {
			t.Errorf("%+v: got %+v, %v", k, got, ok)
		}
		if n := len(k.set("sixteen-letters-")) + len("-g"); n > 31 {
			t.Errorf("%+v: a name of %d characters, ipset has room for 31", k, n)
		}
	}
	for _, s := range []string{"", "stoplog blocks", "stoplog set action=accept ports=", "stoplog set action=drop", "stoplog set action=drop ports=x"} {
		if k, ok := parseIPSetKind(s, false); ok {
			t.Errorf("%q: got %+v", s, k)
		}
	}
}

func FuzzParseIPSet(f *testing.F) {
	f.Add("add x 192.0.2.7 timeout 12")
	f.Add("Name: a\nHeader: maxelem 7\nNumber of entries: 3\n")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ttl, ok := parseIPSetAdd(s); ok && (p != p.Masked() || ttl <= 0) {
			t.Errorf("took %v, %v", p, ttl)
		}
		parseIPSetList(s)
	})
}
