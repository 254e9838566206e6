package web

import (
	"net/netip"
	"strings"
	"testing"
)

func TestClient(t *testing.T) {
	trusted := prefixes("10.0.0.0/8", "2001:db8:aa::/48")
	xff := ClientOptions{Header: "X-Forwarded-For", Trusted: trusted}
	fwd := ClientOptions{Header: "Forwarded", Trusted: trusted}
	for _, c := range []struct {
		name         string
		o            ClientOptions
		peer, header string
		want         string
	}{
		{"no proxies", ClientOptions{}, "192.0.2.7", "203.0.113.66", "192.0.2.7"},
		{"untrusted peer's header is ignored", xff, "192.0.2.7", "203.0.113.66", "192.0.2.7"},
		{"one hop", xff, "10.0.0.1", "198.51.100.9", "198.51.100.9"},
		{"from the right", xff, "10.0.0.1", "203.0.113.66, 198.51.100.9", "198.51.100.9"},
		{"over trusted proxies", xff, "10.0.0.1", "203.0.113.66, 198.51.100.9, 10.0.0.2,10.0.0.3", "198.51.100.9"},
		{"ports", xff, "10.0.0.1", "198.51.100.9:4711", "198.51.100.9"},
		{"IPv6", xff, "2001:db8:aa::1", "2001:db8::9", "2001:db8::9"},
		{"IPv6 in brackets with a port", xff, "10.0.0.1", "[2001:db8::9]:443", "2001:db8::9"},
		{"mapped", xff, "10.0.0.1", "::ffff:198.51.100.9", "198.51.100.9"},
		{"a trusted proxy is never blamed", xff, "10.0.0.1", "10.0.0.2", ""},
		{"nothing in the header", xff, "10.0.0.1", "-", ""},
		{"no header", xff, "10.0.0.1", "", ""},
		{"unreadable", xff, "10.0.0.1", "198.51.100.9, unknown", ""},
		{"unreadable left of a proxy", xff, "10.0.0.1", "203.0.113.66, x, 10.0.0.2", ""},
		{"unreadable left of the client", xff, "10.0.0.1", "garbage, 198.51.100.9", "198.51.100.9"},
		{"zone", xff, "10.0.0.1", "fe80::1%eth0", ""},
		{"a name", xff, "10.0.0.1", "198.51.100.9.example.org", ""},
		{"proxies but no header named", ClientOptions{Trusted: trusted}, "10.0.0.1", "198.51.100.9", ""},
		{"proxies but no header named, others", ClientOptions{Trusted: trusted}, "192.0.2.7", "", "192.0.2.7"},
		{"forwarded", fwd, "10.0.0.1", "for=198.51.100.9;proto=http;by=203.0.113.66", "198.51.100.9"},
		{"forwarded, case", fwd, "10.0.0.1", "By=203.0.113.66;For=198.51.100.9", "198.51.100.9"},
		{"forwarded, quoted", fwd, "10.0.0.1", `for="[2001:db8::9]:4711"`, "2001:db8::9"},
		{"forwarded, quoted by nginx", fwd, "10.0.0.1", `for=\x22[2001:db8::9]:4711\x22`, "2001:db8::9"},
		{"forwarded, quoted by Apache", fwd, "10.0.0.1", `for=\"[2001:db8::9]\"`, "2001:db8::9"},
		{"forwarded, list", fwd, "10.0.0.1", "for=203.0.113.66, for=198.51.100.9, for=10.0.0.2", "198.51.100.9"},
		{"forwarded, hidden", fwd, "10.0.0.1", "for=_hidden", ""},
		{"forwarded, none", fwd, "10.0.0.1", "proto=http", ""},
		{"forwarded, twice", fwd, "10.0.0.1", "for=203.0.113.66;for=198.51.100.9", ""},
		{"forwarded, client opens a quote", fwd, "10.0.0.1", `for="203.0.113.66, for=198.51.100.9`, "198.51.100.9"},
		{"one address only", ClientOptions{Header: "CF-Connecting-IP", Trusted: trusted}, "10.0.0.1", "198.51.100.9", "198.51.100.9"},
	} {
		got, ok := c.o.Client(netip.MustParseAddr(c.peer), []byte(c.header))
		text := ""
		if ok {
			text = got.String()
		}
		if text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
}

func TestClientGivesUpOnAnEndlessHeader(t *testing.T) {
	o := ClientOptions{Header: "x-forwarded-for", Trusted: prefixes("10.0.0.0/8")}
	header := "198.51.100.9" + strings.Repeat(", 10.0.0.2", 10000)
	if a, ok := o.Client(netip.MustParseAddr("10.0.0.1"), []byte(header)); ok {
		t.Errorf("got %v, want nobody", a)
	}
}

// What a client puts left of what the nearest proxy appended changes nothing.
func FuzzClient(f *testing.F) {
	for _, s := range []string{"", "203.0.113.66", `for="`, `"`, ",", ", for=203.0.113.66;for=", "10.0.0.9, ", `\"`, `\x22`} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, forwarded bool) {
		o := ClientOptions{Header: "x-forwarded-for", Trusted: prefixes("10.0.0.0/8")}
		appended := ", 198.51.100.9"
		if forwarded {
			o.Header, appended = "forwarded", ", for=198.51.100.9"
		}
		got, ok := o.Client(netip.MustParseAddr("10.0.0.1"), []byte(text+appended))
		if !ok || got != netip.MustParseAddr("198.51.100.9") {
			t.Errorf("%q: got %v %v", text, got, ok)
		}
	})
}
