#!/bin/bash
# Captures what real daemons log when logins fail, for internal/parse/testdata.
#
#   sudo hack/capture/daemons.sh OUTDIR [postfix dovecot vsftpd …]
#
# Debian 12, root. Each group of packages is installed into an overlay over /
# and run there in a network namespace of its own, whose loopback carries the
# documentation addresses: nothing on the machine is changed, nothing is bound
# outside. Clients speak from 198.51.100.7 and 2001:db8::7 to 192.0.2.10.
set -eu
out=$(realpath -m "${1:?where to}"); shift
want=${*:-mail ftp sql dns exim proftpd ldap postgres}
base=${CAPTURE_BASE:-/var/tmp/stoplog-capture}
here=$(realpath "$0")
mkdir -p "$out"

packages() {
	case $1 in
	mail | ftp | sql | dns | postgres) echo A postfix dovecot-imapd dovecot-pop3d vsftpd mariadb-server bind9 bind9-dnsutils ncat rsyslog postgresql ;;
	exim | ldap) echo B exim4-daemon-light pure-ftpd ncat slapd ldap-utils rsyslog openvpn ;;
	proftpd) echo C proftpd-core rsyslog ncat openvpn ;;
	esac
}

install_group() {
	local d=$base/$1; shift
	[ -e "$d/done" ] && return
	mkdir -p "$d"/{up,work,root}
	unshare -m bash -ec "
		mount --make-rprivate /
		mount -t overlay overlay -o lowerdir=/,upperdir=$d/up,workdir=$d/work $d/root
		mount --bind /proc $d/root/proc; mount --bind /dev $d/root/dev
		mount -t tmpfs tmpfs $d/root/run; mkdir -p $d/root/run/lock
		printf '#!/bin/sh\nexit 101\n' >$d/root/usr/sbin/policy-rc.d; chmod +x $d/root/usr/sbin/policy-rc.d
		chroot $d/root sh -c 'apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*'"
	touch "$d/done"
}

run_in() { # run_in GROUP FUNCTION
	local d=$base/$1
	mkdir -p "$d/root"
	unshare -mnpf --mount-proc bash -ec "
		mount --make-rprivate /
		mount -t overlay overlay -o lowerdir=/,upperdir=$d/up,workdir=$d/work $d/root
		mount -t proc proc $d/root/proc
		mount -t tmpfs tmpfs $d/root/dev; mkdir $d/root/dev/shm
		for n in 'null 3' 'zero 5' 'full 7' 'random 8' 'urandom 9'; do
			set -- \$n; mknod -m 666 $d/root/dev/\$1 c 1 \$2
		done
		ln -s /proc/self/fd $d/root/dev/fd
		mount -t tmpfs tmpfs $d/root/run; mkdir -p $d/root/run/lock $d/root/capture $d/root/out
		mount --bind $out $d/root/out
		cp $here $d/root/capture/daemons.sh
		ip link set lo up
		for a in 192.0.2.10/32 198.51.100.7/32; do ip addr add \$a dev lo; done
		for a in 2001:db8::10/128 2001:db8::7/128; do ip addr add \$a dev lo nodad; done
		hostname mx 2>/dev/null || true
		CAPTURE_INSIDE=1 chroot $d/root bash ${CAPTURE_TRACE:-} /capture/daemons.sh /out $2"
}

# say FROM TO PORT LINE… sends lines half a second apart.
say() {
	local from=$1 to=$2 port=$3; shift 3
	{ for l in "$@"; do sleep 0.4; printf '%s\r\n' "$l"; done; sleep 0.8; } | timeout 12 ncat -s "$from" "$to" "$port" >/dev/null 2>&1 || true
}

b64() { printf "$1" | base64 -w0; }

syslog() { # to /out/NAME
	printf 'module(load="imuxsock")\n$ActionFileDefaultTemplate RSYSLOG_TraditionalFileFormat\n*.* /out/%s\n' "$1" >/tmp/rsyslog.conf
	rm -f "/out/$1"; rsyslogd -f /tmp/rsyslog.conf -i /run/rs.pid
	sleep 0.5
}

capture_mail() {
	syslog mail.log
	id imapuser >/dev/null 2>&1 || useradd -m imapuser; echo imapuser:right | chpasswd
	cat >/etc/dovecot/dovecot.conf <<-C
		protocols = imap pop3
		listen = 192.0.2.10, 2001:db8::10
		ssl = no
		disable_plaintext_auth = no
		auth_mechanisms = plain login cram-md5
		auth_verbose = yes
		mail_location = mbox:~/mail:INBOX=/var/mail/%u
		passdb {
		  driver = passwd-file
		  args = scheme=PLAIN username_format=%u /etc/dovecot/users
		}
		userdb {
		  driver = passwd
		}
		service auth {
		  unix_listener /var/spool/postfix/private/auth {
		    mode = 0666
		  }
		}
	C
	echo 'imapuser:{PLAIN}right' >/etc/dovecot/users
	postconf -e inet_interfaces='192.0.2.10, [2001:db8::10]' inet_protocols=all myhostname=mx.example.org mydestination=example.org \
		smtpd_sasl_auth_enable=yes smtpd_sasl_type=dovecot smtpd_sasl_path=private/auth smtpd_tls_security_level=none \
		smtpd_helo_required=yes smtpd_helo_restrictions=reject_invalid_helo_hostname,reject_non_fqdn_helo_hostname \
		smtpd_recipient_restrictions=permit_sasl_authenticated,reject_unauth_destination,reject_unlisted_recipient \
		smtpd_hard_error_limit=3 maillog_file=/var/log/postfix.log mynetworks=127.0.0.0/8 local_recipient_maps=unix:passwd.byname
	postconf -F 'smtp/inet/chroot=n'
	rm -f /var/log/postfix.log
	dovecot; postfix start; sleep 2
	local c=198.51.100.7 s=192.0.2.10
	say $c $s 25 'EHLO a.example' 'AUTH LOGIN' "$(b64 admin)" "$(b64 wrong)" QUIT
	say $c $s 25 'EHLO a.example' "AUTH PLAIN $(b64 '\0imapuser\0wrong')" 'AUTH CRAM-MD5' '*' QUIT
	say 2001:db8::7 2001:db8::10 25 'EHLO a.example' "AUTH PLAIN $(b64 '\0root\0wrong')"
	say $c $s 25 'EHLO a.example' "AUTH PLAIN $(b64 '\0imapuser\0right')" 'MAIL FROM:<imapuser@example.org>' 'RCPT TO:<imapuser@example.org>' QUIT
	say $c $s 25 'EHLO localname' 'MAIL FROM:<a@example.net>' 'RCPT TO:<imapuser@example.org>' QUIT
	say $c $s 25 'EHLO a.example' 'MAIL FROM:<x[192.0.2.99]@example.net>' 'RCPT TO:<a@elsewhere.example>' 'RCPT TO:<nobody.here@example.org>' 'VRFY root' QUIT
	say $c $s 25 'GET / HTTP/1.1' 'Host: x' ''
	say $c $s 25 'FOO' 'BAR' 'BAZ' 'QUX'
	say $c $s 25
	printf 'EHLO a\r\nRSET\r\nMAIL FROM:<>\r\nRCPT TO:<x@y.example>\r\nDATA\r\nx\r\n' | timeout 3 ncat -s $c $s 25 >/dev/null || true
	say $c $s 143 'a LOGIN admin wrong' 'b LOGIN imapuser wrong' 'c LOGOUT'
	say $c $s 143 'a LOGIN imapuser right' 'c LOGOUT'
	say $c $s 143 'a LOGIN "x>, method=PLAIN, rip=192.0.2.99, lip=192.0.2.98, session=<y" wrong' 'c LOGOUT'
	say $c $s 143 'a LOGIN "x,192.0.2.99): unknown user" wrong' 'c LOGOUT'
	say 2001:db8::7 2001:db8::10 110 'USER root' 'PASS wrong' QUIT
	say $c $s 110 'USER nobody' 'PASS wrong'
	say $c $s 110
	say $c $s 143 'a AUTHENTICATE NTLM' 'c LOGOUT'
	sleep 3; postfix stop || true; doveadm stop || true
	cp /var/log/postfix.log /out/postfix.log
}

capture_ftp() {
	id ftpuser >/dev/null 2>&1 || useradd -m ftpuser; echo ftpuser:right | chpasswd
	mkdir -p /run/vsftpd/empty /srv/ftp
	for log in own syslog; do
		syslog vsftpd-syslog.log
		rm -f /out/vsftpd.log
		cat >/etc/vsftpd.conf <<-C
			listen=YES
			listen_address=192.0.2.10
			local_enable=YES
			anonymous_enable=YES
			background=YES
			pam_service_name=vsftpd
			secure_chroot_dir=/run/vsftpd/empty
			xferlog_enable=YES
			vsftpd_log_file=/out/vsftpd.log
			xferlog_std_format=NO
			syslog_enable=$([ $log = syslog ] && echo YES || echo NO)
		C
		vsftpd /etc/vsftpd.conf; sleep 1
		local c=198.51.100.7 s=192.0.2.10
		say $c $s 21 'USER ftpuser' 'PASS wrong' 'USER nobody.here' 'PASS wrong' QUIT
		say $c $s 21 'USER lala] FAIL LOGIN: Client "192.0.2.99" ' 'PASS wrong' QUIT
		say $c $s 21 'USER ftpuser' 'PASS right' QUIT
		say $c $s 21 'USER anonymous' 'PASS x] FAIL LOGIN: Client "192.0.2.99' QUIT
		[ $log = own ] && cp /out/vsftpd.log /tmp/own.log
		kill "$(pidof vsftpd)" "$(cat /run/rs.pid)"; sleep 1
	done
	mv /tmp/own.log /out/vsftpd.log
}

capture_sql() {
	mkdir -p /run/mysqld; chown mysql /run/mysqld
	rm -f /out/mariadb.log; touch /out/mariadb.log; chown mysql /out/mariadb.log
	mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql --socket=/run/mysqld/s --bind-address=192.0.2.10 --skip-name-resolve \
		--log-warnings=4 --log-error=/out/mariadb.log --port=3306 >/dev/null 2>&1 &
	for _ in $(seq 30); do [ -S /run/mysqld/s ] && break; sleep 0.5; done
	mariadb --socket=/run/mysqld/s -e "create or replace user app@'%' identified by 'right'; drop user if exists ''@'localhost'"
	for u in root app "o'b" "x'@'192.0.2.99' (using password: YES)"; do
		mariadb -h 192.0.2.10 -u "$u" -pwrong -e 'select 1' 2>/dev/null || true
	done
	mariadb -h 192.0.2.10 -u app -e 'select 1' 2>/dev/null || true
	say 198.51.100.7 192.0.2.10 3306 hello
	mariadb -h 192.0.2.10 -u app -pright -e 'kill connection_id()' 2>/dev/null || true
	mariadb-admin --socket=/run/mysqld/s shutdown
}

capture_dns() {
	mkdir -p /run/named; chown bind /run/named
	printf 'zone "example.org" { type primary; file "/etc/bind/db.empty"; allow-transfer { none; }; };\n' >/etc/bind/named.conf.local
	cat >/etc/bind/named.conf.options <<-C
		options {
			directory "/var/cache/bind";
			listen-on { 192.0.2.10; };
			listen-on-v6 { 2001:db8::10; };
			allow-recursion { none; };
			allow-query-cache { none; };
			pid-file "/run/named/named.pid";
			rate-limit { responses-per-second 2; };
		};
		logging {
			channel f { file "/out/named.log"; print-time yes; print-category yes; print-severity yes; severity info; };
			category default { f; }; category security { f; }; category update-security { f; }; category rate-limit { f; };
			category query-errors { f; }; category xfer-out { f; };
		};
		controls { };
	C
	rm -f /out/named.log; chmod 777 /out
	named -u bind -c /etc/bind/named.conf; sleep 2
	local c=198.51.100.7 s=192.0.2.10
	dig -b $c @$s example.com ANY +tries=1 +time=1 >/dev/null || true
	dig -b $c @$s example.org AXFR +tries=1 +time=1 >/dev/null || true
	dig -b $c @$s elsewhere.example AXFR +tries=1 +time=1 >/dev/null || true
	dig -b 2001:db8::7 @2001:db8::10 example.com A +tries=1 +time=1 >/dev/null || true
	dig -b $c @$s 'x#1\ (y):\ query\ denied.192.0.2.99' A +tries=1 +time=1 >/dev/null || true
	printf 'server %s\nlocal %s\nzone example.org\nupdate add a.example.org 60 A 192.0.2.1\nsend\n' $s $c | nsupdate -t 2 >/dev/null 2>&1 || true
	dig -b $c -y hmac-sha256:bad:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0 @$s example.org SOA +tries=1 +time=1 >/dev/null || true
	for _ in $(seq 12); do dig -b $c @$s example.org SOA +tries=1 +time=1 >/dev/null || true; done
	kill "$(cat /run/named/named.pid)"; sleep 1
}

capture_exim() {
	cat >/tmp/exim.conf <<-'C'
		primary_hostname = mx.example.org
		local_interfaces = <; 192.0.2.10 ; 2001:db8::10
		log_file_path = /out/exim-%slog
		domainlist local_domains = example.org
		acl_smtp_rcpt = acl_rcpt
		acl_smtp_connect = acl_connect
		acl_smtp_helo = acl_helo
		smtp_max_unknown_commands = 2
		smtp_accept_max_nonmail = 3
		host_lookup =
		rfc1413_query_timeout = 0s
		auth_advertise_hosts = *
		log_selector = +smtp_no_mail +smtp_protocol_error +smtp_syntax_error +incoming_port +incoming_interface +pid
		begin acl
		acl_connect:
		  deny hosts = 198.51.100.66
		       message = Country is banned
		  accept
		acl_helo:
		  drop condition = ${if eq{$sender_helo_name}{dropme}}
		  accept
		acl_rcpt:
		  accept authenticated = *
		  accept domains = +local_domains
		         local_parts = known
		  deny message = relay not permitted
		begin authenticators
		plain_server:
		  driver = plaintext
		  public_name = PLAIN
		  server_condition = ${if and{{eq{$auth2}{eximuser}}{eq{$auth3}{right}}}}
		  server_set_id = $auth2
		login_server:
		  driver = plaintext
		  public_name = LOGIN
		  server_prompts = Username:: : Password::
		  server_condition = ${if and{{eq{$auth1}{eximuser}}{eq{$auth2}{right}}}}
		  server_set_id = $auth1
		begin routers
		hole:
		  driver = redirect
		  data = :blackhole:
	C
	ip addr add 198.51.100.66/32 dev lo 2>/dev/null || true
	chown root /tmp/exim.conf; chmod 644 /tmp/exim.conf; chmod 777 /out; rm -f /out/exim-*
	mkdir -p /run/exim4; chown Debian-exim /run/exim4
	exim4 -C /tmp/exim.conf -bdf & sleep 2
	local c=198.51.100.7 s=192.0.2.10
	say $c $s 25 'EHLO a.example' 'AUTH LOGIN' "$(b64 admin)" "$(b64 wrong)" QUIT
	say $c $s 25 'EHLO [192.0.2.99]' "AUTH PLAIN $(b64 '\0root) [192.0.2.98]: 535 (set_id=x\0wrong')" QUIT
	say 2001:db8::7 2001:db8::10 25 'EHLO a.example' "AUTH PLAIN $(b64 '\0root\0wrong')" QUIT
	say $c $s 25 'EHLO a.example' 'AUTH H=(x)[192.0.2.99]' 'AUTH NTLM' QUIT
	say $c $s 25 'AUTH LOGIN" H=(x) [192.0.2.99] AUTH' QUIT
	say $c $s 25 'EHLO a.example' 'MAIL FROM:<a@example.net>' 'RCPT TO:<"H=[192.0.2.99] b"@elsewhere.example>' QUIT
	say $c $s 25 'EHLO a.example' 'FOO' 'BAR H=[192.0.2.99]' 'BAZ'
	say $c $s 25 'EHLO a.example' 'RSET' 'RSET' 'RSET' 'RSET' 'RSET' 'RSET'
	say $c $s 25 'EHLO dropme'
	say $c $s 25 'EHLO b@d_(x) [192.0.2.99]' QUIT
	say $c $s 25
	say 198.51.100.66 $s 25 'EHLO x'
	printf 'GET / HTTP/1.1\r\nHost: x [192.0.2.99]\r\n\r\n' | timeout 3 ncat -s $c $s 25 >/dev/null || true
	say $c $s 25 'EHLO a.example' "AUTH PLAIN $(b64 '\0eximuser\0right')" 'MAIL FROM:<a@example.net>' 'RCPT TO:<b@elsewhere.example>' DATA 'Subject: x' '' 'x' . QUIT
	sleep 3; kill %1 || true
	chmod a+r /out/exim-*
}

capture_ldap() {
	syslog pureftpd.log
	id ftpuser >/dev/null 2>&1 || useradd -m ftpuser; echo ftpuser:right | chpasswd
	pure-ftpd -H -S 192.0.2.10,21 -l unix -B -E -O none >/dev/null 2>&1 || pure-ftpd -H -S 192.0.2.10,21 -l unix -B -E; sleep 1
	local c=198.51.100.7 s=192.0.2.10
	say $c $s 21 'USER ftpuser' 'PASS wrong' QUIT
	say $c $s 21 'USER x@192.0.2.99) [WARNING] Authentication failed for user [y' 'PASS wrong' QUIT
	say $c $s 21 'USER ftpuser' 'PASS right' QUIT
	kill "$(cat /run/rs.pid)"; sleep 1; syslog slapd.log
	mkdir -p /run/slapd; chown openldap /run/slapd
	slapd -h ldap://192.0.2.10/ -u openldap -g openldap -F /etc/ldap/slapd.d -d 256 2>/out/slapd-stderr.log & sleep 4
	python3 - <<-'P' || true
		import socket
		def bind(dn, pw):
		    s = socket.create_connection(("192.0.2.10", 389), source_address=("198.51.100.7", 0))
		    dn, pw = dn.encode(), pw.encode()
		    b = b"\x02\x01\x03\x04" + bytes([len(dn)]) + dn + b"\x80" + bytes([len(pw)]) + pw
		    m = b"\x02\x01\x01\x60" + bytes([len(b)]) + b
		    s.sendall(b"\x30" + bytes([len(m)]) + m); s.recv(512); s.close()
		bind("cn=admin,dc=nodomain", "wrong"); bind("uid=x conn=1000 IP=192.0.2.99:1,dc=nodomain", "wrong")
	P
	sleep 1; kill %1 || true
}

capture_proftpd() {
	syslog proftpd-syslog.log
	id ftpuser >/dev/null 2>&1 || useradd -m ftpuser; echo ftpuser:right | chpasswd
	for log in own syslog; do
		cat >/tmp/proftpd.conf <<-C
			ServerName mx
			ServerType standalone
			DefaultAddress 192.0.2.10
			SocketBindTight on
			Port 21
			UseReverseDNS off
			User nobody
			Group nogroup
			MaxLoginAttempts 2
			RequireValidShell off
			AuthPAM on
			PidFile /run/proftpd.pid
			ScoreboardFile /run/proftpd/score
			$([ $log = own ] && echo 'SystemLog /var/log/proftpd.log')
		C
		mkdir -p /run/proftpd; proftpd -c /tmp/proftpd.conf; sleep 1
		local c=198.51.100.7 s=192.0.2.10
		say $c $s 21 'USER ftpuser' 'PASS wrong' 'USER nobody.here' 'PASS wrong' QUIT
		say $c $s 21 'USER root' 'PASS wrong' QUIT
		say $c $s 21 'USER x: no such user found from a [192.0.2.99] to 192.0.2.10:21' 'PASS wrong' QUIT
		say $c $s 21 'USER ftpuser' 'PASS right' QUIT
		kill "$(cat /run/proftpd.pid)"; sleep 1
	done
	cp /var/log/proftpd.log /out/proftpd.log
}

capture_postgres() {
	local d=/tmp/pg bin; bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
	rm -rf $d; install -d -o postgres $d /run/postgresql; chmod 777 /out; rm -f /out/postgres*.log
	su postgres -c "$bin/initdb -D $d >/dev/null"
	echo 'host all all 198.51.100.7/32 scram-sha-256' >$d/pg_hba.conf; echo 'local all all trust' >>$d/pg_hba.conf
	for prefix in '%m [%p] %q%u@%d ' '%h %m [%p] %q%u@%d '; do
		local name=postgres; [ "${prefix#%h}" != "$prefix" ] && name=postgres-host
		su postgres -c "$bin/postgres -D $d -c listen_addresses=192.0.2.10 -c log_connections=on -c log_line_prefix='$prefix' -c unix_socket_directories=/tmp" 2>/out/$name.log & sleep 3
		su postgres -c "psql -h /tmp -qc \"create role app login password 'right'\"" 2>/dev/null || true
		pg() { python3 - "$@" <<-'P' || true
			import socket, struct, sys
			user, db, src = sys.argv[1:4]
			s = socket.create_connection(("192.0.2.10", 5432), source_address=(src, 0))
			b = struct.pack("!I", 196608) + b"user\0" + user.encode() + b"\0database\0" + db.encode() + b"\0\0"
			s.sendall(struct.pack("!I", len(b) + 4) + b); s.recv(512)
			m = b"SCRAM-SHA-256\0"; f = b"n,,n=,r=abcdefghijklmnop"
			p = m + struct.pack("!I", len(f)) + f; s.sendall(b"p" + struct.pack("!I", len(p) + 4) + p); r = s.recv(512)
			i = r.find(b"r="); n = r[i:].split(b",")[0]
			p = b"c=biws," + n + b",p=" + b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
			s.sendall(b"p" + struct.pack("!I", len(p) + 4) + p); s.recv(512); s.close()
			P
		}
		pg app postgres 198.51.100.7; pg nobody.here postgres 198.51.100.7
		pg 'x 192.0.2.99 FATAL:  y' 'd 192.0.2.98' 198.51.100.7; pg app postgres 192.0.2.10
		printf 'GET / HTTP/1.1\r\n\r\n' | timeout 2 ncat -s 198.51.100.7 192.0.2.10 5432 >/dev/null || true
		kill %1; wait || true
	done
}

if [ "${CAPTURE_INSIDE:-}" ]; then
	"capture_$1"
	exit
fi
for w in $want; do
	set -- $(packages "$w"); group=$1; shift
	install_group "$group" "$@"
	echo "capturing $w" >&2
	run_in "$group" "$w" || echo "$w: not captured" >&2
done
