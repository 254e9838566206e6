package parse

import "testing"

// TestServersTellForOthers reads what applications and firewalls say through
// the error logs of nginx and Apache. The client is the server's own word.
func TestServersTellForOthers(t *testing.T) {
	const nginx, tail = "2026/11/20 09:23:10 [error] 12#12: *3 ", ` while reading response header from upstream, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1", host: "h"`
	const apache = "[Fri Nov 20 09:23:10.123456 2026] [proxy_fcgi:error] [pid 9:tid 8] [client 192.0.2.7:5] AH01071: Got error '"
	const module = "[Fri Nov 20 09:23:10.123456 2026] [php:notice] [pid 9] [client 192.0.2.7:5] "
	for _, c := range []struct{ line, want string }{
		{nginx + `FastCGI sent in stderr: "PHP message: user ann authentication failure for Baikal"` + tail, "failure 192.0.2.7 user=ann"},
		{nginx + `FastCGI sent in stderr: "PHP message: Failed login for ann"` + tail, "failure 192.0.2.7"},
		{nginx + `FastCGI sent in stderr: "PHP message: PHP Notice:  Undefined index: x in /x.php on line 5"` + tail, "other 192.0.2.7"},
		{nginx + `FastCGI sent in stderr: "PHP message: PHP Notice:  user x authentication failure for Baikal"` + tail, "other 192.0.2.7"},
		{nginx + `NAXSI_FMT: ip=203.0.113.66&server=s&uri=/&learning=0&vers=0.56&total_processed=1&total_blocked=1&block=1&cscore0=$SQL&score0=8&zone0=ARGS&id0=1000&var_name0=q, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1", host: "h"`, "failure forbidden 192.0.2.7"},
		{nginx + `NAXSI_FMT: ip=192.0.2.7&server=s&uri=/&learning=1&vers=0.56&total_processed=1&total_blocked=1&block=1&cscore0=$SQL&score0=8, client: 192.0.2.7, server: s, request: "GET / HTTP/1.1", host: "h"`, "other 192.0.2.7"},
		{apache + `PHP message: user ann authentication failure for Baikal', referer: https://h/`, "failure 192.0.2.7 user=ann"},
		{apache + `PHP message: Failed login for ann'`, "failure 192.0.2.7"},
		{apache + `PHP message: PHP Warning:  Failed login for ann'`, "other 192.0.2.7"},
		{module + "user ann authentication failure for Baikal", "failure 192.0.2.7 user=ann"},
		{module + `WAR [Login denied for user "ann"], referer: https://h/`, "failure 192.0.2.7 user=ann"},
		{module + "ERR [Could not retrieve user ann details]", "failure unknown_user 192.0.2.7 user=ann"},
		{module + "user x] [client 203.0.113.66:1] AH01617 authentication failure for Baikal", "failure 192.0.2.7 user=x] [client 203.0.113.66:1] AH01617"},
		{module + "Failed to open stream", "other 192.0.2.7"},
	} {
		ev, ok := readLine(t, Options{}, c.line)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}
