package parse

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse/parsetest"
	"stoplog/internal/parse/web"
	"stoplog/internal/source"
)

// webRef is when the tests' lines are read: late 2026.
var webRef = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

// parseLine reads a line as the whole program does.
func parseLine(t testing.TB, o Options, line string) (Event, bool) {
	t.Helper()
	o.Sniff = true
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	ok := p.Parse(&source.Line{Text: []byte(line)}, webRef, &ev)
	return ev, ok
}

func TestWebScanner(t *testing.T) {
	for tag, line := range map[string]string{
		"nginx":       parsetest.NginxHead + `access forbidden by rule, client: 192.0.2.7` + parsetest.NginxTail,
		"openresty":   `[error] 2865#2865: *66647 access forbidden by rule, client: 192.0.2.7` + parsetest.NginxTail,
		"apache2":     `[authz_core:error] [pid 22034] [client 192.0.2.7:58585] AH01630: client denied by server configuration: /x`,
		"httpd":       `[authz_core:error] [pid 22034] [client 192.0.2.7:58585] AH01630: client denied by server configuration: /x`,
		"haproxy":     `192.0.2.7:58444 [14/Nov/2015:22:45:25.439] main main/<NOSRV> 0/-1/-1/-1/0 403 51 - - PR-- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`,
		"lighttpd":    `(mod_auth.c.853) password doesn't match for / username: bob IP: 192.0.2.7`,
		"squid":       `1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://e.example/x - HIER_NONE/- text/html`,
		"(squid-1)":   `1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://e.example/x - HIER_NONE/- text/html`,
		"suhosin":     `ALERT - dropped variable 'x' (attacker '192.0.2.7', file '/srv/x.php')`,
		"mod_evasive": `Blacklisting address 192.0.2.7: possible DoS attack.`,
		"caddy":       `{"logger":"http.log.access","request":{"remote_ip":"192.0.2.7","method":"GET","uri":"/x","headers":{"Authorization":["x"]}},"status":401}`,
		"traefik":     `192.0.2.7 - bob [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-" 3 "r@docker" "http://10.0.0.1:80" 0ms`,
		"varnishncsa": `192.0.2.7 - bob [10/Oct/2026:13:55:36 +0000] "GET http://h/ HTTP/1.1" 401 5 "-" "-"`,
	} {
		p, _ := New(Options{})
		s := p.web.Scanner(web.Family([]byte(tag)))
		if s == nil {
			t.Errorf("%s: no scanner", tag)
			continue
		}
		var ev Event
		if !s(p.message(), []byte(line), &ev) || ev.Outcome != Failure || ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%s: got %v %v", tag, ev.Outcome, ev.Addr)
		}
		if s(p.message(), []byte("a message that says nothing"), &ev) {
			t.Errorf("%s: understands a message that says nothing", tag)
		}
		if tag[0] == '(' {
			continue // no tag by RFC 3164
		}
		got, ok := parseLine(t, Options{}, "Oct 10 13:55:36 www "+tag+"[12]: "+line)
		if !ok || got.Addr.String() != "192.0.2.7" || got.Verified {
			t.Errorf("%s through syslog: got %v %v, verified %v", tag, ok, got.Addr, got.Verified)
		}
	}
	if web.Family([]byte("sshd")) != "" {
		t.Error("sshd is no web server")
	}
}

// Every format that can be named reads a line of its own and no other.
func TestNamedFormats(t *testing.T) {
	lines := map[string]string{
		"combined":       parsetest.Combined,
		"json":           `{"remote_addr":"192.0.2.7","status":200,"request":"GET /x HTTP/1.1"}`,
		"logfmt":         `remote_addr=192.0.2.7 status=200 method=GET path=/x`,
		"haproxy":        `192.0.2.7:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`,
		"squid":          `1386543323.000      4 192.0.2.7 TCP_MISS/200 4099 GET http://e.example/x - HIER_NONE/- text/html`,
		"nginx-error":    parsetest.NginxHead + `access forbidden by rule, client: 192.0.2.7` + parsetest.NginxTail,
		"apache-error":   `[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] [client 192.0.2.7:1] AH00128: File does not exist: /x`,
		"lighttpd-error": `2026-10-10 13:55:36: (mod_auth.c.525) get_password failed, IP: 192.0.2.7`,
		"iis":            `2026-10-10 13:55:36 10.0.0.1 GET /x - 443 - 192.0.2.7 Mozilla/5.0+(Windows) - 200 1 1326 15`,
	}
	for name := range lines {
		for other, line := range lines {
			ev, ok := parseLine(t, Options{Format: name}, line)
			switch {
			case name == other && (!ok || ev.Addr.String() != "192.0.2.7"):
				t.Errorf("%s: got %v %v", name, ok, ev.Addr)
			case ok && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7":
				t.Errorf("%s reads a line of %s as %v", name, other, ev.Addr)
			}
		}
	}
	for _, name := range []string{"common", "main", "vhost", "vhost_combined", "COMBINED", "npm", "zoraxy", "alb", "elb", "cloudfront", "auto", ""} {
		if _, err := New(Options{Format: name}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Bare lines are the server's own; through syslog anybody may have sent them.
func TestVerifiedLines(t *testing.T) {
	if ev, ok := parseLine(t, Options{}, parsetest.Combined); !ok || !ev.Verified {
		t.Errorf("a log file's line: got %v, verified %v", ok, ev.Verified)
	}
	if ev, ok := parseLine(t, Options{}, "Oct 10 13:55:36 www nginx: "+parsetest.Combined); !ok || ev.Verified {
		t.Errorf("a syslog line: got %v, verified %v", ok, ev.Verified)
	}
}

// The captured lines say the same through the whole parser, as files, in
// Docker's JSON and, where they are messages, behind a syslog header.
func TestCapturedLinesThroughTheParser(t *testing.T) {
	for _, file := range []string{"nginx-access.log", "nginx-main.log", "nginx-json.log", "nginx-error.log", "apache-access.log",
		"apache-vhost.log", "apache-error.log", "lighttpd-access.log", "lighttpd-error.log", "squid-access.log", "haproxy.log"} {
		tag, _, _ := strings.Cut(file, "-")
		tag, _, _ = strings.Cut(tag, ".")
		for _, line := range capturedWeb(t, file) {
			want, ok := parseLine(t, Options{}, line)
			if !ok {
				t.Errorf("%s: not understood: %s", file, line)
			}
			text, err := json.Marshal(line + "\n")
			if err != nil {
				t.Fatal(err)
			}
			docker := `{"log":` + string(text) + `,"stream":"stdout","time":"2026-10-10T13:55:36Z"}`
			if got, ok := parseLine(t, Options{}, docker); !ok || got.Addr != want.Addr || got.Outcome != want.Outcome {
				t.Errorf("%s in Docker's JSON: got %v %v, want %v %v\n%s", file, got.Addr, got.Outcome, want.Addr, want.Outcome, line)
			}
			if tag == "apache" && strings.HasSuffix(file, "error.log") || tag == "lighttpd" {
				continue // their messages lack the stamp there
			}
			got, ok := parseLine(t, Options{}, "Oct 10 13:55:36 www "+tag+"[7]: "+line)
			if !ok || got.Addr != want.Addr || got.Outcome != want.Outcome || string(got.User) != string(want.User) {
				t.Errorf("%s through syslog: got %v %v %v, want %v %v\n%s", file, ok, got.Addr, got.Outcome, want.Addr, want.Outcome, line)
			}
		}
	}
}

// The same rule through the whole parser: hostile text in any family's line
// never names another, whatever family else may think to know it.
func TestHostileTextThroughTheParser(t *testing.T) {
	for _, h := range parsetest.WebLines() {
		for _, text := range parsetest.WebTexts() {
			line := h.Line(text)
			if ev, ok := parseLine(t, Options{}, line); ok && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
				t.Errorf("%s: %s blames %v\n%s", h.Name, ev.Service, ev.Addr, line)
			}
		}
	}
}

func FuzzWebThroughTheParser(f *testing.F) {
	for _, s := range parsetest.WebTexts() {
		f.Add(s)
	}
	hostile := parsetest.WebLines()
	f.Fuzz(func(t *testing.T, text string) {
		for _, h := range hostile {
			line := h.Line(text)
			if strings.ContainsAny(line, "\n\r") {
				continue
			}
			if ev, ok := parseLine(t, Options{}, line); ok && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
				t.Errorf("%s: %s blames %v\n%s", h.Name, ev.Service, ev.Addr, line)
			}
		}
	})
}

func TestJSONBehindAHeader(t *testing.T) {
	for _, line := range []string{
		`2026-10-10T13:55:36+00:00 cache1  {  "client_ip": "192.0.2.7", "url": "/x", "request_method": "GET", "response_status": 404 }`,
		`Oct 10 13:55:36 www caddy[7]: {"logger":"http.log.access","request":{"remote_ip":"192.0.2.7","method":"GET","uri":"/x"},"status":404}`,
	} {
		if ev, ok := parseLine(t, Options{}, line); !ok || ev.Addr.String() != "192.0.2.7" || ev.Status != 404 {
			t.Errorf("%s: got %v %d", line, ev.Addr, ev.Status)
		}
	}
}

// TestLighttpdIsNoOthersAccessLog: request headers that lighttpd logs are no
// line of a proxy that it may resemble.
func TestLighttpdIsNoOthersAccessLog(t *testing.T) {
	p, err := New(Options{Service: "lighttpd"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`2026-11-22 08:59:20: (request.c.1344) rqst: Referer: x 2026/10/10 13:55:36 [2026-10-10 13:55:36.417736] [router:host-http] [origin:example.org] [client: 192.0.2.7] [useragent: a] GET /x 404`,
		`[22/Nov/2026:08:59:20 +0000] - 401 401 - GET https example.org "/" [Client 192.0.2.7] [Length 0] [Gzip -] [Sent-to 10.0.0.1] "a" "-"`,
	} {
		if ev, ok := parseOne(t, p, line); ok && ev.Addr.IsValid() {
			t.Errorf("blames %s: %s", ev.Addr, line)
		}
	}
}

// capturedWeb are the lines of a log that a real server wrote.
func capturedWeb(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("web", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestFormatBehindAHeader(t *testing.T) {
	ev, ok := parseLine(t, Options{Format: `$remote_addr|$request|$status`}, `Oct 10 13:55:36 www nginx[12]: 192.0.2.7|GET /x HTTP/1.1|200`)
	if !ok || ev.Addr.String() != "192.0.2.7" || ev.Service != "nginx" || string(ev.Path) != "/x" {
		t.Errorf("got %v %v %s %s, want 192.0.2.7 nginx /x", ok, ev.Addr, ev.Service, ev.Path)
	}
}

// Times behind other things than a timestamp are read without a parser, too.
func TestTimesBehindOtherText(t *testing.T) {
	want := time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC).UnixNano()
	for _, line := range []string{
		`192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5`,
		`{"time":"2026-10-10T13:55:36Z","msg":"x"}`,
		`level=info time=2026-10-10T13:55:36Z msg=x`,
		`{"log":"x\n","stream":"stdout","time":"2026-10-10T13:55:36Z"}`,
	} {
		if ns, ok := LineTime([]byte(line), webRef, time.UTC); !ok || ns != want {
			t.Errorf("%s: got %d %v, want %d", line, ns, ok, want)
		}
	}
}
