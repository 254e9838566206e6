package web

import (
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

func TestAccessLog(t *testing.T) {
	other := func(addr string) webWant { return webWant{addr: addr, service: "http"} }
	kind := func(addr string, k event.Kind) webWant { return webWant{addr: addr, service: "http", kind: k} }
	failed := func(addr, user string) webWant {
		return webWant{addr: addr, service: "http", outcome: event.Failure, user: user}
	}
	user := func(addr, user string) webWant { return webWant{addr: addr, service: "http", user: user} }
	runWeb(t, Options{}, (*Reader).accessLog, []webCase{
		// common and combined
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326`, other("192.0.2.7")},
		{`192.0.2.7 - frank [10/Oct/2026:13:55:36 -0700] "GET /x HTTP/1.0" 200 2326 "-" "curl/8"`, user("192.0.2.7", "frank")},
		{`2001:db8::7 - - [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.0" 404 2 "-" "-"`, other("2001:db8::7")},
		{`::ffff:192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.0" 404 2 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7:51234 - - [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.0" 404 2`, other("192.0.2.7")},
		// who failed, and who only asked
		{`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, failed("192.0.2.7", "alice")},
		{`192.0.2.7 - "alice" [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, failed("192.0.2.7", "alice")},
		{`192.0.2.7 - a b [c] [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, failed("192.0.2.7", "a b [c]")},
		{`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 407 5 "-" "-"`, failed("192.0.2.7", "alice")},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - "" [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 403 5 "-" "-"`, kind("192.0.2.7", event.Forbidden)},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 429 5 "-" "-"`, kind("192.0.2.7", event.Limited)},
		// a login that is claimed proves nothing
		{`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`, user("192.0.2.7", "alice")},
		// virtual hosts, and request ids before the user
		{`www.example.org:443 192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`, other("192.0.2.7")},
		{`www.example.org 192.0.2.7 - 0123abcd - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - - - [10/Oct/2026:13:55:36 ] www.example.org "GET / HTTP/1.1" 200 5 "-" "-" + 2 3`, other("192.0.2.7")},
		// a Host that is an address, or a header behind the peer: two readings
		{`203.0.113.66 192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`, other("")},
		// what begins like an address is none
		{`19 - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5`, webWant{service: "http", outcome: event.Failure, user: "alice"}},
		{`dead:beef - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5`, webWant{service: "http", outcome: event.Failure, user: "alice"}},
		// names are not resolved
		{`host.example.org - alice [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5`, webWant{service: "http", outcome: event.Failure, user: "alice"}},
		// bytes that are no request
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01\x02" 400 157 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "" 400 0 "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "-" 408 - "-" "-"`, other("192.0.2.7")},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /\" HTTP/1.1" 404 5 "-" "\"a\" b"`, other("192.0.2.7")},
		// not an access log
		{`192.0.2.7 - - "GET / HTTP/1.1" 200 5 and more of this line`, webWant{}},
		{`1.2.3 - - [10/Oct/2026:13:55:36 +0000] [GET / HTTP/1.1] 200 5`, webWant{}},
		{`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1 200 5`, webWant{}},
		{`192.0.2.7 - - [32/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5`, webWant{}},
		{`Nov 20 10:00:00 host sshd[1]: Failed password for root from 192.0.2.7 port 22 ssh2`, webWant{}},
	})
}

func TestAccessFields(t *testing.T) {
	p := webParser(t, Options{})
	var ev event.Event
	line := `www.example.org:80 192.0.2.7 - - [10/Oct/2026:13:55:36 -0700] "POST /a%20b/x.php?q=1&r=2 HTTP/2.0" 503 17 "http://e/?x" "Moz \"illa\""`
	if !p.read((*Reader).accessLog, []byte(line), &ev) {
		t.Fatal("not understood")
	}
	for _, f := range []struct{ name, got, want string }{
		{"method", string(ev.Method), "POST"},
		{"path", string(ev.Path), "/a%20b/x.php"},
		{"query", string(ev.Query), "q=1&r=2"},
		{"host", string(ev.Host), "www.example.org:80"},
		{"referrer", string(ev.Referrer), "http://e/?x"},
		{"agent", string(ev.Agent), `Moz \"illa\"`},
		{"time", time.Unix(0, ev.Time).UTC().Format(time.RFC3339), "2026-10-10T20:55:36Z"},
	} {
		if f.got != f.want {
			t.Errorf("%s: got %q, want %q", f.name, f.got, f.want)
		}
	}
	if ev.Status != 503 {
		t.Errorf("status: got %d, want 503", ev.Status)
	}
}

func TestAccessServiceByHint(t *testing.T) {
	line := `192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5`
	for hint, want := range map[string]string{"": "http", "nginx": "nginx", "apache2": "apache", "httpd": "apache", "apache-badbots": "http"} {
		var ev event.Event
		webParser(t, Options{Service: hint}).read((*Reader).accessLog, []byte(line), &ev)
		if ev.Service != want {
			t.Errorf("hint %q: got %q, want %q", hint, ev.Service, want)
		}
	}
}

func TestCLFStamp(t *testing.T) {
	zone := time.FixedZone("there", 2*3600)
	for _, c := range []struct{ in, want, rest string }{
		{"10/Oct/2000:13:55:36 -0700]", "2000-10-10T20:55:36Z", "]"},
		{"29/Feb/2024:23:59:59 +0530]", "2024-02-29T18:29:59Z", "]"},
		{"01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00Z", ""},
		{"31/Dec/2026:23:59:60 +0000]", "2027-01-01T00:00:00Z", "]"},
		{"14/Nov/2015:22:45:25.439]", "2015-11-14T20:45:25.439Z", "]"},
		{"14/Nov/2015:22:45:25 ]", "2015-11-14T20:45:25Z", " ]"},
		{"14/Nov/2015:22:45:25.123456789123 +0000]", "2015-11-14T22:45:25.123456789Z", "]"},
		{"14/nov/2015:22:45:25]", "", ""},
		{"14/Nov/2015:24:45:25]", "", ""},
		{"1/Nov/2015:22:45:25]", "", ""},
		{"14/Nov/2015:22:4", "", ""},
	} {
		ns, rest, ok := clfStamp([]byte(c.in), zone)
		if ok != (c.want != "") {
			t.Errorf("%q: got %v", c.in, ok)
			continue
		}
		if got := time.Unix(0, ns).UTC().Format(time.RFC3339Nano); ok && (got != c.want || string(rest) != c.rest) {
			t.Errorf("%q: got %s %q, want %s %q", c.in, got, rest, c.want, c.rest)
		}
	}
}

func TestDaysAgreeWithTheCalendar(t *testing.T) {
	for d := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() < 2201; d = d.AddDate(0, 0, 13) {
		if got, want := days(d.Year(), int(d.Month()), d.Day()), d.Unix()/86400; got != want {
			t.Fatalf("%v: got %d, want %d", d, got, want)
		}
	}
}

func TestSetRequest(t *testing.T) {
	for _, c := range []struct{ line, method, path, query, host, target string }{
		{"GET / HTTP/1.1", "GET", "/", "", "", ""},
		{"GET /a?b=c?d HTTP/1.1", "GET", "/a", "b=c?d", "", ""},
		{"GET /a b/c HTTP/1.1", "GET", "/a b/c", "", "", ""},
		{"GET /a", "GET", "/a", "", "", ""},
		{"M-SEARCH * HTTP/1.1", "M-SEARCH", "*", "", "", ""},
		{"GET http://h:80/p?q HTTP/1.1", "GET", "/p", "q", "h:80", "http://h:80/p?q"},
		{"GET http://h HTTP/1.1", "GET", "", "", "h", "http://h"},
		{"CONNECT h:443 HTTP/1.1", "CONNECT", "", "", "h:443", "h:443"},
		{"OPTIONS rtsp://h/p RTSP/1.0", "OPTIONS", "/p", "", "h", "rtsp://h/p"},
		{"HELP", "", "", "", "", ""},
		{"", "", "", "", "", ""},
		{"-", "", "", "", "", ""},
		{`\x16\x03\x01 \x00`, "", "", "", "", ""},
		{"get / HTTP/1.1", "", "", "", "", ""},
	} {
		var ev event.Event
		setRequest(&ev, []byte(c.line))
		target := ""
		if len(ev.Fields) > 0 {
			target = string(ev.Fields[0].Value)
		}
		got := [5]string{string(ev.Method), string(ev.Path), string(ev.Query), string(ev.Host), target}
		if want := [5]string{c.method, c.path, c.query, c.host, c.target}; got != want {
			t.Errorf("%q: got %q, want %q", c.line, got, want)
		}
	}
}
