package parse

import "testing"

func benchWeb(b *testing.B, o Options, read scanner, line string) {
	p := webParser(b, o)
	text := []byte(line)
	var ev Event
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		ev = Event{Fields: ev.Fields[:0]}
		if !read(p, text, &ev) {
			b.Fatal("not understood")
		}
		p.Reset()
	}
}

const benchCombined = `192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET /wp-login.php?a=b HTTP/1.1" 200 2326 "https://www.example.org/start" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`

func BenchmarkCombined(b *testing.B) { benchWeb(b, Options{}, bareAny, benchCombined) }

func BenchmarkLogFormat(b *testing.B) {
	o := Options{Format: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`}
	benchWeb(b, o, bareWeb, benchCombined)
}

func BenchmarkNginxError(b *testing.B) {
	benchWeb(b, Options{}, bareAny, nginxHeadText+`user "alice": password mismatch, client: 192.0.2.7`+nginxTailText)
}

func BenchmarkApacheError(b *testing.B) {
	benchWeb(b, Options{}, bareAny, `[Sat Oct 10 13:55:36.123456 2026] [auth_basic:error] [pid 1:tid 2] [client 192.0.2.7:51548] AH01617: user alice: authentication failure for "/x": Password Mismatch`)
}

func BenchmarkHAProxy(b *testing.B) {
	benchWeb(b, Options{}, haproxyAny, `192.0.2.7:58444 [14/Nov/2015:22:45:25.439] main app/s1 19/0/1/0/40 200 51 - - ---- 3/3/0/0/0 0/0 "GET /x HTTP/1.1"`)
}

func BenchmarkJSON(b *testing.B) {
	benchWeb(b, Options{}, bareAny, `{"level":"info","ts":1791640536.1,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.7","client_ip":"192.0.2.7","method":"GET","host":"h","uri":"/x","headers":{"User-Agent":["Mozilla/5.0"],"Accept":["*/*"]}},"user_id":"","duration":0.001,"size":12,"status":200}`)
}
