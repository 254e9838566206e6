package feed

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/firewall"
)

// ask sends one request to a handler as if from peer.
func ask(h http.Handler, method, target, peer string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func newCheck(t testing.TB, v View, o CheckOptions) *Check {
	t.Helper()
	if o.Header == "" {
		o.Header = "x-real-ip"
	}
	c, err := NewCheck(v, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hostileClients are headers that name no client, though some name a blocked
// address: all must pass.
var hostileClients = []string{
	"", " ", "192.0.2.1, 198.51.100.1", "192.0.2.1,", "192.0.2.1 192.0.2.1", "192.0.2.1:80", "[2001:db8::1]", "[2001:db8::1]:80", "2001:db8::1%eth0",
	"192.0.2.1%lo", "192.0.2.1/32", "192.0.2.01", "0xc0000201", "3221225985", "192.0.2", "192.0.2.1.", "localhost", "unknown", "_hidden", "for=192.0.2.1",
	"0.0.0.0", "::", "::ffff:0.0.0.0%1", "::ffff:0.0.0.0", "\x00192.0.2.1", "192.0.2.1\x00", "１９２.0.2.1", strings.Repeat("1", 60000), strings.Repeat("192.0.2.1, ", 3000), "-", "\"192.0.2.1\"",
}

func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Snapshot
		s.Set(block("192.0.2.0/28", 90500*time.Millisecond), block("2001:db8::/64", time.Hour), block("203.0.113.0/24", 0))
		if err := s.SetAllow(prefixes("192.0.2.5/32")); err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{403, 429} {
			c := newCheck(t, &s, CheckOptions{Status: status})
			for _, x := range []struct {
				client string
				status int
				retry  string
			}{
				{"192.0.2.1", status, "91"}, {"::ffff:192.0.2.1", status, "91"}, {"2001:db8::1", status, "3600"}, {"203.0.113.7", status, ""},
				{"192.0.2.5", 204, ""}, {"::ffff:192.0.2.5", 204, ""}, {"192.0.2.16", 204, ""}, {"2001:db8:1::1", 204, ""},
			} {
				w := ask(c, "GET", "/check", "127.0.0.1:1", "X-Real-IP", x.client)
				if w.Code != x.status || w.Header().Get("Retry-After") != x.retry {
					t.Errorf("%s: %d, Retry-After %q; want %d, %q", x.client, w.Code, w.Header().Get("Retry-After"), x.status, x.retry)
				}
				if w.Code == 204 && w.Body.Len() > 0 {
					t.Errorf("%s: a 204 with the body %q", x.client, w.Body)
				}
			}
			if got, want := c.Counts(), (CheckCounts{Passed: 2, Refused: 4, Allowed: 2}); got != want {
				t.Errorf("counts %+v, want %+v", got, want)
			}
		}
		time.Sleep(91 * time.Second)
		if w := ask(newCheck(t, &s, CheckOptions{}), "GET", "/check", "127.0.0.1:1", "X-Real-IP", "192.0.2.1"); w.Code != 204 {
			t.Errorf("when it ended: %d, want 204", w.Code)
		}
	})
}

func TestCheckHostileHeader(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.0.0/16", time.Hour), block("2001:db8::/32", time.Hour), block("0.0.0.0/8", time.Hour), block("::/64", time.Hour))
	c := newCheck(t, &s, CheckOptions{})
	for _, h := range hostileClients {
		if w := ask(c, "GET", "/check", "127.0.0.1:1", "X-Real-IP", h); w.Code != 204 {
			t.Errorf("%.60q: %d, want 204", h, w.Code)
		}
	}
	ask(c, "GET", "/check", "127.0.0.1:1", "X-Real-IP", "192.0.2.1", "X-Real-IP", "192.0.2.1")
	ask(c, "GET", "/check", "127.0.0.1:1", "X-Forwarded-For", "192.0.2.1")
	if got, want := c.Counts(), (CheckCounts{Unknown: uint64(len(hostileClients)) + 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestCheckTrust(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.2.0/28", time.Hour), block("10.0.0.0/8", time.Hour))
	s.SetFlags([]Flag{{"captcha", time.Now().Add(time.Hour)}})
	for _, x := range []struct {
		name   string
		o      CheckOptions
		peer   string
		header []string
		want   int
	}{
		{"loopback unless told otherwise", CheckOptions{}, "127.0.0.1:1", nil, 403},
		{"loopback of IPv6", CheckOptions{}, "[::1]:1", nil, 403},
		{"a stranger's header", CheckOptions{}, "10.0.0.1:1", nil, 204},
		{"told otherwise", CheckOptions{Trusted: prefixes("10.0.0.0/24")}, "10.0.0.1:1", nil, 403},
		{"mapped", CheckOptions{Trusted: prefixes("10.0.0.0/24")}, "[::ffff:10.0.0.1]:1", nil, 403},
		{"with a zone", CheckOptions{Trusted: prefixes("fe80::/64")}, "[fe80::1%eth0]:1", nil, 403},
		{"loopback no more", CheckOptions{Trusted: prefixes("10.0.0.0/24")}, "127.0.0.1:1", nil, 204},
		{"not among the clients", CheckOptions{Clients: prefixes("10.0.0.0/24")}, "127.0.0.1:1", nil, 204},
		{"no peer", CheckOptions{}, "", nil, 204},
		{"without the token", CheckOptions{TokenFile: tokenFile(t, "secret")}, "127.0.0.1:1", nil, 204},
		{"with another token", CheckOptions{TokenFile: tokenFile(t, "secret")}, "127.0.0.1:1", []string{"Authorization", "Bearer secre"}, 204},
		{"with the token", CheckOptions{TokenFile: tokenFile(t, "secret")}, "127.0.0.1:1", []string{"Authorization", "Bearer secret"}, 403},
	} {
		c := newCheck(t, &s, x.o)
		w := ask(c, "GET", "/check", x.peer, append(x.header, "X-Real-IP", "192.0.2.1")...)
		if w.Code != x.want {
			t.Errorf("%s: %d, want %d", x.name, w.Code, x.want)
		}
		untrusted, flag := c.Counts().Untrusted == 1, w.Header().Get("X-Stoplog-Flag") == "captcha"
		if untrusted != (x.want == 204) || flag == untrusted {
			t.Errorf("%s: counted as untrusted %v, told the flag %v", x.name, untrusted, flag)
		}
	}
}

func TestCheckRequests(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.2.0/28", time.Hour))
	s.SetFlags([]Flag{{"captcha", time.Now().Add(time.Hour)}, {"x\r\ny", time.Now().Add(time.Hour)}, {"a,b", time.Now().Add(time.Hour)}, {"targeted", time.Now().Add(time.Hour)}})
	c := newCheck(t, &s, CheckOptions{Header: "x-forwarded-for"})
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "PROPFIND"} {
		for target, want := range map[string]int{"/check": 403, "/check/any/path?q=1": 403, "/": 404, "/checked": 404, "/blocklist.txt": 404} {
			if w := ask(c, method, target, "127.0.0.1:1", "X-Forwarded-For", "192.0.2.1"); w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, target, w.Code, want)
			}
		}
	}
	w := ask(c, "GET", "/check", "127.0.0.1:1", "X-Forwarded-For", "198.51.100.1")
	if w.Code != 204 || w.Header().Get("X-Stoplog-Flag") != "captcha, targeted" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d, %v; want 204 and the two flags that a header can hold", w.Code, w.Header())
	}
}

// TestCheckPorts: a block that closes some ports refuses who comes to one that
// is guarded, one that slows down answers 429, and the harder of two holds.
func TestCheckPorts(t *testing.T) {
	limited := func(prefix, ports string, rate int) export.Entry {
		e := block(prefix, time.Hour)
		e.Limit = export.Limit{Ports: ports, Rate: rate}
		return e
	}
	var s Snapshot
	s.Set(limited("192.0.2.0/28", "tcp/22", 0), limited("192.0.2.16/28", "400-500", 0), limited("192.0.2.32/28", "", 7), limited("192.0.2.48/28", "8080", 7), limited("192.0.2.36/32", "80", 0), limited("192.0.2.37/32", "22", 0))
	any, ssh := export.Guard{Any: true}, export.Guard{Ports: []firewall.Ports{{From: 22, To: 22}}}
	for _, x := range []struct {
		guard  export.Guard
		header string // in which the port is
		port   []string
		client string
		want   int
	}{
		{export.Guard{}, "", nil, "192.0.2.1", 204},
		{export.Guard{}, "", nil, "192.0.2.17", 403},
		{export.Guard{}, "", nil, "192.0.2.33", 429},
		{export.Guard{}, "", nil, "192.0.2.49", 204},
		{export.Guard{}, "", nil, "192.0.2.36", 403},
		{export.Guard{}, "", nil, "192.0.2.37", 429},
		{any, "", nil, "192.0.2.1", 403},
		{any, "", nil, "192.0.2.33", 403},
		{ssh, "", nil, "192.0.2.1", 403},
		{ssh, "", nil, "192.0.2.17", 204},
		{ssh, "x-port", []string{"443"}, "192.0.2.17", 403},
		{ssh, "x-port", []string{"80"}, "192.0.2.17", 204},
		{export.Guard{}, "x-port", []string{"22"}, "192.0.2.1", 403},
		{export.Guard{}, "x-port", []string{"8080"}, "192.0.2.49", 429},
		{export.Guard{}, "", []string{"1"}, "192.0.2.17", 403}, // a client's own header, that nobody asked for
		{export.Guard{}, "x-port", []string{"1", "1"}, "192.0.2.17", 403},
		{export.Guard{}, "x-port", []string{"0"}, "192.0.2.17", 403},
		{export.Guard{}, "x-port", []string{"65536"}, "192.0.2.17", 403},
		{export.Guard{}, "x-port", []string{"443 "}, "192.0.2.17", 403},
		{export.Guard{}, "x-port", []string{""}, "192.0.2.17", 403},
	} {
		c := newCheck(t, &s, CheckOptions{Guard: x.guard, PortHeader: x.header})
		h := []string{"X-Real-IP", x.client}
		for _, p := range x.port {
			h = append(h, "X-Port", p)
		}
		w := ask(c, "GET", "/check", "127.0.0.1:1", h...)
		if w.Code != x.want {
			t.Errorf("%s, guarding %q, port %q: %d, want %d", x.client, x.guard, x.port, w.Code, x.want)
		}
		if w.Code == 429 && w.Header().Get("Retry-After") != "9" { // seven a minute
			t.Errorf("Retry-After %q of who is slowed, want 9", w.Header().Get("Retry-After"))
		}
		if got := c.Counts(); got.Slowed != uint64(map[int]int{429: 1}[x.want]) {
			t.Errorf("counts %+v", got)
		}
	}
	if n := s.LeftOut(export.WebPorts()); n != 4 {
		t.Errorf("%d blocks are left out, want 4", n)
	}
	s.Remove(prefixes("192.0.2.0/28", "192.0.2.32/28", "192.0.2.48/28", "192.0.2.37/32")...)
	if n := s.LeftOut(export.WebPorts()); n != 0 {
		t.Errorf("%d blocks are left out when they are gone", n)
	}
}

func TestCheckOptions(t *testing.T) {
	for _, o := range []CheckOptions{{}, {Header: "x", Status: 200}, {Header: "x", Trusted: []netip.Prefix{{}}}, {Header: "x", Clients: []netip.Prefix{{}}}} {
		if _, err := NewCheck(&Snapshot{}, o); err == nil || strings.Contains(err.Error(), ".go:") {
			t.Errorf("%+v: %v, want an error", o, err)
		}
	}
}

func FuzzClientAddr(f *testing.F) {
	for _, h := range append(hostileClients, "192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1") {
		f.Add(h, 1)
	}
	f.Fuzz(func(t *testing.T, h string, n int) {
		values := make([]string, max(0, n%3))
		for i := range values {
			values[i] = h
		}
		a, ok := clientAddr(values)
		if !ok {
			return
		}
		if len(values) != 1 || a.Zone() != "" || a.Is4In6() || !a.IsValid() || a.IsUnspecified() {
			t.Fatalf("%q: %s", values, a)
		}
		// What was read is what the text says, by another reading of it.
		if b, err := netip.ParsePrefix(h + "/" + strconv.Itoa(netip.MustParseAddr(h).BitLen())); err != nil || b.Addr().Unmap() != a {
			t.Fatalf("%q is read as %s, and as %s (%v)", h, a, b, err)
		}
	})
}
