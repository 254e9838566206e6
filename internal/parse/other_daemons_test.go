package parse

import "testing"

func TestFTPLines(t *testing.T) {
	const at = "Nov 20 10:31:48 mx "
	runDaemonCases(t, []daemonCase{
		{`Fri Nov 20 10:23:48 2026 [pid 55] [u] FAIL LOGIN: Client "::ffff:192.0.2.1", "User is not in the allow user list."`, "vsftpd failure 192.0.2.1 u"},
		{at + "vsftpd[9]: authentication failure; logname= uid=0 euid=0 tty=ftp ruser=u rhost=192.0.2.1 user=u", "vsftpd failure 192.0.2.1 u"},
		{at + "proftpd[9]: mx (::ffff:192.0.2.1[::ffff:192.0.2.1]) - USER u (Login failed): Limit configuration denies login.", "proftpd failure 192.0.2.1 forbidden u"},
		{at + "proftpd[9]: mx (a.example[192.0.2.1]) - ANON u: Login successful.", "proftpd success 192.0.2.1 u"},
		{at + "proftpd[9]: mx (a.example[192.0.2.1]) - PAM(u): Authentication failure.", "proftpd failure 192.0.2.1 u"},
		{at + "proftpd[9]: mx (a.example[192.0.2.1]) - FTP login timed out, disconnected", "proftpd other 192.0.2.1 probe"},
		{at + "proftpd[9]: mx (a.example[192.0.2.1]) - Connection from a.example [192.0.2.1] denied.", "proftpd failure 192.0.2.1 forbidden"},
		{at + "pure-ftpd: (?@192.0.2.1) [WARNING] Authentifizierung fehlgeschlagen für Benutzer [u]", "pure-ftpd failure 192.0.2.1 u"},
		{at + "pure-ftpd: (?@a.example) [WARNING] Authentication failed for user [u]", "-"},
		{at + "ftpd[9]: FTP LOGIN FAILED FROM 192.0.2.1, u", "ftpd failure 192.0.2.1 u"},
		{at + "ftpd[9]: FTP LOGIN FAILED FROM a.example, u", "-"},
		{at + "ftpd[9]: repeated login failures from 192.0.2.1 (a.example)", "ftpd failure 192.0.2.1 limited"},
		{at + "wu-ftpd[9]: failed login from a.example [192.0.2.1]", "ftpd failure 192.0.2.1"},
	})
}

func TestStoreLines(t *testing.T) {
	const at = "Nov 20 10:31:48 mx "
	runDaemonCases(t, []daemonCase{
		{"201120  4:05:06 [Warning] Access denied for user 'u'@'192.0.2.1' (using password: NO)", "mysql failure 192.0.2.1 u"},
		{"2026-11-20T10:31:48.116872Z        14 Connect   Access denied for user 'u'@'2001:db8::1' (using password: YES)", "mysql failure 2001:db8::1 u"},
		{"2026-11-20T10:31:48.116872Z        14 Query     select 'Access denied for user 'u'@'192.0.2.9' (using password: YES)", "-"},
		{"2026-11-20 10:31:48 14 [Warning] Access denied for user 'u'@'localhost' (using password: YES)", "-"},
		{at + "mariadbd[7]: 2026-11-20 10:31:48 9 [Warning] Access denied for user ''@'192.0.2.1' (using password: NO)", "mysql failure 192.0.2.1"},
		{"2026-11-20 10:31:48 14 [Warning] Host '192.0.2.1' is not allowed to connect to this MySQL server", "mysql failure 192.0.2.1 forbidden"},
		{"2026-11-20 10:31:48 14 [Warning] IP address '192.0.2.1' could not be resolved: Name or service not known", "mysql other 192.0.2.1"},
		{`192.0.2.1 2026-11-20 10:31:48.428 UTC [53962] u@d FATAL:  password authentication failed for user "u"`, "postgres failure 192.0.2.1 u"},
		{`2026-11-20 10:31:48 UTC:192.0.2.1(40312):u@d:[53962]:FATAL:  password authentication failed for user "u"`, "postgres failure 192.0.2.1 u"},
		{`2026-11-20 10:31:48 UTC:2001:db8::1(40312):u@d:[53962]:FATAL:  password authentication failed for user "u"`, "postgres failure 2001:db8::1 u"},
		{`2026-11-20 10:31:48.428 UTC [53962] u@d 192.0.2.1(40312) FATAL:  password authentication failed for user "u"`, "postgres failure - u"},
		{`2026-11-20 10:31:48.428 UTC [53962] 192.0.2.9@d FATAL:  password authentication failed for user "192.0.2.9"`, "postgres failure - 192.0.2.9"},
		{`2026-11-20 10:31:48.428 UTC [53962] u@d FATAL:  pg_hba.conf rejects connection for host "2001:db8::1", user "u", database "d", no encryption`, "postgres failure 2001:db8::1 forbidden u"},
		{`2026-11-20 10:31:48.428 UTC [53962] u@d FATAL:  role "u" does not exist`, "postgres failure - unknown_user u"},
		{`2026-11-20 10:31:48.428 UTC [53962] u@d FATAL:  database "d" does not exist`, "-"},
		{"2026-11-20 16:31:12.20 Logon       Login failed for user 'sa'. Reason: Password did not match that for the login provided. [CLIENT: 192.0.2.1]", "mssql failure 192.0.2.1 sa"},
		{"2026-11-20 16:31:12.20 Logon       Login succeeded for user 'sa'. Connection made using SQL Server authentication. [CLIENT: 192.0.2.1]", "mssql success 192.0.2.1 sa"},
		{"2026-11-20 16:31:12.20 Logon       SSPI handshake failed with error code 0x8009030c while establishing a connection with integrated security; the connection has been closed. [CLIENT: 192.0.2.1]", "mssql failure 192.0.2.1"},
		{"2026-11-20 16:31:12.20 spid5s      Login failed for user 'sa'. [CLIENT: 192.0.2.1]", "-"},
		{`{"t":{"$date":"2026-11-20T10:31:48.903+02:00"},"s":"I",  "c":"ACCESS",   "id":20249,   "ctx":"conn1","msg":"Authentication failed","attr":{"mechanism":"SCRAM-SHA-256","principalName":"u","authenticationDatabase":"admin","remote":"[2001:db8::1]:4071","extraInfo":{},"error":"UserNotFound: Could not find user"}}`, "mongodb failure 2001:db8::1 unknown_user u"},
		{"2026-11-20T10:31:48.111+0100 I ACCESS   [conn7] SCRAM-SHA-1 authentication failed for u on admin from client 192.0.2.1:4711 ; AuthenticationFailed: SCRAM-SHA-1 authentication failed, storedKey mismatch", "mongodb failure 192.0.2.1 u"},
		{"2026-11-20T10:31:48.111+0100 I NETWORK  [listener] connection accepted from 192.0.2.1:4711 #7 (1 connection now open)", "mongodb other 192.0.2.1"},
		{at + "named[9]: client 192.0.2.1#33081 (a.example): view external: query 'a.example/A/IN' denied", "named failure 192.0.2.1 forbidden"},
		{at + "named[9]: client @0x7f 2001:db8::1#4 (.): query (cache) './ANY/IN' denied (allow-query-cache did not match)", "named failure 2001:db8::1 forbidden"},
		{at + "named[9]: client @0x7f 192.0.2.1#4/key k (a.example): transfer of 'a.example/IN': AXFR started", "named other 192.0.2.1"},
		{at + "named[9]: client @0x7f 192.0.2.1#4 (a.example): query failed (REFUSED) for a.example/IN/A at query.c:5551", "named failure 192.0.2.1 forbidden"},
		{at + "named[9]: client @0x7f 192.0.2.1 (a.example): query denied", "-"},
	})
}

func TestNetLines(t *testing.T) {
	const at = "Nov 20 10:31:48 mx "
	runDaemonCases(t, []daemonCase{
		{"[Nov 20 10:31:48] NOTICE[9] chan_sip.c: Registration from '\"1000\" <sip:1000@192.0.2.2>' failed for '192.0.2.1:5060' - No matching peer found", "asterisk failure 192.0.2.1 unknown_user"},
		{"[2026-11-20 10:31:48] NOTICE[9] res_pjsip/pjsip_distributor.c: Request 'REGISTER' from '<sip:1@192.0.2.2>' failed for '[2001:db8::1]:5060' (callid: x) - Failed to authenticate", "asterisk failure 2001:db8::1"},
		{"[2026-11-20 10:31:48] NOTICE[9] chan_iax2.c: No registration for peer 'u' (from 192.0.2.1)", "asterisk failure 192.0.2.1"},
		{"[2026-11-20 10:31:48] NOTICE[9] chan_iax2.c: Host 192.0.2.1 failed MD5 authentication for 'u' (a != b)", "asterisk failure 192.0.2.1"},
		{"[2026-11-20 10:31:48] NOTICE[9] manager.c: 192.0.2.1 failed to authenticate as 'admin'", "asterisk failure 192.0.2.1"},
		{at + `asterisk[9]: SECURITY[9]: res_security_log.c:114 security_event_stasis_cb: SecurityEvent="SuccessfulAuth",EventTV="x",Severity="Informational",Service="PJSIP",EventVersion="1",AccountID="u",SessionID="s",LocalAddress="IPV4/UDP/192.0.2.2/5060",RemoteAddress="IPV4/UDP/192.0.2.1/5060"`, "asterisk success 192.0.2.1 u"},
		{"[2026-11-20 10:31:48] NOTICE[9] chan_sip.c: Failed to authenticate device <sip:1@192.0.2.9>;tag=x", "-"},
		{"2026-11-20 10:31:48.504993 96.80% [WARNING] sofia_reg.c:3223 IP 192.0.2.1 Rejected by register acl", "freeswitch failure 192.0.2.1 forbidden"},
		{"11-20 10:31:48.504993 [WARN] [SOFIA] [sofia_reg.c:4130] Can't find user [u@d] from 192.0.2.1", "freeswitch failure 192.0.2.1 unknown_user u@d"},
		{"2026-11-20 10:31:48 [284] [WARNING] sofia_reg.c:1 Can't find user [u@d] from 192.0.2.1", "-"},
		{"2026-11-20 10:31:48.504993 [WARNING] sofia_reg.c:1533 SIP auth challenge (REGISTER) on sofia profile 'p' for [u@d] from ip 192.0.2.1", "freeswitch other 192.0.2.1 u@d"},
		{"2026-11-20 10:31:48.512 [info] <0.1.0>@ejabberd_c2s:wait:1 ({socket_state,p1_tls}) Failed authentication for u@example.org from IP 192.0.2.1 ({{192,0,2,1},12716})", "ejabberd failure 192.0.2.1 u@example.org"},
		{"2026-11-20 10:31:48.512 [info] <0.1.0>@ejabberd_c2s:handle_auth_success:1 (tls|<0.1.0>) Accepted c2s PLAIN authentication for u@example.org by mnesia backend from 192.0.2.1", "ejabberd success 192.0.2.1"},
		{at + "openvpn[9]: 192.0.2.1:4711 TLS Auth Error: Auth Username/Password verification failed for peer", "openvpn failure 192.0.2.1"},
		{"2026-11-20 10:31:48 u/192.0.2.1:4711 AUTH: Received control message: AUTH_FAILED", "openvpn failure 192.0.2.1"},
		{"2026-11-20 10:31:48 192.0.2.1:4711 [u] Peer Connection Initiated with [AF_INET]192.0.2.1:4711", "openvpn success 192.0.2.1 u"},
		{"2026-11-20 10:31:48 192.0.2.1:4711 TLS Error: tls-crypt unwrapping failed from [AF_INET]192.0.2.9:4711", "-"},
		{at + "ovpn-server[9]: TLS Error: cannot locate HMAC in incoming packet from [AF_INET6]2001:db8::1:4711", "openvpn failure 2001:db8::1"},
		{at + `danted[9]: info: block(1): tcp/accept ]: 192.0.2.1.50550 192.0.2.2.1080: error after reading 18 bytes in 0 seconds: system password authentication failed for user "u"`, "dante failure 192.0.2.1 u"},
		{at + "stunnel[9]: LOG5[0]: Service [imaps] accepted connection from 192.0.2.1:4711", "stunnel other 192.0.2.1"},
		{at + "kernel: [82508.102168] wireguard: wg1: Invalid handshake initiation from 192.0.2.1:51820", "wireguard failure 192.0.2.1"},
		{at + "kernel: [UFW BLOCK] IN=eth0 OUT= MAC=00 SRC=192.0.2.1 DST=192.0.2.2 LEN=44 PROTO=TCP SPT=1 DPT=22", "netfilter other 192.0.2.1"},
		{at + "fail2ban.actions[9]: NOTICE [sshd] Ban 192.0.2.1", "fail2ban failure 192.0.2.1 limited"},
		{at + "fail2ban.actions[9]: NOTICE [sshd] Unban 192.0.2.1", "-"},
		{at + "fail2ban.actions[9]: NOTICE [recidive] Ban 192.0.2.1", "-"},
		{at + `sshguard[9]: Attack from "192.0.2.1" on service SSH with danger 10.`, "sshguard failure 192.0.2.1 limited"},
		{at + "php-fpm[9]: /index.php: Successful login for user 'u' from: 192.0.2.1 (Local Database)", "pfsense success 192.0.2.1 u"},
	})
}
