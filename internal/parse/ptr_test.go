package parse

import "testing"

// hostilePTR are lines with the peer's own name in them, which whoever runs
// its reverse zone chooses among the characters of names.
var hostilePTR = []hostileDaemon{
	{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[9]: warning: %s[198.51.100.9]: SASL LOGIN authentication failed: x", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[9]: NOQUEUE: reject: RCPT from %s[198.51.100.9]: 554 5.7.1 <x@y>: Relay access denied; from=<a@b>", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[9]: lost connection after AUTH from %s[198.51.100.9]", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[9]: warning: hostname %s does not resolve to address 198.51.100.9", "198.51.100.9", true},
	{"postgrey", "Nov 20 10:31:23 mx postgrey[9]: action=greylist, reason=early-retry (12s missing), client_name=%s, client_address=198.51.100.9, sender=a@b", "198.51.100.9", true},
	{"exim", "2026-11-20 10:27:38 login authenticator failed for %s (a.example) [198.51.100.9]: 535 Incorrect authentication data", "198.51.100.9", true},
	{"exim", "2026-11-20 10:27:38 H=%s [198.51.100.9] F=<a@b> rejected RCPT <x@y>: no", "198.51.100.9", true},
	{"sendmail", "Nov 20 10:31:48 mx sm-mta[9]: s1P819mk027713: ruleset=check_rcpt, arg1=<x@y>, relay=%s [198.51.100.9], reject=550 5.7.1 no", "198.51.100.9", true},
	{"sendmail", "Nov 20 10:31:48 mx sm-mta[9]: ruleset=check_relay, arg1=%s, arg2=198.51.100.9, relay=%s [198.51.100.9], reject=421 4.3.2 no", "198.51.100.9", true},
	{"cyrus", "Nov 20 10:31:48 mx cyrus/imap[9]: badlogin: %s [198.51.100.9] plaintext u SASL(-13): authentication failure: checkpass failed", "198.51.100.9", true},
	{"uwimap", "Nov 20 10:31:48 mx ipop3d[9]: Login failed user=u auth=u host=%s [198.51.100.9]", "198.51.100.9", true},
	{"opensmtpd", `Nov 20 10:31:48 mx smtpd[9]: 38dd06274cde1fd7 smtp event=failed-command address=198.51.100.9 host=%s command="x" result="535 no"`, "198.51.100.9", true},
	{"proftpd", "Nov 20 10:31:48 mx proftpd[9]: mx (%s[198.51.100.9]) - USER u: no such user found from %s [198.51.100.9] to 192.0.2.10:21", "198.51.100.9", true},
	{"ftpd", "Nov 20 10:31:48 mx wu-ftpd[9]: failed login from %s [198.51.100.9]", "198.51.100.9", true},
	{"ftpd", "Nov 20 10:31:48 mx ftpd[9]: repeated login failures from 198.51.100.9 (%s)", "198.51.100.9", true},
}

func TestHostilePTR(t *testing.T) {
	for i := range hostilePTR {
		for _, service := range []string{"", hostilePTR[i].service} {
			p := daemonParser(t, service)
			for _, name := range []string{
				"203.0.113.66", "203.0.113.66.evil.example", "a-203.0.113.66", "unknown", "localhost", "x_y.example", "rip.203.0.113.66",
				"203-0-113-66.example", "a.203.0.113.66.", "xn--e1afmkfd.example",
			} {
				checkHostile(t, p, &hostilePTR[i], name)
			}
		}
	}
}
