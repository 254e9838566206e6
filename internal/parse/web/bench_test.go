package web

import (
	"testing"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

func benchWeb(b *testing.B, o Options, read reader, line string) {
	p := webParser(b, o)
	text := []byte(line)
	var ev event.Event
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		ev = event.Event{Fields: ev.Fields[:0]}
		if !p.read(read, text, &ev) {
			b.Fatal("not understood")
		}
		p.Reset()
	}
}

func BenchmarkCombined(b *testing.B) { benchWeb(b, Options{}, (*Reader).Any, parsetest.Combined) }

func BenchmarkLogFormat(b *testing.B) {
	o := Options{Format: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`}
	benchWeb(b, o, bareWeb, parsetest.Combined)
}

func BenchmarkNginxError(b *testing.B) {
	benchWeb(b, Options{}, (*Reader).Any, parsetest.NginxHead+`user "alice": password mismatch, client: 192.0.2.7`+parsetest.NginxTail)
}

func BenchmarkApacheError(b *testing.B) {
	benchWeb(b, Options{}, (*Reader).Any, `[Sat Oct 10 13:55:36.123456 2026] [auth_basic:error] [pid 1:tid 2] [client 192.0.2.7:51548] AH01617: user alice: authentication failure for "/x": Password Mismatch`)
}

func BenchmarkHAProxy(b *testing.B) {
	benchWeb(b, Options{}, (*Reader).haproxyAny, `192.0.2.7:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET /x HTTP/1.1"`)
}

func BenchmarkJSON(b *testing.B) {
	benchWeb(b, Options{}, (*Reader).Any, `{"level":"info","ts":1791640536.1,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","client_ip":"192.0.2.7","method":"GET","host":"h","uri":"/x","headers":{"User-Agent":["Mozilla/5.0"],"Accept":["*/*"]}},"user_id":"","duration":0.001,"size":12,"status":200}`)
}
