// Package parsetest holds log lines that the tests of several packages read.
package parsetest

import (
	"fmt"
	"strings"
)

// The start and the end of a line of nginx's error log.
const (
	NginxHead = `2026/10/10 13:55:36 [error] 2865#2865: *66647 `
	NginxTail = `, server: www.example.org, request: "GET /x?y HTTP/1.1", host: "www.example.org"`
)

// Combined is a line of an access log.
const Combined = `192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /wp-login.php?a=b HTTP/1.1" 200 2326 "https://www.example.org/start" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`

// WebTexts are what outsiders put into user names, paths, agents, referrers
// and hosts: the ends and the whole of other lines, with an address to blame
// that is not theirs.
func WebTexts() []string {
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

// WebLine is a family's line with text wherever outsiders choose it,
// written as its server writes it. The true client is 192.0.2.7.
type WebLine struct {
	Name   string
	Family string // whose scanner reads it; "any" is none's
	Line   func(text string) string
}

func WebLines() []WebLine {
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
	return []WebLine{
		{"combined of nginx", "any", func(s string) string {
			s = nginx.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "` + s + `" 401 5 "` + s + `" "` + s + `"`
		}},
		{"combined of Apache", "apache", func(s string) string {
			s = apache.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "GET /` + s + ` HTTP/1.1" 401 5 "` + s + `" "` + s + `"`
		}},
		{"combined, nothing escaped", "any", func(s string) string {
			s = flat.Replace(s)
			return `192.0.2.7 - ` + s + ` ` + now + ` "GET /` + s + ` HTTP/1.1" 401 5 "` + s + `" "` + s + `"`
		}},
		{"vhost", "any", func(s string) string {
			s = apache.Replace(s)
			return `www.example.org:80 192.0.2.7 - ` + s + ` ` + now + ` "` + s + `" 401 5 "` + s + `" "` + s + `"`
		}},
		{"nginx, mismatch", "nginx", func(s string) string {
			return NginxHead + `user "` + noColon(s) + `": password mismatch` + tail(s)
		}},
		{"nginx, not found", "nginx", func(s string) string {
			return NginxHead + `user "` + noColon(s) + `" was not found in "/etc/f"` + tail(s)
		}},
		{"nginx, limit", "nginx", func(s string) string {
			return NginxHead + `limiting requests, excess: 1.495 by zone "one"` + tail(s)
		}},
		{"nginx, a file", "nginx", func(s string) string {
			line := NginxHead + `open() "/srv/` + flat.Replace(s) + `" failed (2: No such file or directory)` + tail(s)
			return line[:min(len(line), 2047)]
		}},
		{"nginx, cut", "nginx", func(s string) string {
			line := NginxHead + `user "` + noColon(s) + strings.Repeat("x", 1700) + `": password mismatch` + tail(s)
			return line[:min(len(line), 2047)]
		}},
		{"nginx, mail", "nginx", func(s string) string {
			return NginxHead + `client login failed: "no" while in http auth state, client: 192.0.2.7, server: 0.0.0.0:25, login: "` + flat.Replace(s) + `"`
		}},
		{"apache 2.2", "apache", func(s string) string {
			s = apache.Replace(s)
			return `[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] user ` + s + `: authentication failure for "` + s + `": Password Mismatch, referer: ` + s
		}},
		{"apache 2.4", "apache", func(s string) string {
			return `[Sat Oct 10 13:55:36.1 2026] [core:error] [pid 1] [client 192.0.2.7:1] AH00128: File does not exist: ` + flat.Replace(s)
		}},
		{"apache without a client", "apache", func(s string) string {
			return `[Sat Oct 10 13:55:36.1 2026] [cgid:error] [pid 1] script said: ` + flat.Replace(s)
		}},
		{"haproxy", "haproxy", func(s string) string {
			return `192.0.2.7:1 [14/Nov/2015:22:45:25.439] a b/c 1/1/1/1/1 401 5 ` + noSpace.Replace(s) + ` - PR-- 1/1/1/1/1 0/0 {` + flat.Replace(s) + `} "GET /` + flat.Replace(s) + ` HTTP/1.1"`
		}},
		{"squid", "squid", func(s string) string {
			s = noSpace.Replace(s)
			return `1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://x/` + s + ` ` + s + ` HIER_NONE/- text/html`
		}},
		{"lighttpd", "lighttpd", func(s string) string {
			return `2026-10-10 13:55:36: (mod_auth.c.850) password doesn't match for /` + flat.Replace(s) + ` username: ` + flat.Replace(s) + ` IP: 192.0.2.7`
		}},
		{"suhosin", "suhosin", func(s string) string {
			return `ALERT - dropped variable '` + flat.Replace(s) + `' (attacker '192.0.2.7', file '/srv/x.php')`
		}},
		{"JSON", "any", func(s string) string {
			return fmt.Sprintf(`{"remote_addr":"192.0.2.7","remote_user":%[1]q,"request":%[1]q,"status":401,"headers":{%[1]q:[%[1]q]},"agent":%[1]q}`, strings.ToValidUTF8(s, "?"))
		}},
		{"JSON of nginx", "any", func(s string) string {
			s = nginx.Replace(s)
			return `{"remote_addr":"192.0.2.7","remote_user":"` + s + `","request":"` + s + `","status":401,"agent":"` + s + `"}`
		}},
		{"JSON, nothing escaped", "any", func(s string) string {
			s = flat.Replace(s)
			return `{"remote_addr":"192.0.2.7","request":"GET /` + s + ` HTTP/1.1","status":401,"agent":"` + s + `"}`
		}},
		{"logfmt", "any", func(s string) string {
			return fmt.Sprintf(`level=info msg="login failed" user=%[1]q remote_addr=192.0.2.7 agent=%[1]q`, s)
		}},
		{"Nginx Proxy Manager", "any", func(s string) string {
			s = nginx.Replace(s)
			return now + ` - 200 200 - GET https example.org "/` + s + `" [Client 192.0.2.7] [Length 1] [Gzip -] [Sent-to 10.0.0.5] "` + s + `" "` + s + `"`
		}},
	}
}
