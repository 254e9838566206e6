package parse

import (
	"net/netip"
	"testing"
)

// The peer in these tests.
const formsPeer = "192.0.2.1"

func wantForm(t *testing.T, line string, o Outcome, k Kind) {
	t.Helper()
	ev, ok := parseOne(t, daemonParser(t, ""), line)
	if !ok {
		t.Errorf("%s\n is not read", line)
		return
	}
	if ev.Outcome != o || ev.Kind != k || ev.Addr != netip.MustParseAddr(formsPeer) {
		t.Errorf("%s\n got %s, want %s %s %s", line, sayEvent(&ev, ok), o, k, formsPeer)
	}
}

// TestEveryForm exercises each entry of the tables of messages, so that none
// is shadowed by another or cannot be reached by a real line.
func TestEveryForm(t *testing.T) {
	t.Run("smtpd", func(t *testing.T) {
		for _, s := range smtpdSessions {
			line := "Nov 20 10:31:23 mx postfix/smtpd[9]: " + s.text
			if s.where {
				line += "RCPT from "
			}
			wantForm(t, line+"a.example["+formsPeer+"]", s.outcome, s.kind)
		}
	})
	t.Run("postscreen", func(t *testing.T) {
		for _, s := range postscreens {
			line := "Nov 20 10:31:23 mx postfix/postscreen[9]: " + s.text
			if s.numbers {
				line += "3 after 1.5 from "
			}
			wantForm(t, line+"["+formsPeer+"]:4711", s.outcome, s.kind)
		}
	})
	t.Run("exim", func(t *testing.T) {
		for _, f := range eximForms {
			wantForm(t, "Nov 20 10:31:23 mx exim[9]: "+f.text+"(a) ["+formsPeer+"]:4711 why", f.outcome, f.kind)
		}
	})
	t.Run("proftpd", func(t *testing.T) {
		for _, f := range proftpdForms {
			wantForm(t, "Nov 20 10:31:23 mx proftpd[9]: mx (a.example["+formsPeer+"]) - "+f.text+" x", f.outcome, f.kind)
		}
	})
	t.Run("ftpd", func(t *testing.T) {
		for _, f := range ftpdForms {
			wantForm(t, "Nov 20 10:31:23 mx ftpd[9]: "+f.text+formsPeer+", u", f.outcome, f.kind)
		}
	})
	t.Run("dovecot", func(t *testing.T) {
		for _, v := range dovecotVerdicts {
			wantForm(t, "Nov 20 10:31:23 mx dovecot: auth: sql(u,"+formsPeer+",<s>): "+v.text+" x", Failure, v.kind)
		}
	})
	t.Run("openvpn", func(t *testing.T) {
		for _, f := range openvpnForms {
			line := "Nov 20 10:31:23 mx openvpn[9]: " + formsPeer + ":4711 " + f.text + " x"
			if !f.reset {
				wantForm(t, line, f.outcome, f.kind)
			} else if ev, ok := parseOne(t, daemonParser(t, ""), line); !ok || ev.Addr.IsValid() || ev.Conn == 0 {
				t.Errorf("%s\n got %s, want a connection without an address", line, sayEvent(&ev, ok))
			}
		}
	})
	t.Run("asterisk", func(t *testing.T) {
		for _, e := range asteriskEvents {
			wantForm(t, `[2026-11-20 17:18:22] SECURITY[9] res_security_log.c: SecurityEvent="`+e.name+
				`",EventTV="x",Severity="Error",Service="PJSIP",EventVersion="1",AccountID="u",SessionID="",`+
				`LocalAddress="IPV4/UDP/192.0.2.2/5060",RemoteAddress="IPV4/UDP/`+formsPeer+`/5061"`, e.outcome, e.kind)
		}
	})
}

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
