package parse

import "testing"

// TestSniffing reads lines whose first words look like a syslog header's, and
// lines that stand behind one, without a service named. Who may have written a
// line decides whether it is verified.
func TestSniffing(t *testing.T) {
	for _, c := range []struct {
		line, service, want string
		verified            bool
	}{
		{"Nov 20 09:23:10 HORDE [error] [imp] FAILED LOGIN for ann [192.0.2.7] to {mx.example.org:993 [imap/ssl]} [pid 68394 on line 139 of \"/usr/share/horde/imp/lib/Auth/imp.php\"]", "horde", "failure 192.0.2.7 user=ann", false},
		{"2026-11-20T09:23:10.667Z: Failed Login: username=ann ip=192.0.2.7", "gitlab", "failure 192.0.2.7 user=ann", false},
		{"[20-Nov-2026 09:23:10 +0000]: IMAP Error: Login failed for ann from 192.0.2.7. AUTHENTICATE PLAIN: Authentication failed. in /program/lib/rcube_imap.php on line 184 (POST /?_task=login&_action=login)", "roundcube", "failure 192.0.2.7 user=ann", false},
		{"2026-11-20 09:23:10,357 WARN  [org.keycloak.events] (executor-thread-1) type=LOGIN_ERROR, realmId=a, clientId=b, userId=null, ipAddress=192.0.2.7, error=user_not_found, auth_method=openid-connect, username=ann", "keycloak", "failure unknown_user 192.0.2.7 user=ann", false},
		{"Nov 20 09:23:10 h prog[5]: 2026-11-20T09:23:10.667Z: Failed Login: username=ann ip=192.0.2.7", "", "-", false},
		{"Nov 20 09:23:10 h prog: Failed Login: username=ann ip=192.0.2.7", "", "-", false},

		{`{"remote_addr":"192.0.2.7","request_method":"GET","uri":"/","status":403}`, "http", "other forbidden 192.0.2.7", true},
		{`Nov 20 09:23:10 h web: {"remote_addr":"192.0.2.7","request_method":"GET","uri":"/","status":403}`, "http", "other forbidden 192.0.2.7", false},
		{`Nov 20 09:23:10 h web[5]: {"remote_addr":"192.0.2.7","request_method":"GET","uri":"/","status":403}`, "", "-", false},
		{`192.0.2.7 - ann [20/Nov/2026:09:23:10 +0000] "GET / HTTP/1.1" 401 5`, "http", "failure 192.0.2.7 user=ann", true},
		{"2026-11-20 09:23:10 12 [Warning] Access denied for user 'root'@'192.0.2.7' (using password: YES)", "mysql", "failure 192.0.2.7 user=root", true},
		{"Nov 20 09:23:10 h mysqld: 2026-11-20 09:23:10 12 [Warning] Access denied for user 'root'@'192.0.2.7' (using password: YES)", "mysql", "failure 192.0.2.7 user=root", false},
	} {
		p := daemonParser(t, "")
		ev, ok := parseOne(t, p, c.line)
		if got := brief(&ev, ok); got != c.want || ok && ev.Service != c.service {
			t.Errorf("%s\n got %s %s\nwant %s %s", c.line, got, ev.Service, c.want, c.service)
		}
		if ev.Verified != c.verified {
			t.Errorf("%s\nverified %v, want %v", c.line, ev.Verified, c.verified)
		}
	}
}
