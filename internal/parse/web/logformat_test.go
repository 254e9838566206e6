package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

// fields of one line read by a format, as "name=value" for what is set.
func readFormat(t *testing.T, o Options, line string) (webWant, string, bool) {
	t.Helper()
	p := webParser(t, o)
	var ev event.Event
	ok := p.Formatted(&p.m, []byte(line), &ev)
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value []byte
	}{{"m", ev.Method}, {"p", ev.Path}, {"q", ev.Query}, {"a", ev.Agent}, {"r", ev.Referrer}, {"h", ev.Host}} {
		if len(f.value) > 0 {
			b.WriteString(f.name + "=" + string(f.value) + " ")
		}
	}
	return webGot(&ev, ok), strings.TrimSpace(b.String()), ev.Time != 0
}

func TestFormats(t *testing.T) {
	const nginxCombined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	ok := func(addr string) webWant { return webWant{addr: addr, service: "http"} }
	failed := func(user string) webWant {
		return webWant{addr: "192.0.2.7", service: "http", outcome: event.Failure, user: user}
	}
	for _, c := range []struct {
		name, format, line string
		want               webWant
		fields             string
	}{
		{"nginx combined", nginxCombined,
			`192.0.2.7 - al ice [10/Oct/2026:13:55:36 +0000] "GET /x?y HTTP/1.1" 401 5 "-" "a \x22b"`, failed("al ice"), `m=GET p=/x q=y a=a \x22b`},
		{"the directive pasted", "log_format main '$remote_addr - $remote_user [$time_local] \"$request\" '\n    '$status \"$http_user_agent\"';",
			`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 401 "ag"`, failed("alice"), `m=GET p=/x a=ag`},
		{"the address last, behind quotes", `"$request" "$http_user_agent" $status $remote_addr`,
			`"GET /x\" HTTP/1.1" "a\" 200 203.0.113.66" 200 192.0.2.7`, ok("192.0.2.7"), `m=GET p=/x\" a=a\" 200 203.0.113.66`},
		{"the address last, behind anything", `$request_uri $status $remote_addr`,
			`/x 200 203.0.113.66 y 404 192.0.2.7`, ok("192.0.2.7"), `p=/x`},
		{"the address in the middle, found from the end", `$request_uri [$remote_addr] $status "$http_user_agent"`,
			`/x] [203.0.113.66] 200 "a" [192.0.2.7] 404 "b\"] [203.0.113.66] 200 \"c"`, ok("192.0.2.7"), `p=/x] [203.0.113.66] 200 "a" a=b\"] [203.0.113.66] 200 \"c`},
		{"JSON by hand", `{"ip":"$remote_addr","uri":"$request_uri","method":"$request_method","status":$status,"host":"$host"}`,
			`{"ip":"192.0.2.7","uri":"/x?\",\"ip\":\"203.0.113.66","method":"GET","status":200,"host":"h"}`, ok("192.0.2.7"), `m=GET p=/x q=\",\"ip\":\"203.0.113.66 h=h`},
		{"the time by ISO, the address in brackets", `$time_iso8601 [$remote_addr] ${request_method} $uri $status`,
			`2026-10-10T13:55:36+00:00 [2001:db8::7] GET /a 200`, ok("2001:db8::7"), `m=GET p=/a`},
		{"upstreams' lists", `$upstream_addr $status $remote_addr`, `10.0.0.1:80, 10.0.0.2:80 200 192.0.2.7`, ok("192.0.2.7"), ""},
		{"Apache combined", `%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"`,
			`192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 401 5 "-" "a \"b\" c"`, failed("alice"), `m=GET p=/x a=a \"b\" c`},
		{"LogFormat pasted", `LogFormat "%v:%p %a %l %u %t \"%r\" %>s %O \"%{User-Agent}i\"" vhost`,
			`www.example.org:443 192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 200 5 "ag"`, ok("192.0.2.7"), `m=GET p=/x a=ag h=www.example.org`},
		{"Apache in parts", `%{%Y-%m-%d %H:%M:%S}t %a %m %U%%%q %s %{ms}T`,
			`2026-10-10 13:55:36 192.0.2.7 GET /x%?a=b 200 12`, ok("192.0.2.7"), `m=GET p=/x q=a=b`},
		{"W3C", "#Fields: date time c-ip cs-username cs-method cs-uri-stem cs-uri-query sc-status cs(User-Agent)",
			`2026-10-10 13:55:36 192.0.2.7 EX\al GET /x a=b 401 Moz+illa`, failed(`EX\al`), `m=GET p=/x q=a=b a=Moz+illa`},
		{"by name", "combined", `192.0.2.7 - alice [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 401 5 "-" "-"`, failed("alice"), `m=GET p=/x`},
		{"a host name for the address", nginxCombined, `host.example - alice [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 401 5 "-" "-"`,
			webWant{service: "http", outcome: event.Failure, user: "alice"}, `m=GET p=/x`},
		{"what begins like an address", nginxCombined, `198 - alice [10/Oct/2026:13:55:36 +0000] "GET /x HTTP/1.1" 401 5 "-" "-"`,
			webWant{service: "http", outcome: event.Failure, user: "alice"}, `m=GET p=/x`},
		{"another line", nginxCombined, `no such line`, webWant{}, ""},
		{"an escape at a field's start", `"$request" "$http_user_agent" $status $remote_addr`,
			`"\" 100 203.0.113.66 " "\" 100 203.0.113.66 " 200 192.0.2.7`, ok("192.0.2.7"), `a=\" 100 203.0.113.66`},
		{"no end", `$request_uri $remote_addr $status`, `/x 192.0.2.7 200 and more`, webWant{}, ""},
	} {
		got, fields, _ := readFormat(t, Options{Format: c.format}, c.line)
		if got != c.want || fields != c.fields {
			t.Errorf("%s:\n got  %+v %s\n want %+v %s", c.name, got, fields, c.want, c.fields)
		}
	}
}

func TestFormatsRefused(t *testing.T) {
	for format, want := range map[string]string{
		`$request $status`:                       "does not hold the peer's address",
		`$request_uri $remote_addr $http_cookie`: "between fields that clients choose",
		`%U %h %{Cookie}i`:                       "between fields that clients choose",
		`$remote_addr$remote_user`:               "touch each other",
		`$remote_addr $`:                         "without a variable's name",
		`%{X-Forwarded-For}i %t "%r" %>s`:        "does not hold the peer's address",
		`%h %{Cookie`:                            "without its }",
		`%h %`:                                   "% at the end",
		`my format`:                              "neither a name",
		`log_format x escape=none '"$request" $remote_addr "$http_user_agent"';`: "between fields that clients choose",
	} {
		_, err := New(Options{Format: format})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "format ") {
			t.Errorf("%s: got %v, want …%s…", format, err, want)
		}
	}
}

func TestFormatWithProxies(t *testing.T) {
	c := ClientOptions{Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8")}
	for format, line := range map[string]string{
		`$remote_addr [$time_local] "$request" $status "$http_x_forwarded_for"`: `10.0.0.1 [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 "203.0.113.66, 192.0.2.7"`,
		`%h %t \"%r\" %>s \"%{X-Forwarded-For}i\"`:                              `10.0.0.1 [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 "203.0.113.66, 192.0.2.7"`,
		`json`:   `{"remote_addr":"10.0.0.1","status":200,"request":"GET / HTTP/1.1","http_x_forwarded_for":"203.0.113.66, 192.0.2.7"}`,
		`logfmt`: `remote_addr=10.0.0.1 status=200 method=GET path=/ http_x_forwarded_for="203.0.113.66, 192.0.2.7"`,
		`main`:   `10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5 "-" "a" "203.0.113.66, 192.0.2.7"`,
	} {
		if got, _, _ := readFormat(t, Options{Format: format, Client: c}, line); got.addr != "192.0.2.7" {
			t.Errorf("%s: got %q", format, got.addr)
		}
		direct := strings.Replace(line, "10.0.0.1", "198.51.100.1", 1)
		if got, _, _ := readFormat(t, Options{Format: format, Client: c}, direct); got.addr != "198.51.100.1" {
			t.Errorf("%s, not by a proxy: got %q", format, got.addr)
		}
	}
}

func TestPresets(t *testing.T) {
	if got := len(presetFormats()); got != len(presetSpecs) {
		t.Fatalf("%d of %d formats compile", got, len(presetSpecs))
	}
	ok := webWant{addr: "192.0.2.7", service: "http"}
	runWeb(t, Options{}, (*Reader).Any, []webCase{
		{`[10/Oct/2026:13:55:36 +0000] - 200 200 - GET https example.org "/x?y" [Client 192.0.2.7] [Length 123] [Gzip -] [Sent-to 10.0.0.5] "Mozilla/5.0" "-"`, ok},
		{`[10/Oct/2026:13:55:36 +0000] MISS 502, 200 200 - GET https example.org "/x] [Client 203.0.113.66] [Length 1] [Gzip -] [Sent-to x] \x22" [Client 192.0.2.7] [Length 123] [Gzip -] [Sent-to 10.0.0.5] "[Client 203.0.113.66]" "-"`, ok},
		{`[10/Oct/2026:13:55:36 +0000] 404 - GET http localhost "/x" [Client 192.0.2.7] [Length 123] [Gzip 3.2] "Mozilla" "-"`, ok},
		{`2026/10/10 13:55:36 [2026-10-10 13:55:36.417736] [router:host-http] [origin:example.org] [client: 192.0.2.7] [useragent: a] [client: 203.0.113.66] b] GET /x 404`, ok},
		{`https 2026-10-10T13:55:36.186641Z app/x/4 192.0.2.7:44740 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.org:443/x HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn "Root=1" "h"`, ok},
		{`2026-10-10T13:55:36.943958Z lb 192.0.2.7:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.org:80/ HTTP/1.1" "curl/7.38.0" - -`, ok},
		{`2026-10-10 13:55:36 10.0.0.1 POST /owa/auth.owa - 443 EX\bob 192.0.2.7 Mozilla/5.0+(Windows) - 401 1 1326 15`, webWant{addr: "192.0.2.7", service: "http", outcome: event.Failure, user: `EX\bob`}},
		{"2026-10-10\t13:55:36\tLAX1\t392\t192.0.2.7\tGET\td1.cloudfront.example\t/x\t200\t-\tMozilla\t-\t-\tHit", ok},
		{`2026-10-10 13:55:36 some words of another program that counts to nine 192.0.2.7 a b 12 c`, webWant{}},
	})
}

func FuzzFormat(f *testing.F) {
	for _, s := range append(parsetest.WebTexts(), `"`, `\`, `\"`, "] ", `" 200 203.0.113.66`, `" 100 203.0.113.66 `) {
		f.Add(s)
	}
	specs := []string{
		`$remote_addr - $remote_user [$time_local] "$request" $status "$http_user_agent"`,
		`"$request" "$http_user_agent" $status $remote_addr`,
		`$request_uri [$remote_addr] $status "$http_user_agent"`,
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n\r") {
			return
		}
		esc := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
		for i, line := range []string{
			`192.0.2.7 - ` + esc + ` [10/Oct/2026:13:55:36 +0000] "GET /` + esc + ` HTTP/1.1" 200 "` + esc + `"`,
			`"` + esc + `" "` + esc + `" 200 192.0.2.7`,
			text + ` [192.0.2.7] 200 "` + esc + `"`,
		} {
			var ev event.Event
			p := webParser(t, Options{Format: specs[i]})
			if p.Formatted(&p.m, []byte(line), &ev) && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
				t.Errorf("%s blames %v", line, ev.Addr)
			}
		}
	})
}
