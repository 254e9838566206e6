package web

import (
	"strings"
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

func TestJSONLog(t *testing.T) {
	w := func(service string, o event.Outcome, k event.Kind, user string) webWant {
		return webWant{addr: "192.0.2.7", service: service, outcome: o, kind: k, user: user}
	}
	nobody := webWant{service: "http"}
	runWeb(t, Options{}, (*Reader).JSON, []webCase{
		// nginx by hand, Caddy, Traefik, Envoy, Google
		{`{"time":"2026-10-10T13:55:36+00:00","remote_addr":"192.0.2.7","remote_user":"bob","request":"GET /x HTTP/1.1","status":401}`, w("http", event.Failure, event.Plain, "bob")},
		{`{"remote_addr":"192.0.2.7","remote_user":"","request":"GET /x HTTP/1.1","status":"401"}`, w("http", event.Other, event.Plain, "")},
		{`{"level":"info","ts":1791640536.1,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","client_ip":"192.0.2.7","method":"GET","host":"h","uri":"/x","headers":{"User-Agent":["a"],"Client-Ip":["203.0.113.66"]}},"user_id":"bob","status":200}`, w("caddy", event.Other, event.Plain, "bob")},
		{`{"logger":"http.log.access","request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","method":"GET","uri":"/x"},"status":403}`, w("caddy", event.Other, event.Forbidden, "")},
		// Caddy 2.6.2 with basicauth: no credentials, a wrong password, a right one.
		{`{"level":"error","ts":1795332195.02272,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","remote_port":"59178","proto":"HTTP/1.1","method":"GET","host":"127.0.0.1:18099","uri":"/x","headers":{"User-Agent":["curl/7.88.1"],"Accept":["*/*"]}},"user_id":"","duration":0.000036113,"size":0,"status":401,"resp_headers":{"Server":["Caddy"],"Www-Authenticate":["Basic realm=\"restricted\""]}}`, w("caddy", event.Other, event.Plain, "")},
		{`{"level":"error","ts":1795332198.679258,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","remote_port":"59192","proto":"HTTP/1.1","method":"GET","host":"127.0.0.1:18099","uri":"/x","headers":{"Authorization":[],"User-Agent":["curl/7.88.1"],"Accept":["*/*"]}},"user_id":"","duration":3.608446596,"size":0,"status":401,"resp_headers":{"Server":["Caddy"],"Www-Authenticate":["Basic realm=\"restricted\""]}}`, w("caddy", event.Failure, event.Plain, "")},
		{`{"level":"info","ts":1795332203.6355026,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","remote_port":"55602","proto":"HTTP/1.1","method":"GET","host":"127.0.0.1:18099","uri":"/x","headers":{"Authorization":[],"User-Agent":["curl/7.88.1"],"Accept":["*/*"]}},"user_id":"alice","duration":2.195090917,"size":2,"status":200,"resp_headers":{"Server":["Caddy"],"Content-Type":["text/plain; charset=utf-8"]}}`, w("caddy", event.Other, event.Plain, "alice")},
		{`{"logger":"http.log.access","request":{"remote_ip":"192.0.2.7","method":"GET","uri":"/x","headers":{"Authorization":["REDACTED"]}},"user_id":"","status":401}`, w("caddy", event.Failure, event.Plain, "")},
		{`{"ClientAddr":"192.0.2.7:39490","ClientHost":"192.0.2.7","ClientUsername":"-","DownstreamStatus":404,"RequestMethod":"GET","RequestPath":"/x","request_Client-Ip":"203.0.113.66"}`, w("traefik", event.Other, event.Plain, "")},
		{`{"ClientAddr":"192.0.2.7:39490","ClientHost":"192.0.2.7","ClientUsername":"bob","DownstreamStatus":401,"RequestMethod":"GET","RequestPath":"/x"}`, w("traefik", event.Failure, event.Plain, "bob")},
		{`{"downstream_remote_address":"192.0.2.7:5","method":"GET","path":"/x","response_code":429,"x_forwarded_for":"203.0.113.66"}`, w("envoy", event.Other, event.Limited, "")},
		{`{"httpRequest":{"remoteIp":"192.0.2.7","requestMethod":"GET","requestUrl":"http://h/x","status":200}}`, w("http", event.Other, event.Plain, "")},
		{`{"client":{"ip":"192.0.2.7"},"http.request.method":"GET","url.path":"/x","http.response.status_code":200}`, w("http", event.Other, event.Plain, "")},
		// applications that tell of a login
		{`{"level":"warn","msg":"Login failed: bad password","user":"bob","remote_ip":"192.0.2.7"}`, w("app", event.Failure, event.Plain, "bob")},
		{`{"event":"user.login","success":false,"user":"bob","addr.remote":"192.0.2.7:34204"}`, w("app", event.Failure, event.Plain, "bob")},
		{`{"event":"user.login","success":true,"user":"bob","addr.remote":"192.0.2.7:34204"}`, w("app", event.Success, event.Plain, "bob")},
		{`{"action":"login_failed","client_ip":"192.0.2.7","error":"user not found"}`, w("app", event.Failure, event.UnknownUser, "")},
		{`{"msg":"[client \"192.0.2.7\"] Coraza: Access denied (phase 1). x"}`, w("coraza", event.Failure, event.Forbidden, "")},
		{`{"msg":"[client \"192.0.2.7\"] Coraza: Warning. x"}`, w("coraza", event.Other, event.Plain, "")},
		// lines of others in a shipper's record
		{`{"message":"192.0.2.7 - bob [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 401 5 \"-\" \"-\"","host":{"name":"www"}}`, w("http", event.Failure, event.Plain, "bob")},
		{`{"message":"www nginx[12]: 192.0.2.7 - bob [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 401 5 \"-\" \"-\""}`, w("http", event.Failure, event.Plain, "bob")},
		{`{"message":"2026/10/10 13:55:36 [error] 1#1: *7 user \"bob\": password mismatch, client: 192.0.2.7, server: s, request: \"GET / HTTP/1.1\""}`, w("nginx", event.Failure, event.Plain, "bob")},
		{`{"message":"a message of some program: 192.0.2.7 - bob [10/Oct/2026:13:55:36 +0000]"}`, webWant{}},
		{`{"msg":"started","ip":"192.0.2.7"}`, webWant{}},
		{`{"remote_addr":"198","status":200,"request":"GET / HTTP/1.1"}`, webWant{}},
		{`{"msg":"Login failed","user":"bob"}`, webWant{}},
		// two addresses: two readings
		{`{"remote_addr":"192.0.2.7","client_ip":"203.0.113.66","request":"GET /x HTTP/1.1","status":200}`, nobody},
		{`{"remote_addr":"192.0.2.7","remote_addr":"203.0.113.66","request":"GET /x HTTP/1.1","status":200}`, nobody},
		{`{"remote_addr":"192.0.2.7","client_ip":"::ffff:192.0.2.7","request":"GET /x HTTP/1.1","status":200}`, w("http", event.Other, event.Plain, "")},
		{`{"request":{"remote_ip":"192.0.2.7"},"remote_addr":"203.0.113.66","uri":"/","status":200}`, nobody},
		// keys that clients fill
		{`{"params":{"ip":"203.0.113.66"},"remote_ip":"192.0.2.7","status":200,"path":"/x"}`, w("http", event.Other, event.Plain, "")},
		{`{"args":[{"ip":"203.0.113.66"}],"remote_ip":"192.0.2.7","status":200,"path":"/x"}`, w("http", event.Other, event.Plain, "")},
		{`{"_":{"ip":"203.0.113.66"},"":{"ip":"203.0.113.66"},"remote_ip":"192.0.2.7","status":200,"path":"/x"}`, w("http", event.Other, event.Plain, "")},
		{`{"` + strings.Repeat("x", 40) + `":{"ip":"203.0.113.66"},"remote_ip":"192.0.2.7","status":200,"path":"/x"}`, w("http", event.Other, event.Plain, "")},
		{`{"params":{"request":{"client_ip":"203.0.113.66"},"client":{"ip":"203.0.113.66"}},"remote_ip":"192.0.2.7","status":200,"path":"/x"}`, w("http", event.Other, event.Plain, "")},
		// not a whole object
		{`{"remote_addr":"192.0.2.7","request":"GET /x HTTP/1.1","status":200`, webWant{}},
		{`{"remote_addr":"192.0.2.7","request":"GET /x HTTP/1.1","status":200} {"x":1}`, webWant{}},
		{`{"remote_addr":"192.0.2.7" "request":"GET /x HTTP/1.1","status":200}`, webWant{}},
		{`{"remote_addr":"192.0.2.7","agent":"x"y","status":200}`, webWant{}},
		{strings.Repeat(`{"a":`, 10000), webWant{}},
		{`{"a":` + strings.Repeat(`[`, 10000), webWant{}},
	})
}

func TestJSONEscapesAreDecoded(t *testing.T) {
	p := webParser(t, Options{})
	var ev event.Event
	line := `{"remote_addr":"192.0.2.7","remote_user":"b\u00f6b \ud83d\ude00","request":"GET \/a\"b HTTP/1.1","status":200,"agent":"x\x22\n"}`
	if !p.read((*Reader).JSON, []byte(line), &ev) {
		t.Fatal("not understood")
	}
	if string(ev.User) != "böb 😀" || string(ev.Path) != `/a"b` || string(ev.Agent) != "x\"\n" {
		t.Errorf("got %q %q %q", ev.User, ev.Path, ev.Agent)
	}
	p.Reset()
	if got := len(p.scratch); got != 0 {
		t.Errorf("%d bytes kept after Reset", got)
	}
}

func TestJSONTimes(t *testing.T) {
	const want = "2026-10-10T13:55:36Z"
	p := webParser(t, Options{})
	for _, v := range []string{`"2026-10-10T13:55:36Z"`, `"10/Oct/2026:13:55:36 +0000"`, `1791640536`, `1791640536.25`, `"1791640536.250"`, `1791640536000`, `1791640536000000`, `1791640536000000000`} {
		got := webTime(t, p, (*Reader).JSON, `{"time":`+v+`,"remote_addr":"192.0.2.7","status":200,"uri":"/"}`)
		if got.Truncate(time.Second).Format(time.RFC3339) != want {
			t.Errorf("%s: got %v", v, got)
		}
	}
}

func TestLogfmt(t *testing.T) {
	w := func(service string, o event.Outcome, user string) webWant {
		return webWant{addr: "192.0.2.7", service: service, outcome: o, user: user}
	}
	runWeb(t, Options{}, (*Reader).logfmtLog, []webCase{
		{`time="2026-10-10T13:55:36Z" level=error msg="Unsuccessful 1FA authentication attempt by user 'bob'" method=POST path=/api/firstfactor remote_ip=192.0.2.7`, w("app", event.Failure, "")},
		{`logger=context userId=0 uname=bob t=2026-10-10T13:55:36+00:00 level=info msg="Invalid username or password" remote_addr=192.0.2.7`, w("app", event.Failure, "bob")},
		{`level=info msg=done method=GET path=/x status=200 remote_addr=192.0.2.7:55`, w("http", event.Other, "")},
		{`time="2026-10-10T13:55:36Z" level=debug msg="Handling TCP connection from 192.0.2.7:34871 to 10.0.0.1:21116"`, webWant{addr: "192.0.2.7", service: "traefik", kind: event.Probe}},
		{`msg="login failed" user="x\" remote_addr=203.0.113.66" remote_addr=192.0.2.7`, w("app", event.Failure, `x" remote_addr=203.0.113.66`)},
		{`msg="login failed" user=x remote_addr=203.0.113.66 remote_addr=192.0.2.7`, webWant{service: "app", outcome: event.Failure, user: "x"}},
		{`msg="login failed" and words remote_addr=192.0.2.7`, webWant{}},
		{`msg="login failed remote_addr=192.0.2.7`, webWant{}},
		{`Failed password for root from 192.0.2.7`, webWant{}},
	})
}

// A header is believed where the proxy writes it, and said once.
func TestJSONHeaders(t *testing.T) {
	o := Options{Client: ClientOptions{Header: "X-Forwarded-For", Trusted: prefixes("10.0.0.0/8")}}
	who := func(addr string) webWant { return webWant{addr: addr, service: "http"} }
	const rest = `"remote_ip":"10.0.0.1","status":200,"path":"/x"}`
	runWeb(t, o, (*Reader).JSON, []webCase{
		{`{"x_forwarded_for":"203.0.113.66, 192.0.2.7",` + rest, who("192.0.2.7")},
		{`{"headers":{"X-Forwarded-For":["192.0.2.7"]},` + rest, who("192.0.2.7")},
		{`{"params":{"x-forwarded-for":"203.0.113.66"},` + rest, who("")},
		{`{"params":{"headers":{"x-forwarded-for":"203.0.113.66"}},` + rest, who("")},
		{`{"headers":{"X-Forwarded-For":["192.0.2.7"],"X_Forwarded_For":["203.0.113.66"]},` + rest, who("")},
		{`{"headers":{"X-Forwarded-For":["192.0.2.7","203.0.113.66"]},` + rest, who("")},
	})
}
