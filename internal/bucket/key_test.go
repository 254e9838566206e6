package bucket

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestKeyOfIsExact(t *testing.T) {
	seen := map[Key]string{}
	add := func(k Key, name string) {
		t.Helper()
		if other, found := seen[k]; found {
			t.Errorf("%s and %s share a key", name, other)
		}
		seen[k] = name
	}
	for _, a := range []string{"0.0.0.0", "255.255.255.255", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::ffff:0:0"} {
		addr := netip.MustParseAddr(a)
		if addr.Is4In6() {
			continue
		}
		for n := range addr.BitLen() + 1 {
			p := netip.PrefixFrom(addr, n)
			k := KeyOf(p)
			if got, ok := k.Prefix(); !ok || got != p.Masked() || k.String() != p.Masked().String() {
				t.Errorf("%v: got %v %v %v, want the same", p, got, ok, k)
			}
			if p == p.Masked() && (n != 0 || addr.IsUnspecified()) {
				add(k, p.String())
			}
		}
	}
	for _, text := range []string{"", "\x00", "a", "a\x00", "b", "123456789012345", "1234567890123456", strings.Repeat("x", 100), strings.Repeat("x", 101)} {
		for kind := range uint8(3) {
			add(KeyOfText(kind, []byte(text)), text)
			add(KeyOfPair(netip.MustParsePrefix("192.0.2.0/28"), kind, []byte(text)), "v4 "+text)
			add(KeyOfPair(netip.MustParsePrefix("192.0.2.0/29"), kind, []byte(text)), "29 "+text)
			add(KeyOfPair(netip.MustParsePrefix("2001:db8::/64"), kind, []byte(text)), "v6 "+text)
			add(KeyOfPair(netip.MustParsePrefix("2001:db8::1/128"), kind, []byte(text)), "128 "+text)
			add(KeyOfPair(netip.MustParsePrefix("2001:db8::2/128"), kind, []byte(text)), "128b "+text)
		}
	}
}

func TestKeyPrints(t *testing.T) {
	for _, c := range []struct {
		k    Key
		want string
	}{
		{Key{}, "none"},
		{KeyOf(netip.Prefix{}), "none"},
		{KeyOfPair(netip.Prefix{}, 1, nil), "none"},
		{KeyOfText(0, []byte("root")), `"root"`},
		{KeyOfText(0, []byte("a\x1b[2J")), `"a\x1b[2J"`},
	} {
		if got := c.k.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := KeyOfText(0, bytes.Repeat([]byte("x"), 40)).String(); !strings.HasPrefix(got, "#") || len(got) != 31 {
		t.Errorf("of a long text: got %s, want a hash", got)
	}
	if got := KeyOfPair(netip.MustParsePrefix("2001:db8::1/128"), 0, []byte("root")); !got.within(netip.MustParsePrefix("2001:db8::/64")) {
		t.Errorf("%v is not within its /64", got)
	}
	if KeyOfText(200, []byte("x")) != KeyOfText(MaxKind, []byte("x")) {
		t.Error("a kind over the largest is not the largest")
	}
}
