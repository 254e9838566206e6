package parse

import (
	"fmt"
	"strings"
	"testing"
)

// webHostileTexts are what outsiders put into user names, paths, agents, referrers
// and hosts: the ends and the whole of other lines, with an address to blame
// that is not theirs.
func webHostileTexts() []string {
	const forged = "203.0.113.66"
	texts := []string{
		`", client: ` + forged + `, server: s, request: "GET / HTTP/1.1", host: "h"`,
		`x": password mismatch, client: ` + forged + `, server: s, request: "GET / HTTP/1.1", host: "h"`,
		`x" was not found in "/f", client: ` + forged + `, server: s, request: "GET / HTTP/1.1", host: "h"`,
		`" failed (2: No such file or directory), client: ` + forged + `, server: s`,
		`[client ` + forged + `] user root not found`,
		`] [client ` + forged + `:1] AH01617: user root: authentication failure for "/": Password Mismatch`,
		`x, IP: ` + forged, ` username: root, IP: ` + forged,
		`' (attacker '` + forged + `', file '/x')`, forged, `"` + forged + `"`, forged + ` - - `,
		forged + ` - root [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5 "-" "-"`,
		` [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 401 5`, `] "`, `" 401 5 "`,
		`","remote_addr":"` + forged + `","x":"`, `\","remote_addr":"` + forged, `"},"remote_ip":"` + forged + `"}`,
		` remote_addr=` + forged, `" remote_addr=` + forged + ` x="`,
		forged + `:1 [14/Nov/2015:22:45:25.439] a b/c 1/1/1/1/1 401 5 - - PR-- 1/1/1/1/1 0/0 "GET / HTTP/1.1"`,
		`1386543323.000 4 ` + forged + ` TCP_DENIED/403 1 GET http://x - HIER_NONE/- -`,
		`[Client ` + forged + `] [Length 1] [Gzip -] "a" "b"`,
		`Failed password for root from ` + forged + ` port 22 ssh2`,
		"#012" + forged, `\n` + forged, `\x0a` + forged, "\\", `\\`, `\"`, `"`, `'`, "`", "[", "]", "{", "}", "", " ", "\x00", "\xff\xfe",
		`%s%n`, strings.Repeat("A", 3000) + `, client: ` + forged, strings.Repeat(`"`, 200), strings.Repeat("[", 200),
	}
	return texts
}

// webHostile is a family's line with text wherever outsiders choose it,
// written as its server writes it. The true client is 192.0.2.7.
type webHostile struct {
	name string
	read scanner
	line func(text string) string
}

func webHostiles() []webHostile {
	flat := strings.NewReplacer("\n", " ", "\r", " ")
	apache := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`)
	nginx := strings.NewReplacer(`\`, `\x5C`, `"`, `\x22`, "\n", `\x0A`, "\r", `\x0D`)
	// what nginx lets into its error log as it came: see nginxuser.go
	noColon := func(s string) string { s, _, _ = strings.Cut(flat.Replace(s), ":"); return s }
	noSpace := strings.NewReplacer(" ", "%20", "\n", "", "\r", "", "\x00", "", "\t", "")
	host := strings.NewReplacer("/", "", "\n", "", "\r", "", "\x00", "")
	tail := func(s string) string {
		return `, client: 192.0.2.7, server: s, request: "GET /` + noSpace.Replace(s) + ` HTTP/1.1", host: "` + host.Replace(s) + `", referrer: "` + flat.Replace(s) + `"`
	}
	const now = `[10/Oct/2026:13:55:36 +0000]`
	return []webHostile{
		{"combined of nginx", bareAny, func(s string) string {
			s = nginx.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "` + s + `" 401 5 "` + s + `" "` + s + `"`
		}},
		{"combined of Apache", apacheAny, func(s string) string {
			s = apache.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "GET /` + s + ` HTTP/1.1" 401 5 "` + s + `" "` + s + `"`
		}},
		{"combined, nothing escaped", bareAny, func(s string) string {
			s = flat.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "GET /` + s + ` HTTP/1.1" 401 5 "` + s + `" "` + s + `"`
		}},
		{"vhost", bareAny, func(s string) string {
			s = apache.Replace(s)
			return `www.example.org:80 192.0.2.7 - ` + s + ` ` + now + ` "` + s + `" 401 5 "` + s + `" "` + s + `"`
		}},
		{"nginx, mismatch", nginxTagged, func(s string) string {
			return nginxHeadText + `user "` + noColon(s) + `": password mismatch` + tail(s)
		}},
		{"nginx, not found", nginxTagged, func(s string) string {
			return nginxHeadText + `user "` + noColon(s) + `" was not found in "/etc/f"` + tail(s)
		}},
		{"nginx, limit", nginxTagged, func(s string) string {
			return nginxHeadText + `limiting requests, excess: 1.495 by zone "one"` + tail(s)
		}},
		{"nginx, a file", nginxTagged, func(s string) string {
			line := nginxHeadText + `open() "/srv/` + flat.Replace(s) + `" failed (2: No such file or directory)` + tail(s)
			return line[:min(len(line), 2047)]
		}},
		{"nginx, cut", nginxTagged, func(s string) string {
			line := nginxHeadText + `user "` + noColon(s) + strings.Repeat("x", 1700) + `": password mismatch` + tail(s)
			return line[:min(len(line), 2047)]
		}},
		{"nginx, mail", nginxTagged, func(s string) string {
			return nginxHeadText + `client login failed: "no" while in http auth state, client: 192.0.2.7, server: 0.0.0.0:25, login: "` + flat.Replace(s) + `"`
		}},
		{"apache 2.2", apacheAny, func(s string) string {
			s = apache.Replace(s)
			return `[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] user ` + s + `: authentication failure for "` + s + `": Password Mismatch, referer: ` + s
		}},
		{"apache 2.4", apacheAny, func(s string) string {
			return `[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] [client 192.0.2.7:1] AH00128: File does not exist: ` + flat.Replace(s)
		}},
		{"apache without a client", apacheAny, func(s string) string {
			return `[Sat Oct 10 13:55:36.1 2026] [cgid:error] [pid 1] script said: ` + flat.Replace(s)
		}},
		{"haproxy", haproxyAny, func(s string) string {
			return `192.0.2.7:1 [14/Nov/2015:22:45:25.439] a b/c 1/1/1/1/1 401 5 ` + noSpace.Replace(s) + ` - PR-- 1/1/1/1/1 0/0 {` + flat.Replace(s) + `} "GET /` + flat.Replace(s) + ` HTTP/1.1"`
		}},
		{"squid", squidAny, func(s string) string {
			s = noSpace.Replace(s)
			return `1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://x/` + s + ` ` + s + ` HIER_NONE/- text/html`
		}},
		{"lighttpd", lighttpdAny, func(s string) string {
			return `2026-10-10 13:55:36: (mod_auth.c.850) password doesn't match for /` + flat.Replace(s) + ` username: ` + flat.Replace(s) + ` IP: 192.0.2.7`
		}},
		{"suhosin", suhosinLog, func(s string) string {
			return `ALERT - dropped variable '` + flat.Replace(s) + `' (attacker '192.0.2.7', file '/srv/x.php')`
		}},
		{"JSON", bareAny, func(s string) string {
			return fmt.Sprintf(`{"remote_addr":"192.0.2.7","remote_user":%[1]q,"request":%[1]q,"status":401,"headers":{%[1]q:[%[1]q]},"agent":%[1]q}`, strings.ToValidUTF8(s, "?"))
		}},
		{"JSON of nginx", bareAny, func(s string) string {
			s = nginx.Replace(s)
			return `{"remote_addr":"192.0.2.7","remote_user":"` + s + `","request":"` + s + `","status":401,"agent":"` + s + `"}`
		}},
		{"JSON, nothing escaped", bareAny, func(s string) string {
			s = flat.Replace(s)
			return `{"remote_addr":"192.0.2.7","request":"GET /` + s + ` HTTP/1.1","status":401,"agent":"` + s + `"}`
		}},
		{"logfmt", bareAny, func(s string) string {
			return fmt.Sprintf(`level=info msg="login failed" user=%[1]q remote_addr=192.0.2.7 agent=%[1]q`, s)
		}},
		{"Nginx Proxy Manager", bareAny, func(s string) string {
			s = nginx.Replace(s)
			return now + ` - 200 200 - GET https example.org "/` + s + `" [Client 192.0.2.7] [Length 1] [Gzip -] [Sent-to 10.0.0.5] "` + s + `" "` + s + `"`
		}},
	}
}

// blamed checks the rule that nobody but the true client is ever named.
func (h webHostile) blamed(t *testing.T, text string) {
	t.Helper()
	p := webParser(t, Options{})
	var ev Event
	line := h.line(text)
	if !h.read(p, []byte(line), &ev) {
		return
	}
	if ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
		t.Errorf("%s: blames %v\n%s", h.name, ev.Addr, line)
	}
}

func TestHostileTextNeverChoosesTheAddress(t *testing.T) {
	for _, h := range webHostiles() {
		for _, text := range webHostileTexts() {
			h.blamed(t, text)
		}
	}
}

// The lines must be those that the families understand, or nothing is tested.
func TestHostileLinesAreUnderstood(t *testing.T) {
	for _, h := range webHostiles() {
		if h.name == "apache without a client" {
			continue
		}
		p := webParser(t, Options{})
		var ev Event
		if !h.read(p, []byte(h.line("name")), &ev) || ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%s: got %v", h.name, ev.Addr)
		}
	}
}

// An attempt that is told in a line of nginx's is found whatever it holds, so
// that nobody hides behind what he sends.
func TestNobodyHidesFromNginx(t *testing.T) {
	for _, h := range webHostiles() {
		if h.name != "nginx, mismatch" && h.name != "nginx, limit" && h.name != "nginx, mail" && h.name != "apache 2.2" {
			continue
		}
		for _, text := range webHostileTexts() {
			p := webParser(t, Options{})
			var ev Event
			if h.read(p, []byte(h.line(text)), &ev); ev.Outcome != Failure || ev.Addr.String() != "192.0.2.7" {
				t.Errorf("%s: got %v %v\n%s", h.name, ev.Outcome, ev.Addr, h.line(text))
			}
		}
	}
}

func fuzzFamily(f *testing.F, names ...string) {
	for _, s := range webHostileTexts() {
		f.Add(s)
	}
	var lines []webHostile
	for _, h := range webHostiles() {
		for _, n := range names {
			if strings.HasPrefix(h.name, n) {
				lines = append(lines, h)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, h := range lines {
			h.blamed(t, text)
		}
	})
}

func FuzzAccessLog(f *testing.F)   { fuzzFamily(f, "combined", "vhost", "Nginx Proxy") }
func FuzzNginxError(f *testing.F)  { fuzzFamily(f, "nginx") }
func FuzzApacheError(f *testing.F) { fuzzFamily(f, "apache") }
func FuzzProxyLogs(f *testing.F)   { fuzzFamily(f, "haproxy", "squid") }
func FuzzLighttpd(f *testing.F)    { fuzzFamily(f, "lighttpd", "suhosin") }
func FuzzJSONLog(f *testing.F)     { fuzzFamily(f, "JSON", "logfmt") }

// Any line at all: no panic, and no address that the line does not hold.
func FuzzBareWeb(f *testing.F) {
	for _, h := range webHostiles() {
		f.Add([]byte(h.line("name")))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var ev Event
		bareWeb(webParser(t, Options{}), line, &ev)
		if ev.Addr.Is4In6() || ev.Addr.Zone() != "" {
			t.Errorf("%q: address %v", line, ev.Addr)
		}
	})
}
