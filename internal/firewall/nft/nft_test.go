package nft

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

func TestNFTKind(t *testing.T) {
	for name, e := range map[string]firewall.Entry{
		"v4.28.drop":                         {Prefix: netip.MustParsePrefix("192.0.2.0/28")},
		"v6.64.reject":                       {Prefix: netip.MustParsePrefix("2001:db8::/64"), Action: firewall.Reject},
		"v6.128.slow.tcp22.any80_90.udp5060": {Prefix: netip.MustParsePrefix("2001:db8::1/128"), Action: firewall.Slow, Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "", From: 80, To: 90}, {Proto: "udp", From: 5060, To: 5060}}},
	} {
		k := kindOfEntry(e)
		if got := k.name(); got != name {
			t.Errorf("got %s, want %s", got, name)
		}
		back, ok := parseKind(name)
		if !ok || back != k || !reflect.DeepEqual(back.portList(), e.Ports) {
			t.Errorf("%s: got %+v, %v", name, back, ok)
		}
		if p, ok := k.prefix(e.Prefix.Addr().AsSlice()); !ok || p != e.Prefix {
			t.Errorf("%s: got %v, %v", name, p, ok)
		}
	}
	for _, name := range []string{
		"", "allow4", "known6", "locked", "meter.v4.28", "v5.28.drop", "v4.0.drop", "v4.33.drop", "v4.028.drop", "v4.-1.drop", "v6.129.drop",
		"v4.28.accept", "v4.28", "v4.28.drop.", "v4.28.drop.tcp", "v4.28.drop.tcp0", "v4.28.drop.tcp9_8", "v4.28.drop.tcp99999", "v4.28.drop.sct9",
	} {
		if k, ok := parseKind(name); ok {
			t.Errorf("%s: got %+v", name, k)
		}
	}
	k := kind{bits: 28}
	for _, key := range [][]byte{nil, {192, 0, 2}, {192, 0, 2, 1}, netip.MustParseAddr("2001:db8::").AsSlice()} {
		if p, ok := k.prefix(key); ok {
			t.Errorf("key %v: got %v", key, p)
		}
	}
}

// TestNFTKindOrder: of two blocks of one address the harder one is looked at first.
func TestNFTKindOrder(t *testing.T) {
	kinds := map[kind]bool{}
	for _, n := range []string{"v4.32.slow", "v4.24.drop", "v4.32.drop", "v4.28.reject"} {
		k, _ := parseKind(n)
		kinds[k] = true
	}
	var got []string
	for _, k := range sortedKinds(kinds) {
		got = append(got, k.name())
	}
	if want := []string{"v4.32.drop", "v4.24.drop", "v4.28.reject", "v4.32.slow"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMasked(t *testing.T) {
	mask := func(v6 bool, bits int) []byte {
		for _, e := range masked(source(v6), v6, bits) {
			if b, ok := e.(*expr.Bitwise); ok {
				return b.Mask
			}
		}
		return nil
	}
	for _, tc := range []struct {
		v6   bool
		bits int
		want []byte
	}{
		{false, 32, nil}, {true, 128, nil},
		{false, 28, []byte{255, 255, 255, 240}}, {false, 8, []byte{255, 0, 0, 0}}, {false, 1, []byte{128, 0, 0, 0}},
		{true, 65, append(bytes.Repeat([]byte{255}, 8), 128, 0, 0, 0, 0, 0, 0, 0)},
	} {
		if got := mask(tc.v6, tc.bits); !bytes.Equal(got, tc.want) {
			t.Errorf("/%d: got %v, want %v", tc.bits, got, tc.want)
		}
	}
}

func TestIntervals(t *testing.T) {
	var ps []netip.Prefix
	for _, s := range []string{"192.0.2.0/25", "192.0.2.128/25", "192.0.2.7/32", "255.255.255.0/24", "2001:db8::/32"} {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	var got []string
	for _, e := range intervals(ps, false) {
		a, _ := netip.AddrFromSlice(e.Key)
		s := a.String()
		if e.IntervalEnd {
			s = "-" + s
		}
		got = append(got, s)
	}
	if want := "192.0.2.0 -192.0.3.0 255.255.255.0"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s: merged, and open at the end", got, want)
	}
	if n := len(intervals(ps, true)); n != 2 {
		t.Errorf("IPv6: got %d elements, want 2", n)
	}
}

// notification makes a message as the kernel sends it.
func notification(kind int, port uint32, family byte, table, set string, keys ...[]byte) netlink.Message {
	data := []byte{family, 0, 0, 0}
	data = base.AttrText(data, unix.NFTA_SET_ELEM_LIST_TABLE, table)
	if set != "" {
		data = base.AttrText(data, unix.NFTA_SET_ELEM_LIST_SET, set)
	}
	var elems []byte
	for _, k := range keys {
		key := base.Attr(nil, unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, base.Attr(nil, unix.NFTA_DATA_VALUE, k))
		elems = base.Attr(elems, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, key)
	}
	if len(keys) > 0 {
		data = base.Attr(data, unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, elems)
	}
	return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), PID: port}, Data: data}
}

func TestNFTTransactions(t *testing.T) {
	const inet, ip, ours, theirs = unix.NFPROTO_INET, unix.NFPROTO_IPV4, 7, 8
	a, b := []byte{192, 0, 2, 0}, []byte{192, 0, 2, 16}
	elem := func(port uint32, fam byte, table, set string, keys ...[]byte) netlink.Message {
		return notification(unix.NFT_MSG_DELSETELEM, port, fam, table, set, keys...)
	}
	for name, tc := range map[string]struct {
		msgs            []netlink.Message
		deleted, broken bool
	}{
		"nothing":                 {nil, false, false},
		"one by hand":             {[]netlink.Message{elem(theirs, inet, "stoplog", "v4.28.drop", a)}, true, false},
		"one by us":               {[]netlink.Message{elem(ours, inet, "stoplog", "v4.28.drop", a)}, false, false},
		"two in one message":      {[]netlink.Message{elem(theirs, inet, "stoplog", "v4.28.drop", a, b)}, false, true},
		"two in two messages":     {[]netlink.Message{elem(theirs, inet, "stoplog", "v4.28.drop", a), elem(theirs, inet, "stoplog", "v4.28.drop", b)}, false, true},
		"of the allowlist":        {[]netlink.Message{elem(theirs, inet, "stoplog", "allow4", a)}, false, true},
		"of a meter":              {[]netlink.Message{elem(theirs, inet, "stoplog", "meter.v4.28", a)}, false, false},
		"in another table":        {[]netlink.Message{elem(theirs, inet, "other", "v4.28.drop", a)}, false, false},
		"in another family":       {[]netlink.Message{elem(theirs, ip, "stoplog", "v4.28.drop", a)}, false, false},
		"the table":               {[]netlink.Message{notification(unix.NFT_MSG_DELTABLE, theirs, inet, "stoplog", "")}, false, true},
		"a rule":                  {[]netlink.Message{notification(unix.NFT_MSG_DELRULE, theirs, inet, "stoplog", "walls")}, false, true},
		"a rule of ours, by us":   {[]netlink.Message{notification(unix.NFT_MSG_DELRULE, ours, inet, "stoplog", "walls")}, false, false},
		"another table":           {[]netlink.Message{notification(unix.NFT_MSG_DELTABLE, theirs, inet, "other", "")}, false, false},
		"one by hand, and a rule": {[]netlink.Message{elem(theirs, inet, "stoplog", "v4.28.drop", a), notification(unix.NFT_MSG_DELRULE, theirs, inet, "stoplog", "walls")}, false, true},
	} {
		tx := transaction{table: "stoplog", ours: func(p uint32) bool { return p == ours }}
		for _, m := range tc.msgs {
			if ch, any := tx.add(m); any {
				t.Errorf("%s: told %+v before the end", name, ch)
			}
		}
		ch, any := tx.add(notification(unix.NFT_MSG_NEWGEN, theirs, 0, "", ""))
		if any != (tc.deleted || tc.broken) || ch.Broken != tc.broken || (len(ch.Deleted) == 1) != tc.deleted {
			t.Errorf("%s: got %+v, %v", name, ch, any)
		}
		if ch, any := tx.add(notification(unix.NFT_MSG_NEWGEN, theirs, 0, "", "")); any {
			t.Errorf("%s: the next transaction tells %+v", name, ch)
		}
	}
}

func FuzzNFTNotification(f *testing.F) {
	f.Add(notification(unix.NFT_MSG_DELSETELEM, 1, unix.NFPROTO_INET, "stoplog", "v4.28.drop", []byte{192, 0, 2, 0}).Data)
	f.Add([]byte{1, 0, 0, 0, 3, 0, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		tx := transaction{table: "stoplog", ours: func(uint32) bool { return false }}
		h := netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELSETELEM}
		tx.add(netlink.Message{Header: h, Data: data})
		for _, p := range tx.deleted {
			if (firewall.Entry{Prefix: p}).Validate() != nil && p.Bits() > 0 || p != p.Masked() {
				t.Errorf("took %v", p)
			}
		}
	})
}

func FuzzNFTKind(f *testing.F) {
	f.Add("v4.28.drop.tcp22.any80_90")
	f.Fuzz(func(t *testing.T, name string) {
		k, ok := parseKind(name)
		if !ok {
			return
		}
		e := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.1/32"), Until: time.Unix(1, 0), Ports: k.portList()}
		if k.bits < 1 || k.bits > k.width() || e.Validate() != nil {
			t.Errorf("%q: took what is no entry: %v", name, e.Validate())
		}
	})
}
