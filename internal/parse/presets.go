package parse

import "sync"

// Formats that proxies and load balancers always write, in their own words:
// Nginx Proxy Manager (rootfs/etc/nginx/conf.d/include/log.conf, of which the
// second is also behind a first number), Zoraxy, AWS ELB and ALB (Access logs
// for your load balancer), IIS and CloudFront (W3C extended format).
var presetSpecs = [...]struct {
	name, spec string
	open       bool
}{
	{"npm", `[$time_local] $upstream_cache_status $upstream_status $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] [Sent-to $server] "$http_user_agent" "$http_referer"`, false},
	{"npm", `[$time_local] $status - $request_method $scheme $host "$request_uri" [Client $remote_addr] [Length $body_bytes_sent] [Gzip $gzip_ratio] "$http_user_agent" "$http_referer"`, false},
	{"zoraxy", `$d $t [$time_local] [router:$router] [origin:$host] [client: $remote_addr] [useragent: $http_user_agent] $request_method $uri $status`, false},
	{"alb", `$type $time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $code $received $sent "$request" "$http_user_agent" `, true},
	{"elb", `$time_iso8601 $elb $remote_addr $target $t1 $t2 $t3 $status $code $received $sent "$request" "$http_user_agent" `, true},
	{"iis", "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken", false},
	{"cloudfront", "$time_local\t$edge\t$bytes\t$remote_addr\t$request_method\t$host\t$uri\t$status\t$http_referer\t$http_user_agent\t", true},
}

// presetFormats compiles them once. They are constants: one that does not
// compile is left out, which a test would see.
var presetFormats = sync.OnceValue(func() []*format {
	out := make([]*format, 0, len(presetSpecs))
	for _, s := range presetSpecs {
		if f, err := compilePattern(s.spec); err == nil {
			f.open, f.exact = s.open, true
			out = append(out, f)
		}
	}
	return out
})

// presets tries those formats. All of them have brackets, tabs or an address
// behind a stamp near the line's start, so that a line which fits is one.
func presets(p *Parser, line []byte, ev *Event) bool {
	for _, f := range presetFormats() {
		if f.match(p, line, ev) {
			return true
		}
		*ev = Event{Fields: ev.Fields[:0]}
	}
	return false
}
