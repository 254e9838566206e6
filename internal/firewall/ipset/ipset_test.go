package ipset

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// TestIPSetTTL: the kernel's timeouts are bounded, and 0 would be for ever.
func TestIPSetTTL(t *testing.T) {
	now := time.Now()
	for left, want := range map[time.Duration]time.Duration{
		300 * 24 * time.Hour: ipsetMaxTimeout, time.Hour + time.Millisecond: time.Hour, time.Second: time.Second, 999 * time.Millisecond: 0, -time.Hour: 0,
	} {
		if got, ok := ipsetTTL(firewall.Entry{Until: now.Add(left)}, now); ok != (want > 0) || ok && got != want {
			t.Errorf("%s left: got %s, %v, want %s", left, got, ok, want)
		}
	}
}

// TestIPSetMarks: a mark is known again, whatever its number, and nothing that
// can be blocked is taken for one.
func TestIPSetMarks(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		seq := uint32(0)
		for range 3 {
			if m := ipsetMark(v6, seq); !isIPSetMark(m) || seqOf(m.p.Addr()) != seq {
				t.Errorf("%d: got %v, read as %d", seq, m.p, seqOf(m.p.Addr()))
			}
			seq = nextMark(seq + 1<<23 - 2)
		}
	}
	for _, p := range []string{"192.0.2.0/28", "192.0.2.1/32", "255.0.0.0/8", "2001:db8::/64", "ff02::1/128"} {
		if isIPSetMark(elem{p: netip.MustParsePrefix(p)}) {
			t.Errorf("%s is taken for a mark", p)
		}
	}
	if isIPSetMark(elem{netip.MustParsePrefix("255.0.0.1/32"), time.Hour}) {
		t.Error("a block is taken for a mark")
	}
}

func TestIPSetKind(t *testing.T) {
	for _, k := range []kind{{}, {v6: true, action: firewall.Slow}, {action: firewall.Reject, ports: "tcp/22,80-90"}} {
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

// FuzzIPSetElem reads what a kernel would not send.
func FuzzIPSetElem(f *testing.F) {
	for _, p := range []string{"192.0.2.0/28", "2001:db8::/64"} {
		e := elem{netip.MustParsePrefix(p), time.Hour}.encode(nil)
		f.Add(e[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, ok := parseIPSetElem(b)
		if ok && (e.p != e.p.Masked() || e.ttl < 0) {
			t.Errorf("took %v", e)
		}
		if again, same := parseIPSetElem(e.encode(nil)[4:]); ok && (!same || again != e) {
			t.Errorf("%v: written and read again it is %v", e, again)
		}
	})
}
