package parse

import "testing"

// Lines written after the programs' sources, for what the captured logs lack.

func TestPostfixLines(t *testing.T) {
	const smtpd, screen = "Nov 20 10:31:23 mx postfix/smtpd[149]: ", "Nov 20 10:31:23 mx postfix/postscreen[149]: "
	runDaemonCases(t, []daemonCase{
		{smtpd + "warning: a.example[192.0.2.1]: SASL LOGIN authentication failed: UGFzc3dvcmQ6", "postfix failure 192.0.2.1"},
		{"Nov 20 10:31:23 mx postfix/submission/smtpd[149]: warning: unknown[2001:db8::1]:4711: SASL PLAIN authentication failed:", "postfix failure 2001:db8::1"},
		{smtpd + "warning: unknown[192.0.2.1]: SASL LOGIN authentication failed: Connection lost to authentication server", "postfix other 192.0.2.1"},
		{smtpd + "warning: unknown[192.0.2.1]: SASL LOGIN authentication aborted", "postfix other 192.0.2.1"},
		{smtpd + "warning: unknown[unknown]: SASL LOGIN authentication failed: x", "-"},
		{smtpd + "warning: AUTH command rate limit exceeded: 12 from a.example[192.0.2.1] for service smtpd", "postfix failure 192.0.2.1 limited"},
		{smtpd + "warning: hostname a.example does not resolve to address 192.0.2.1: Name or service not known", "postfix other 192.0.2.1"},
		{smtpd + "warning: a.example[192.0.2.1] sent message header instead of SMTP command: From: x@y", "postfix failure 192.0.2.1 forbidden"},
		{smtpd + "lost connection after DATA (0 bytes) from a.example[192.0.2.1]", "postfix other 192.0.2.1 probe"},
		{smtpd + "lost connection after AUTH from a.example[192.0.2.1]", "postfix failure 192.0.2.1"},
		{smtpd + "timeout after END-OF-MESSAGE from a.example[192.0.2.1]", "postfix other 192.0.2.1 probe"},
		{smtpd + "SSL_accept error from a.example[192.0.2.1]: lost connection", "postfix other 192.0.2.1 probe"},
		{smtpd + "disconnect from a.example[192.0.2.1] ehlo=1 auth=0/3 quit=1 commands=2/5", "postfix failure 192.0.2.1"},
		{smtpd + "disconnect from a.example[192.0.2.1] ehlo=1 auth=1 mail=1 quit=1 commands=4", "postfix other 192.0.2.1"},
		{smtpd + "NOQUEUE: reject: CONNECT from a.example[192.0.2.1]: 554 5.7.1 <a.example[192.0.2.1]>: Client host rejected: Access denied; proto=SMTP", "postfix failure 192.0.2.1 forbidden"},
		{smtpd + "NOQUEUE: reject: RCPT from a.example[192.0.2.1]: 450 4.2.0 <x@y>: Recipient address rejected: Greylisted; from=<a@b> to=<x@y>", "postfix other 192.0.2.1"},
		{smtpd + "NOQUEUE: reject: RCPT from a.example[192.0.2.1]: 452 4.3.1 Insufficient system storage; from=<a@b> to=<x@y>", "postfix other 192.0.2.1"},
		{smtpd + "NOQUEUE: reject_warning: RCPT from a.example[192.0.2.1]: 554 5.7.1 x; from=<a@b> to=<x@y>", "postfix other 192.0.2.1"},
		{smtpd + "4QfV7x3Gz5z9rxG: milter-reject: END-OF-MESSAGE from a.example[192.0.2.1]: 5.7.1 Spam; from=<a@b> to=<x@y>", "postfix failure 192.0.2.1 forbidden"},
		{"Nov 20 10:31:23 mx postfix/cleanup[9]: 4QfV7x3Gz5z9rxG: milter-reject: END-OF-MESSAGE from a.example[192.0.2.1]: 5.7.1 Spam; from=<a@b> to=<x@y>", "postfix failure 192.0.2.1 forbidden"},
		{"Nov 20 10:31:23 mx postfix/cleanup[9]: 4QfV7x3Gz5z9rxG: reject: header Subject: x from a[192.0.2.8]: y from a.example[192.0.2.1]; from=<a@b>", "-"},
		{smtpd + "4QfV7x3Gz5z9rxG: client=a.example[192.0.2.1]", "postfix other 192.0.2.1"},
		{screen + "DNSBL rank 7 for [192.0.2.1]:4711", "postfix failure 192.0.2.1 forbidden"},
		{screen + "NOQUEUE: reject: CONNECT from [192.0.2.1]:4711: too many connections", "postfix failure 192.0.2.1 forbidden"},
		{screen + "NOQUEUE: reject: CONNECT from [192.0.2.1]:4711: all server ports busy", "postfix other 192.0.2.1"},
		{screen + "NOQUEUE: reject: CONNECT from [2001:db8::1]:4711: all screening ports busy", "postfix other 2001:db8::1"},
		{screen + "BLACKLISTED [192.0.2.1]:4711", "postfix failure 192.0.2.1 forbidden"},
		{screen + "PASS NEW [192.0.2.1]:4711", "postfix other 192.0.2.1"},
		{screen + "HANGUP after 0.5 from [2001:db8::1]:4711 in tests before SMTP handshake", "postfix other 2001:db8::1 probe"},
		{screen + "COMMAND PIPELINING from [192.0.2.1]:4711 after HELO: QUIT\\r\\n", "postfix failure 192.0.2.1 forbidden"},
		{screen + "NOQUEUE: reject: RCPT from [192.0.2.1]:4711: 450 4.3.2 Service currently unavailable; from=<a@b>, to=<x@y>", "postfix other 192.0.2.1"},
		{"Nov 20 10:31:23 mx postfix/anvil[9]: statistics: max connection rate 9/60s for (smtpd:192.0.2.1) at Nov 20 10:30:01", "postfix other 192.0.2.1"},
		{"Nov 20 10:31:23 mx postgrey[9]: action=greylist, reason=new, client_name=a.example, client_address=192.0.2.1, sender=a@b, recipient=x@y", "postgrey other 192.0.2.1"},
		{"Nov 20 10:31:23 mx postgrey[9]: action=greylist, reason=early-retry (12s missing), client_name=a.example, client_address=192.0.2.1, sender=a@b, recipient=x@y", "postgrey failure 192.0.2.1 forbidden"},
		{"Nov 20 10:31:23 mx postfix/qmgr[9]: 4QfV7x3Gz5z9rxG: from=<a@b>, size=1, nrcpt=1 (queue active)", "-"},
	})
}

func TestDovecotLines(t *testing.T) {
	const d = "Nov 20 10:31:23 mx dovecot: "
	runDaemonCases(t, []daemonCase{
		{d + "pop3-login: Aborted login (auth failed, 3 attempts): user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2", "dovecot failure 192.0.2.1 u"},
		{d + "imap-login: Disconnected (tried to use disallowed plaintext auth): user=<>, rip=192.0.2.1, lip=192.0.2.2, session=<a>", "dovecot failure 192.0.2.1 forbidden"},
		{d + "imap-login: Login aborted: Connection closed (no auth attempts in 0 secs) (no_auth_attempts): user=<>, rip=2001:db8::1, lip=::1", "dovecot other 2001:db8::1 probe"},
		{d + "imap-login: Disconnected: Auth process broken (auth service reported temporary failure): user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2", "dovecot other 192.0.2.1 u"},
		{d + "imap-login: proxy(u): started proxying to 192.0.2.5:143: user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2", "dovecot success 192.0.2.1 u"},
		{d + "imap-login: Disconnected (auth failed, 1 attempts in 2 secs): rip=192.0.2.1, lip=192.0.2.2, user=<x, rip=192.0.2.9, y>", "-"},
		{d + "auth: ldap(u,192.0.2.1,<abc>): invalid credentials (given password: x)", "dovecot failure 192.0.2.1 u"},
		{d + "auth: pam(u@example.org,::ffff:192.0.2.1): pam_authenticate() failed: User not known to the underlying authentication module: 2 Time(s)", "dovecot failure 192.0.2.1 unknown_user u@example.org"},
		{d + "auth: policy(u,192.0.2.1,<abc>): Authentication failure due to policy server refusal", "dovecot failure 192.0.2.1 forbidden u"},
		{d + "auth-worker(12): conn unix:auth-worker (pid=1,uid=97): auth-worker<55>: sql(u,192.0.2.1): unknown user", "dovecot failure 192.0.2.1 unknown_user u"},
		{"Nov 20 10:31:23 auth(u,192.0.2.1,sasl:plain)<abc>: Info: passwd-file: Password mismatch", "dovecot failure 192.0.2.1 u"},
		{"2026-11-20 10:31:23 imap-login: Info: Disconnected: Inactivity (auth failed, 1 attempts in 178 secs): user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2", "dovecot failure 192.0.2.1 u"},
		{d + "auth: plain(?,2001:db8::1,<abc>): Empty username", "dovecot failure 2001:db8::1 ?"},
		{d + "auth: plain(u,192.0.2.1): Attempted login with password having illegal chars", "dovecot failure 192.0.2.1 u"},
		{d + "auth: checkpassword(u,192.0.2.1): Login failed (status=1)", "dovecot failure 192.0.2.1 u"},
		{d + "auth: sql(sql(x,192.0.2.9): unknown user,192.0.2.1): a message that nobody here knows", "-"},
		{d + "imap-login: Aborted login [3 authentication attempts]: user=<u>, method=PLAIN, rip=192.0.2.1, lip=192.0.2.2", "dovecot failure 192.0.2.1 u"},
		{d + "auth: sql(u,192.0.2.1): Allowing login", "-"},
		{d + "imap(u)<1><abc>: Logged out in=1 out=2", "-"},
	})
}

func TestEximLines(t *testing.T) {
	const e = "2026-11-20 10:27:38 "
	runDaemonCases(t, []daemonCase{
		{e + "dovecot_login authenticator failed for a.example ([192.0.2.7]) [192.0.2.1]:55379: 535 Incorrect authentication data (set_id=u@example.org)", "exim failure 192.0.2.1 u@example.org"},
		{e + "login authenticator failed for a.example [192.0.2.1]: 435 Unable to authenticate at present (set_id=u): server down", "exim other 192.0.2.1"},
		{"Nov 20 10:27:38 mx exim[12]: 2026-11-20 10:27:38 H=(a) [2001:db8::1] rejected MAIL <x@y>: no", "exim failure 2001:db8::1 forbidden"},
		{e + `H=a.example [192.0.2.1]:18146 temporarily rejected connection in "connect" ACL: "Host is ratelimited (1.9/1h max:1.2)"`, "exim failure 192.0.2.1 limited"},
		{e + "H=a.example [192.0.2.1] F=<a@b> temporarily rejected RCPT <x@y>: greylisted", "exim other 192.0.2.1"},
		{e + "SMTP connection from (a.example) [192.0.2.1]:44884 I=[192.0.2.2]:25 closed by DROP in ACL", "exim failure 192.0.2.1 forbidden"},
		{e + "SMTP connection from (a.example) [192.0.2.1]:44884 closed by QUIT", "exim other 192.0.2.1"},
		{e + "TLS error on connection from a.example [192.0.2.1] (gnutls_handshake): timed out", "exim other 192.0.2.1 probe"},
		{e + "refused connection from a.example [192.0.2.1] (host_reject)", "exim failure 192.0.2.1 forbidden"},
		{e + "no IP address found for host a.example (during SMTP connection from [192.0.2.1])", "exim other 192.0.2.1"},
		{e + "1VxPit-000MMd-U4 SA: Action: permanently rejected message: score=9.9 required=5.0. From <a@b> (host=a.example [192.0.2.1]) for x@y", "exim failure 192.0.2.1 forbidden"},
		{e + "1VxPit-000MMd-U4 SA: Action: permanently rejected message: score=9.9. From <[192.0.2.8]> (host=a.example [192.0.2.1]) for x@y", "-"},
		{e + `SMTP protocol synchronization error (input sent without waiting for greeting): rejected connection from H=[192.0.2.1]:25936 I=[192.0.2.2]:25 input="[192.0.2.2]"`, "-"},
		{e + "1xULqc-00002X-2O <= a@example.net H=a.example [192.0.2.1] P=esmtp S=228", "exim other 192.0.2.1"},
		{e + "1xULqc-00002X-2O => b@example.org R=dnslookup T=remote_smtp H=mx.example [192.0.2.1]", "-"},
	})
}

func TestSendmailLines(t *testing.T) {
	const s = "Nov 20 10:31:48 mx sm-mta[27713]: "
	runDaemonCases(t, []daemonCase{
		{s + "s1P819mk027713: ruleset=check_rcpt, arg1=<x@y>, relay=a.example [192.0.2.1] (may be forged), reject=550 5.7.1 <x@y>... Relaying denied", "sendmail failure 192.0.2.1 forbidden"},
		{s + "ruleset=check_relay, arg1=a.example, arg2=192.0.2.1, relay=a.example [192.0.2.1], reject=421 4.3.2 Connection rate limit exceeded.", "sendmail failure 192.0.2.1 limited"},
		{s + "s1P819mk027713: AUTH failure (DIGEST-MD5): user not found (-20) SASL(-13): user not found: u, relay=[192.0.2.1]", "sendmail failure 192.0.2.1"},
		{s + "AUTH=server, relay=a.example [192.0.2.1], authid=u, mech=PLAIN, bits=0", "sendmail success 192.0.2.1 u"},
		{s + "s1P819mk027713: a.example [192.0.2.1]: possible SMTP attack: command=AUTH, count=5", "sendmail failure 192.0.2.1 forbidden"},
		{s + "s1P819mk027713: a.example [IPv6:2001:db8::1] did not issue MAIL/EXPN/VRFY/ETRN during connection to MTA", "sendmail other 2001:db8::1 probe"},
		{s + "s1P819mk027713: rejecting commands from a.example [192.0.2.1] due to pre-greeting traffic after 0 seconds", "sendmail failure 192.0.2.1 forbidden"},
		{s + "lost input channel from a.example [192.0.2.1] to MTA after rcpt", "sendmail other 192.0.2.1 probe"},
		{s + "s1P819mk027713: <nobody@example.org>... User unknown", "sendmail failure - forbidden"},
		{s + "s1P819mk027713: from=<a@b>, size=0, class=0, nrcpts=0, proto=ESMTP, daemon=MTA, relay=a.example [192.0.2.1]", "sendmail other 192.0.2.1"},
		{s + "s1P819mk027713: to=<x@y>, delay=00:00:01, mailer=local, stat=Sent", "-"},
	})
}

func TestMailboxLines(t *testing.T) {
	const at = "Nov 20 10:31:48 mx "
	runDaemonCases(t, []daemonCase{
		{at + "imapd: LOGIN FAILED, user=u@example.org, ip=[::ffff:192.0.2.1]", "courier failure 192.0.2.1 u@example.org"},
		{at + "pop3d-ssl: LOGIN FAILED, method=PLAIN, ip=[2001:db8::1]", "courier failure 2001:db8::1"},
		{at + "imapd: LOGIN, user=u, ip=[::ffff:192.0.2.1], port=[4711], protocol=IMAP", "courier success 192.0.2.1 u"},
		{at + `courieresmtpd: error,relay=::ffff:192.0.2.1,port=43632,msg="535 Authentication failed.",cmd: AUTH LOGIN`, "courier failure 192.0.2.1"},
		{at + "courieresmtpd: error,relay=::ffff:192.0.2.1,from=<a@b>,to=<x@y>: 513 Relaying denied.", "courier failure 192.0.2.1 forbidden"},
		{at + "courieresmtpd: error,relay=::ffff:192.0.2.1,from=<a@b>,to=<x@y>: 450 Service temporarily unavailable.", "courier other 192.0.2.1"},
		{at + "cyrus/imaps[1]: badlogin: a.example [192.0.2.1] plaintext u SASL(-13): authentication failure: checkpass failed", "cyrus failure 192.0.2.1 u"},
		{at + "timsieved[1]: badlogin: a.example[192.0.2.1] PLAIN authentication failure", "cyrus failure 192.0.2.1"},
		{at + "cyrus/imap[1]: login: a.example [192.0.2.1] u plaintext User logged in SESSIONID=<x>", "cyrus success 192.0.2.1 u"},
		{at + "cyrus/imaps[1]: imaps TLS negotiation failed: a.example [192.0.2.1]", "cyrus other 192.0.2.1 probe"},
		{at + "ipop3d[1]: Login failed user=u auth=u host=a.example [192.0.2.1]", "uw-imap failure 192.0.2.1 u"},
		{at + "imapd[1]: Login excessive login failures user=u auth=u host=[192.0.2.1]", "uw-imap failure 192.0.2.1 u"},
		{at + "ipop3d[1]: Login disabled user=u auth=u host=a.example [192.0.2.1]", "uw-imap failure 192.0.2.1 u"},
		{at + "imapd[1]: Failed u override of user=v host=a.example [2001:db8::1]", "uw-imap failure 2001:db8::1 u"},
		{at + "imapd[1]: Admin u override of user=v host=a.example [192.0.2.1]", "-"},
		{at + "imapd[1]: Login user=u host=a.example [192.0.2.1]", "uw-imap success 192.0.2.1 u"},
		{at + "imapd[1]: AUTHENTICATE LOGIN failure host=a.example [192.0.2.1]", "uw-imap failure 192.0.2.1"},
		{at + "smtpd[1]: 88166f7f21c951f4 smtp connected address=192.0.2.1 host=<unknown>", "opensmtpd other 192.0.2.1"},
		{at + `smtpd[1]: 88166f7f21c951f4 smtp failed-command command="AUTH LOGIN (password)" result="535 Authentication failed"`, "opensmtpd failure -"},
		{at + `smtpd[1]: 88166f7f21c951f4 smtp failed-command command="RCPT TO:<x@y>" result="451 Try again later"`, "-"},
		{at + "smtpd[1]: 88166f7f21c951f4 smtp authentication user=u result=permfail", "opensmtpd failure - u"},
		{at + `perdition.imaps[1]: Auth: 192.0.2.1:2274->192.0.2.2:993 client-secure=ssl authentication_id="u" server="i:993" status="ok"`, "perdition success 192.0.2.1 u"},
		{at + "perdition[1]: Fatal Error reading authentication information from client 192.0.2.1:2274->192.0.2.2:993: Exiting child", "perdition failure 192.0.2.1"},
		{at + "qmail: 1157520813.485077 rblsmtpd: 192.0.2.1 pid 19597 zen.example: 451 http://x/?ip=192.0.2.8", "qmail failure 192.0.2.1 forbidden"},
		{at + "vpopmail[1]: vchkpw-smtp: vpopmail user not found u@example.org:192.0.2.1", "vpopmail failure 192.0.2.1 unknown_user u@example.org"},
		{at + "vpopmail[1]: vchkpw-pop3: (PLAIN) login success u@example.org:192.0.2.1", "vpopmail success 192.0.2.1 u@example.org"},
		{at + "solid-pop3d[1]: APOP authentication failed for user u - a.example [192.0.2.1]", "solid-pop3d failure 192.0.2.1 u"},
		{at + "cucipop[1]: authentication failure u 192.0.2.1", "cucipop failure 192.0.2.1 u"},
		{at + "solid-pop3d[1]: authentication failed: no such user: u - 192.0.2.1", "solid-pop3d failure 192.0.2.1 u"},
		{"2026-11-20 10:31:48   SMTP Server [000527:000013-0000001227564800] Connection from [192.0.2.1] rejected for policy reasons. IP address of connecting host not found in reverse DNS lookup.", "domino failure 192.0.2.1 forbidden"},
		{"Nov-20-26 10:31:48 [SSL-out] 192.0.2.1 max sender authentication errors (5) exceeded -- dropping connection - after reply: 535", "assp failure 192.0.2.1 limited"},
	})
}
