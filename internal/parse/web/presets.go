package web

import (
	"sync"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Formats that proxies and load balancers always write, in their own words:
// Nginx Proxy Manager (rootfs/etc/nginx/conf.d/include/log.conf, of which the
// second is also behind a first number), Zoraxy, AWS ELB and ALB (Access logs
// for your load balancer), IIS and CloudFront (W3C extended format).
var presetSpecs = [...]struct {
	name, spec string
	open       bool
	may        func(line []byte) bool // a first look at the line's shape
}{
	{"npm", `[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer"`, false, mayNPM},
	{"npm", `[$time_local] $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "$http_user_agent" "$http_referer"`, false, mayNPM},
	{"zoraxy", `$d $t [$time_local] [router:$router] [origin:$host] [client: $remote_addr] [useragent: $http_user_agent] $request_method $uri $status`, false, mayZoraxy},
	{"alb", `$type $time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $code $received $sent "$request" "$http_user_agent" `, true, mayALB},
	{"elb", `$time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $code $received $sent "$request" "$http_user_agent" `, true, mayELB},
	{"iis", "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken", false, mayIIS},
	{"cloudfront", "$time_local\t$edge\t$bytes\t$remote_addr\t$request_method\t$host\t$uri\t$status\t$http_referer\t$http_user_agent\t", true, mayCloudFront},
}

// presetFormats compiles them once. They are constants: one that does not
// compile is left out, which a test would see.
var presetFormats = sync.OnceValue(func() []*format {
	out := make([]*format, 0, len(presetSpecs))
	for _, s := range presetSpecs {
		if f, err := compilePattern(s.spec); err == nil {
			f.open, f.exact = s.open, true
			f.may = s.may
			out = append(out, f)
		}
	}
	return out
})

// presets tries those formats. All of them have brackets, tabs or an address
// behind a stamp near the line's start, so that a line which fits is one.
func (w *Reader) presets(env *event.Message, line []byte, ev *event.Event) bool {
	for _, f := range presetFormats() {
		if !f.may(line) {
			continue
		}
		if f.match(w, env, line, ev) {
			return true
		}
		*ev = event.Event{Fields: ev.Fields[:0]}
	}
	return false
}

func mayNPM(line []byte) bool {
	return len(line) > 28 && line[0] == '[' && line[3] == '/' && scan.Has(line, " [Client ")
}

// mayZoraxy looks for "[2026-11-20 09:23:10.123456] [router:" behind a date and a time.
func mayZoraxy(line []byte) bool {
	return len(line) > 60 && line[10] == ' ' && line[19] == ' ' && line[20] == '[' && scan.Has(line[:min(len(line), 96)], "] [router:")
}

// mayALB looks for "https 2026-11-20T…".
func mayALB(line []byte) bool {
	word, rest := scan.Word(line[:min(len(line), 24)])
	return len(word) < 6 && mayELB(rest)
}

func mayELB(line []byte) bool { return len(line) > 11 && line[4] == '-' && line[10] == 'T' }

// mayIIS looks for "2026-11-20 09:23:10 192.0.2.10 GET".
func mayIIS(line []byte) bool {
	if len(line) < 32 || line[10] != ' ' || line[19] != ' ' {
		return false
	}
	word, _ := scan.Word(line[20:min(len(line), 68)])
	_, ok := scan.Addr(word)
	return ok
}

func mayCloudFront(line []byte) bool { return len(line) > 11 && line[10] == '\t' }
