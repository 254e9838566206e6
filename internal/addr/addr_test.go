package addr

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1":                            "192.0.2.1",
		"2001:db8::1":                          "2001:db8::1",
		"::ffff:192.0.2.1":                     "192.0.2.1",
		"::192.0.2.1":                          "192.0.2.1",
		"64:ff9b::c000:201":                    "192.0.2.1",
		"64:ff9b:0:0:0:1:c000:201":             "64:ff9b:0:0:0:1:c000:201", // outside the /96
		"64:ff9b:1::c000:201":                  "64:ff9b:1::c000:201",      // layout unknown
		"2002:c000:201::":                      "192.0.2.1",
		"2002:c000:201:ffff:1:2:3:4":           "192.0.2.1",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": "192.0.2.45",
		"2001:1::1":                            "2001:1::1",
		"::1":                                  "::1",
		"::":                                   "::",
		// What cannot be inside is not believed.
		"64:ff9b::a00:1":       "64:ff9b::a00:1",
		"64:ff9b::7f00:1":      "64:ff9b::7f00:1",
		"2002:e000:1::":        "2002:e000:1::",
		"2002:ffff:ffff::":     "2002:ffff:ffff::",
		"2002:a9fe:1::":        "2002:a9fe:1::",
		"64:ff9b::6440:1":      "64:ff9b::6440:1",
		"2001::ffff:ffff:ffff": "2001::ffff:ffff:ffff", // 0.0.0.0 inverted
	} {
		if got := Of(netip.MustParseAddr(in)); got != netip.MustParseAddr(want) {
			t.Errorf("Of(%s) = %s, want %s", in, got, want)
		}
	}
	if got := Of(netip.Addr{}); got.IsValid() {
		t.Errorf("Of(no address) = %s", got)
	}
}

func TestOfPrefix(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.9/28":                 "192.0.2.0/28",
		"::ffff:192.0.2.9/124":         "192.0.2.0/28",
		"64:ff9b::c000:209/124":        "192.0.2.0/28",
		"64:ff9b::c000:201/128":        "192.0.2.1/32",
		"2002:c000:200::/44":           "192.0.2.0/28",
		"2002:c000:201::/48":           "192.0.2.1/32",
		"2002:c000:201:5::/64":         "192.0.2.1/32",
		"2002:c000:201:5::7/128":       "192.0.2.1/32",
		"64:ff9b::/96":                 "64:ff9b::/96", // all of them: nobody's
		"64:ff9b::/64":                 "64:ff9b::/64",
		"64:ff9b::8000:0/97":           "128.0.0.0/1", // then the floor refuses it
		"2002::/16":                    "2002::/16",
		"2001:db8:1::/48":              "2001:db8:1::/48",
		"2001:0:4136:e378::/64":        "2001:0:4136:e378::/64", // all clients of a Teredo server
		"64:ff9b::a00:0/120":           "64:ff9b::a00:0/120",
		"2002:a00::/24":                "2002:a00::/24",
		"2001:0:1:2:3:4:3fff:fdfe/128": "192.0.2.1/32",
	} {
		if got := OfPrefix(netip.MustParsePrefix(in)); got != netip.MustParsePrefix(want) {
			t.Errorf("OfPrefix(%s) = %s, want %s", in, got, want)
		}
	}
}

// TestForms holds the property that a block rests on: the forms of a prefix
// hold the forms of its clients, and of nobody else.
func TestForms(t *testing.T) {
	for range 20_000 {
		v := rand.Uint32()
		a := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
		p, _ := a.Prefix(8 + rand.IntN(25))
		near := a
		for range rand.IntN(3) {
			near = near.Next()
		}
		if !near.IsValid() || !global(near) || !global(p.Addr()) {
			continue
		}
		b := near.As4()
		nat := netip.MustParseAddr("64:ff9b::").As16()
		copy(nat[12:], b[:])
		six := netip.MustParseAddr("2002::").As16()
		copy(six[2:], b[:])
		six[6+rand.IntN(10)] = byte(rand.Uint32())
		fs := Forms(p)
		for i, f := range [][16]byte{nat, six} {
			form := netip.AddrFrom16(f)
			if Of(form) != near {
				t.Fatalf("Of(%s) = %s, want %s", form, Of(form), near)
			}
			if fs[i].Contains(form) != p.Contains(near) {
				t.Fatalf("%s is in %s: %v, and %s in %s: %v", form, fs[i], fs[i].Contains(form), near, p, p.Contains(near))
			}
			if of, ok := Form(fs[i]); !ok || of != p {
				t.Fatalf("Form(%s) = %s, want %s", fs[i], of, p)
			}
			if got := OfPrefix(fs[i]); got != p {
				t.Fatalf("OfPrefix(%s) = %s, want %s", fs[i], got, p)
			}
		}
		if len(fs) != 2 {
			t.Fatalf("Forms(%s) = %s", p, fs)
		}
	}
	for _, none := range []string{"2001:db8::/64", "10.0.0.0/28", "0.0.0.0/8"} {
		if fs := Forms(netip.MustParsePrefix(none)); fs != nil {
			t.Errorf("Forms(%s) = %s", none, fs)
		}
	}
}

// TestBits: clients of one translator or tunnel are told apart.
func TestBits(t *testing.T) {
	for in, want := range map[string]int{
		"192.0.2.1": 28, "2001:db8::1": 64, "64:ff9b:1::c000:201": 124, "64:ff9b::a00:1": 124,
		"2002:a00:1::1": 48, "2001:0:1:2::": 124,
	} {
		if got := Bits(netip.MustParseAddr(in), 28, 64); got != want {
			t.Errorf("Bits(%s) = %d, want %d", in, got, want)
		}
	}
}

func TestNever(t *testing.T) {
	for in, never := range map[string]bool{
		"0.0.0.0/32": true, "0.0.0.0/28": true, "0.1.2.0/28": false, "224.0.0.0/28": true, "239.255.255.240/28": true,
		"255.255.255.240/28": true, "255.255.255.255/32": true, "169.254.10.0/28": true, "168.0.0.0/6": true,
		"::/128": true, "::/64": true, "ff02::/16": true, "ff02::1/128": true, "fe80::/64": true, "fe80::1/128": true,
		"fe80::/9": true, "64:ff9b::/96": true, "64:ff9b::/64": true, "64:ff9b::/48": true,
		"192.0.2.0/28": false, "198.51.100.0/24": false, "203.0.113.7/32": false, "2001:db8::/32": false,
		"240.0.0.0/28": false, "10.0.0.0/28": false, "127.0.0.0/28": false, "fec0::/64": false, "fd00::/64": false,
		"64:ff9b::c000:200/124": false, "64:ff9b:1::/124": false, "::1/128": false,
	} {
		if why := Never(netip.MustParsePrefix(in)); (why != "") != never {
			t.Errorf("Never(%s) = %q, want a reason: %v", in, why, never)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	for name, a := range map[string]netip.Addr{"IPv4": netip.MustParseAddr("192.0.2.1"), "IPv6": netip.MustParseAddr("2001:db8::1")} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Of(a)
			}
		})
	}
}

func TestEmbeds(t *testing.T) {
	for text, want := range map[string]string{
		"64:ff9b::/96": "NAT64", "64:ff9b::c000:200/120": "NAT64", "64:ff9b::808:800/120": "NAT64", "64:ff9b::a00:0/104": "", "64:ff9b:1::/48": "",
		"2002::/16": "6to4", "2002:808::/32": "6to4", "2002:a00::/24": "", "2002::/15": "", "2001::/32": "Teredo", "2001:0:1::/48": "Teredo",
		"::ffff:0:0/96": "IPv4-mapped", "2001:db8::/32": "", "::/0": "", "8.8.8.0/24": "",
	} {
		if got := Embeds(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
