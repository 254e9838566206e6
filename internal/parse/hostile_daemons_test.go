package parse

import "testing"

// Every hole is a field that the peer chooses in the daemon named. 198.51.100.9
// is the peer; the text in the holes is never to change who is blamed.

// Some need not be read: where the text in a hole can look like the end
// of an earlier field, two readings mean none.

var hostileMail = []hostileDaemon{
	{"postfix", "Nov 20 10:31:23 mx postfix/smtpd[149]: warning: unknown[198.51.100.9]: SASL LOGIN authentication failed: %s, sasl_username=%s", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:48 mx postfix/smtpd[177]: NOQUEUE: reject: RCPT from unknown[198.51.100.9]: 504 5.5.2 <%s>: Helo command rejected: need fully-qualified hostname; from=<%s> to=<%s> proto=ESMTP helo=<%s>", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:53 mx postfix/smtpd[177]: warning: non-SMTP command from unknown[198.51.100.9]: %s", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:50 mx postfix/smtpd[149]: warning: Illegal address syntax from unknown[198.51.100.9] in MAIL command: <%s>", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:57 mx postfix/smtpd[149]: improper command pipelining after CONNECT from unknown[198.51.100.9]: %s", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:57 mx postfix/postscreen[149]: PREGREET 11 after 0.2 from [198.51.100.9]:41323: %s", "198.51.100.9", true},
	{"postfix", "Nov 20 10:31:57 mx postfix/smtpd[149]: F27F3988037: client=unknown[198.51.100.9], sasl_method=PLAIN, sasl_username=%s", "198.51.100.9", true},
	{"dovecot", "Nov 20 10:32:06 mx dovecot: imap-login: Disconnected: Aborted login by logging out (auth failed, 1 attempts in 2 secs): user=<%s>, method=PLAIN, rip=198.51.100.9, lip=192.0.2.10, session=<xxZWwbJgZZDGM2QH>", "198.51.100.9", true},
	{"dovecot", "Nov 20 10:32:06 mx dovecot: imap-login: Login aborted: Connection closed (auth failed, 1 attempts in 2 secs) (auth_failed): user=<%s>, method=%s, rip=198.51.100.9, lip=192.0.2.10, TLS", "198.51.100.9", true},
	{"dovecot", "Nov 20 10:31:58 mx dovecot: auth: passwd-file(%s,198.51.100.9,<CEH6wLJgH57GM2QH>): unknown user", "198.51.100.9", false},
	{"dovecot", "Nov 20 10:31:58 mx dovecot: auth-worker(12): sql(%s,198.51.100.9): Password mismatch (given password: %s)", "198.51.100.9", false},
	{"dovecot", "Nov 20 10:31:58 mx dovecot: auth: plain(%s,198.51.100.9,<CEH6wLJgH57GM2QH>): Attempted login with password having illegal chars", "198.51.100.9", false},
	{"dovecot", "Nov 20 10:31:58 mx dovecot: auth: sql(%s,198.51.100.9): a message that nobody here knows", "198.51.100.9", false},
	{"exim", "2026-11-20 10:27:40 [61] plain_server authenticator failed for (a.example) [198.51.100.9]:45321 I=[192.0.2.10]:25: 535 Incorrect authentication data (set_id=%s)", "198.51.100.9", false},
	{"exim", "2026-11-20 10:27:40 plain_server authenticator failed for (%s) [198.51.100.9]: 535 Incorrect authentication data (set_id=%s)", "198.51.100.9", false},
	{"exim", `2026-11-20 10:27:44 [80] SMTP protocol error in "%s" H=(a.example) [198.51.100.9]:41249 I=[192.0.2.10]:25 AUTH command used when not advertised`, "198.51.100.9", true},
	{"exim", `2026-11-20 10:27:44 [80] SMTP syntax error in "%s" H=(a.example) [198.51.100.9]:41249 I=[192.0.2.10]:25 unrecognized command`, "198.51.100.9", true},
	{"exim", `2026-11-20 10:27:51 [105] SMTP call from (a.example) [198.51.100.9]:34015 I=[192.0.2.10]:25 dropped: too many unrecognized commands (last was "%s")`, "198.51.100.9", false},
	{"exim", "2026-11-20 10:27:48 [96] H=(a.example) [198.51.100.9]:35513 I=[192.0.2.10]:25 F=<%s> rejected RCPT <%s>: relay not permitted", "198.51.100.9", false},
	{"exim", "2026-11-20 10:28:04 [157] 1xULqc-00002X-2O <= %s H=(a.example) [198.51.100.9]:41583 I=[192.0.2.10]:25 P=esmtpa A=plain_server:u S=228", "198.51.100.9", false},
	{"sendmail", "Nov 20 10:31:48 mx sm-mta[27713]: s1P819mk027713: ruleset=check_rcpt, arg1=<%s>, relay=a.example [198.51.100.9], reject=550 5.7.1 <%s>... Relaying denied", "198.51.100.9", false},
	{"sendmail", "Nov 20 10:31:48 mx sm-mta[27713]: s1P819mk027713: AUTH failure (LOGIN): authentication failure (-13) SASL(-13): authentication failure: checkpass failed, user=%s, relay=a.example [198.51.100.9]", "198.51.100.9", true},
	{"sendmail", "Nov 20 10:31:48 mx sm-mta[27713]: s1P819mk027713: a.example [198.51.100.9]: VRFY %s [rejected]", "198.51.100.9", true},
	{"courier", "Nov 20 10:31:48 mx imapd-ssl: LOGIN FAILED, user=%s, ip=[::ffff:198.51.100.9], port=[255]", "198.51.100.9", true},
	{"courier", `Nov 20 10:31:48 mx courieresmtpd: error,relay=::ffff:198.51.100.9,port=43632,msg="535 Authentication failed.",cmd: AUTH LOGIN %s`, "198.51.100.9", true},
	{"cyrus", "Nov 20 10:31:48 mx cyrus/imap[1]: badlogin: a.example [198.51.100.9] plaintext %s SASL(-13): authentication failure: checkpass failed", "198.51.100.9", true},
	{"uwimap", "Nov 20 10:31:48 mx ipop3d[1]: Login failed user=%s auth=%s host=a.example [198.51.100.9]", "198.51.100.9", true},
	{"uwimap", "Nov 20 10:31:48 mx imapd[1]: Failed %s override of user=%s host=a.example [198.51.100.9]", "198.51.100.9", true},
	{"opensmtpd", `Nov 20 10:31:48 mx smtpd[1]: 38dd06274cde1fd7 smtp event=failed-command address=198.51.100.9 host=a.example command="%s" result="503 5.5.1 Invalid command: Command not supported"`, "198.51.100.9", true},
	{"perdition", `Nov 20 10:31:48 mx perdition.imaps[1]: Auth: 198.51.100.9:2274->192.0.2.10:993 client-secure=ssl authorisation_id=NONE authentication_id="%s" server="imap.example:993" protocol=IMAP4S server-secure=ssl status="failed: Re-Authentication Failure"`, "198.51.100.9", true},
	{"vpopmail", "Nov 20 10:31:48 mx vpopmail[1]: vchkpw-pop3: password fail (pass: '%s') %s@example.org:198.51.100.9", "198.51.100.9", true},
	{"domino", "2026-11-20 10:31:48   smtp: %s [198.51.100.9] authentication failure using internet password", "198.51.100.9", true},
	{"domino", "2026-11-20 10:31:48   SMTP Server [0D14:0027-1334] Authentication failed for user %s ; connecting host [198.51.100.9]", "198.51.100.9", true},
	{"assp", "Nov-20-26 10:31:48 m1-25391-06124 [Worker_1] [TLS-out] [RelayAttempt] 198.51.100.9 <%s> to: %s relay attempt blocked for: %s", "198.51.100.9", true},
}

var hostileStores = []hostileDaemon{
	{"vsftpd", `Fri Nov 20 10:23:48 2026 [pid 55] [%s] FAIL LOGIN: Client "198.51.100.9"`, "198.51.100.9", false},
	{"vsftpd", `Fri Nov 20 10:23:57 2026 [pid 85] [ftp] OK LOGIN: Client "198.51.100.9", anon password "%s"`, "198.51.100.9", false},
	{"vsftpd", `Fri Nov 20 10:23:57 2026 [pid 85] [ftp] FAIL MKDIR: Client "198.51.100.9", "/%s"`, "198.51.100.9", false},
	{"proftpd", "2026-11-20 10:32:39,405 mx proftpd[47] 192.0.2.10 (198.51.100.9[198.51.100.9]): USER %s (Login failed): Incorrect password", "198.51.100.9", true},
	{"proftpd", "Nov 20 10:32:51 mx proftpd[89]: 192.0.2.10 (a.example[198.51.100.9]) - USER %s: no such user found from a.example [198.51.100.9] to 192.0.2.10:21", "198.51.100.9", true},
	{"pure-ftpd", "Nov 20 10:28:20 mx pure-ftpd: (?@198.51.100.9) [WARNING] Authentication failed for user [%s]", "198.51.100.9", true},
	{"ftpd", "Nov 20 10:28:20 mx ftpd[1]: FTP LOGIN FAILED FROM 198.51.100.9, %s", "198.51.100.9", true},
	{"mysql", "2026-11-20 10:32:32 7 [Warning] Access denied for user '%s'@'198.51.100.9' (using password: YES)", "198.51.100.9", true},
	{"mysql", "2026-11-20T10:32:32.000001Z 7 [Note] [MY-010926] [Server] Access denied for user '%s'@'198.51.100.9' (using password: NO)", "198.51.100.9", true},
	{"mysql", "2026-11-20 10:32:32 7 [Warning] Aborted connection 7 to db: '%s' user: '%s' host: '198.51.100.9' (Got an error reading communication packets)", "198.51.100.9", true},
	{"mysql", "2026-11-20 10:32:32 7 [Warning] Access denied for user 'u'@'198.51.100.9' to database '%s'", "198.51.100.9", false},
	{"postgres", `198.51.100.9 2026-11-20 10:25:03.620 UTC [284] %s@%s FATAL:  password authentication failed for user "%s"`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03.620 UTC [284] %s@%s FATAL:  no pg_hba.conf entry for host "198.51.100.9", user "%s", database "%s", no encryption`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03 UTC:198.51.100.9(40312):%s@%s:[284]:FATAL:  password authentication failed for user "%s"`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03.620 UTC [284] 198.51.100.9 %s@%s FATAL:  password authentication failed for user "%s"`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03 UTC [284]: user=%s,db=%s,app=%s,client=198.51.100.9 FATAL:  password authentication failed for user "%s"`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03.620 UTC [284] %s@%s FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute`, "198.51.100.9", false},
	{"postgres", `2026-11-20 10:25:03.620 CET [284] %s@%s DETAIL:  Role "%s" does not exist.`, "198.51.100.9", false},
	{"mssql", "2026-11-20 16:31:12.20 Logon       Login failed for user '%s'. Reason: Could not find a login matching the name provided. [CLIENT: 198.51.100.9]", "198.51.100.9", true},
	{"mongodb", "2026-11-20T00:24:00.110+0100 I ACCESS   [conn334] SCRAM-SHA-1 authentication failed for %s on admin from client 198.51.100.9:51234 ; UserNotFound: Could not find user %s@admin", "198.51.100.9", false},
	{"slapd", `Nov 20 10:28:20 mx slapd[1]: conn=1000 fd=12 ACCEPT from IP=198.51.100.9:43125 (IP=192.0.2.10:389)`, "198.51.100.9", true},
	{"slapd", `Nov 20 10:28:20 mx slapd[1]: conn=1000 op=0 BIND dn="%s" method=128`, "198.51.100.9", false},
	{"named", "20-Nov-2026 10:24:20.087 security: info: client @0x7fd265966c98 198.51.100.9#41153 (%s): query (cache) '%s/ANY/IN' denied (allow-query-cache did not match)", "198.51.100.9", false},
	{"named", "Nov 20 10:24:20 mx named[1]: client 198.51.100.9#41153: zone transfer '%s/AXFR/IN' denied", "198.51.100.9", true},
}

var hostileNet = []hostileDaemon{
	{"asterisk", "[2026-11-20 17:18:22] NOTICE[1638][C-00000fa9] chan_sip.c: Registration from '%s' failed for '198.51.100.9:5060' - Wrong password", "198.51.100.9", false},
	{"asterisk", "[2026-11-20 17:18:22] NOTICE[1638]: chan_sip.c:28926 handle_request_register: Call from '%s' (198.51.100.9:5060) to extension '%s' rejected because extension not found in context 'default'.", "198.51.100.9", false},
	{"asterisk", "[2026-11-20 17:18:22] NOTICE[1638] res_pjsip/pjsip_distributor.c: Request 'INVITE' from '%s' failed for '198.51.100.9:5060' (callid: %s) - No matching endpoint found", "198.51.100.9", false},
	{"asterisk", `[2026-11-20 17:18:22] SECURITY[1638] res_security_log.c: SecurityEvent="InvalidAccountID",EventTV="2026-11-20T17:18:22.275+0300",Severity="Error",Service="PJSIP",EventVersion="1",AccountID="%s",SessionID="",LocalAddress="IPV4/UDP/192.0.2.10/5060",RemoteAddress="IPV4/UDP/198.51.100.9/5061"`, "198.51.100.9", true},
	{"asterisk", `[2026-11-20 17:18:22] SECURITY[1638] res_security_log.c: SecurityEvent="ChallengeResponseFailed",EventTV="2026-11-20T17:18:22.275+0300",Severity="Error",Service="PJSIP",EventVersion="1",AccountID="%s",SessionID="",LocalAddress="IPV4/UDP/192.0.2.10/5060",RemoteAddress="IPV4/UDP/198.51.100.9/5061",Challenge="1",Response="%s",ExpectedResponse=""`, "198.51.100.9", false},
	{"freeswitch", "2026-11-20 17:39:54.767815 96.03% [WARNING] sofia_reg.c:1478 SIP auth failure (INVITE) on sofia profile 'internal' for [%s] from ip 198.51.100.9", "198.51.100.9", true},
	{"freeswitch", "2026-11-20 17:39:54.767815 [WARNING] sofia_reg.c:2531 Can't find user [%s] from 198.51.100.9", "198.51.100.9", true},
	{"ejabberd", "2026-11-20 08:24:04.773 [info] <0.6668.0>@ejabberd_c2s:handle_auth_failure:433 (http_bind|ejabberd_bosh) Failed c2s PLAIN authentication for %s from ::FFFF:198.51.100.9: Invalid username or password", "198.51.100.9", true},
	{"openvpn", "Nov 20 11:19:00 mx ovpn-server[13818]: 198.51.100.9:55329 VERIFY ERROR: depth=2, error=unable to get issuer certificate: %s", "198.51.100.9", false},
	{"dante", `Nov 20 15:35:03 mx danted[17969]: info: block(1): tcp/accept ]: 198.51.100.9.50550 0.0.0.0.1080: error after reading 35 bytes in 0 seconds: system password authentication failed for user "%s"`, "198.51.100.9", true},
	{"pfsense", "Nov 20 08:06:45 gw php-fpm[45982]: /index.php: webConfigurator authentication error for user '%s' from: 198.51.100.9", "198.51.100.9", true},
	{"charon", "Nov 20 08:06:45 gw charon: 06[IKE] <con1|62> XAuth authentication of '%s' failed", "198.51.100.9", false},
}

func TestHostileMail(t *testing.T)   { runHostile(t, hostileMail) }
func TestHostileStores(t *testing.T) { runHostile(t, hostileStores) }
func TestHostileNet(t *testing.T)    { runHostile(t, hostileNet) }

func FuzzHostileMail(f *testing.F)   { fuzzHostile(f, hostileMail) }
func FuzzHostileStores(f *testing.F) { fuzzHostile(f, hostileStores) }
func FuzzHostileNet(f *testing.F)    { fuzzHostile(f, hostileNet) }

// FuzzDaemonLine reads any line as each service's: nothing panics, and what is
// blamed can be handed to a firewall.
func FuzzDaemonLine(f *testing.F) {
	var parsers []*Parser
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			f.Add(list[i].with("u"))
			if i == 0 || list[i].service != list[i-1].service {
				parsers = append(parsers, daemonParser(f, list[i].service))
			}
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, p := range parsers {
			ev, ok := parseOne(t, p, line)
			if ok && (ev.Service == "" || ev.Count < 1) {
				t.Errorf("%q: service %q, count %d", line, ev.Service, ev.Count)
			}
			if ev.Addr.Is4In6() || ev.Addr.Zone() != "" {
				t.Errorf("%q: address %v", line, ev.Addr)
			}
		}
	})
}
