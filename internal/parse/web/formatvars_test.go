package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

// show is a format's pieces as text: the literal, the field's kind and grip.
func show(ps []piece) string {
	kinds := [...]string{"skip", "addr", "user", "time", "request", "method", "uri", "query", "status", "agent", "referrer", "host", "header", "end"}
	grips := [...]string{"", "+quoted", "+loose", "+bare"}
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.lit + "<" + kinds[p.kind] + grips[p.grip])
		if p.name != "" {
			b.WriteString(" " + p.name)
		}
		b.WriteString(">")
	}
	return b.String()
}

func TestPatternsCompile(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{`$remote_addr - $remote_user [$time_local] "$request" $status`,
			`<addr> - <user+loose> [<time>] "<request+quoted>" <status><end>`},
		{`${remote_addr}:$remote_port "$http_x_forwarded_for" $http_referer`,
			`<addr>:<skip> "<header+quoted x-forwarded-for>" <referrer+loose><end>`},
		{`$remote_addr $proxy_protocol_addr "$cookie_x" $upstream_addr $upstream_cache_status|$arg_q`,
			`<addr> <header proxy-protocol-addr> "<skip+quoted>" <skip+loose> <skip+loose>|<skip+loose><end>`},
		{`log_format x escape=none '$remote_addr "$request"';`, `<addr> "<request+bare>"<end>`},
		{`log_format x escape=json '{"a":"$remote_addr",' '"u":"$request_uri"}';`, `{"a":"<addr>","u":"<uri+quoted>"}<end>`},
		{`'$remote_addr $request'`, `<addr> <request+loose><end>`},
		{`%h %l %u %t \"%r\" %>s %b`, `<addr> <skip> <user+loose> [<time>] "<request+quoted>" <status> <skip><end>`},
		{`%h %!200,304{User-agent}i %400,501{Referer}i %{Host}i|`, `<addr> <agent+loose> <referrer+loose> <host+loose>|<end>`},
		{`%{c}a %a %{VARNAME}e %{X-Forwarded-For}i`, `<skip> <addr> <skip+loose> <header+loose x-forwarded-for><end>`},
		{`%a %m %U %q %v %V %f %{x}o %^FB %{remote}p %%x`, `<addr> <method> <uri+loose> <query+loose> <host> <host> <skip+loose> <skip+loose> <skip+loose> <skip> %x<end>`},
		{"#Fields: date time c-ip cs(Cookie) cs(Referer) sc-status x-edge", `<time> <addr> <header cookie> <referrer> <status> <skip><end>`},
		{"#Fields: time c-ip", `<skip> <addr><end>`},
	} {
		f, err := compilePattern(c.spec)
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		if got := show(f.pieces); got != c.want {
			t.Errorf("%s:\n got  %s\n want %s", c.spec, got, c.want)
		}
	}
}

func TestWhichEndAFormatIsReadFrom(t *testing.T) {
	for spec, back := range map[string]bool{
		`$remote_addr $request`:              false,
		`$host $remote_addr $request`:        false,
		`"$request" $remote_addr $request`:   false,
		`"$request" $remote_addr "$request"`: false,
		`$request $remote_addr`:              true,
		`$request $remote_addr "$request"`:   true,
		`$upstream_addr $remote_addr`:        true,
	} {
		f, err := compilePattern(spec)
		if err != nil || f.back != back {
			t.Errorf("%s: got %+v %v, want from the end: %v", spec, f, err, back)
		}
	}
}

// The families do their work without allocating, format and proxies included.
func TestNoAllocations(t *testing.T) {
	proxies := ClientOptions{Header: "X-Forwarded-For", Trusted: prefixes("192.0.2.0/24")}
	for _, c := range []struct {
		name string
		o    Options
		read reader
		line string
	}{
		{"combined", Options{}, (*Reader).Any, parsetest.Combined},
		{"main behind a proxy", Options{Format: "main", Client: proxies}, bareWeb, parsetest.Combined + ` "203.0.113.9, 192.0.2.8"`},
		{"a log_format behind a proxy", Options{Format: `$remote_addr [$time_local] "$request" $status "$http_x_forwarded_for"`, Client: proxies}, bareWeb,
			`192.0.2.7 [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 "203.0.113.9"`},
		{"nginx", Options{}, (*Reader).Any, parsetest.NginxHead + `user "alice": password mismatch, client: 192.0.2.7` + parsetest.NginxTail},
		{"apache", Options{}, (*Reader).Any, `[Sat Oct 10 13:55:36 2026] [error] [client 192.0.2.7] user alice not found: /x`},
		{"haproxy", Options{}, (*Reader).Any, `192.0.2.7:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET / HTTP/1.1"`},
		{"squid", Options{}, (*Reader).squidAny, `1386543323.000      4 192.0.2.7 TCP_DENIED/403 4099 GET http://e.example/x - HIER_NONE/- text/html`},
		{"JSON with escapes", Options{Client: proxies}, (*Reader).JSON, `{"remote_addr":"192.0.2.7","status":200,"request":"GET /\u0041 HTTP/1.1","http_x_forwarded_for":"203.0.113.9"}`},
		{"logfmt", Options{}, (*Reader).logfmtLog, `level=info method=GET path=/x status=200 remote_addr=192.0.2.7:55`},
	} {
		p := webParser(t, c.o)
		line := []byte(c.line)
		var ev event.Event
		n := testing.AllocsPerRun(100, func() {
			ev = event.Event{Fields: ev.Fields[:0]}
			if !p.read(c.read, line, &ev) {
				t.Fatalf("%s: not understood", c.name)
			}
			p.Reset()
		})
		if n > 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
