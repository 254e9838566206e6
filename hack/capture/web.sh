#!/bin/sh
# Writes the log lines of real web servers to internal/parse/web/testdata/, for
# the tests of internal/parse/web: web.sh [DIR]. Needs Debian's nginx, apache2,
# haproxy, lighttpd, squid and curl; what is not installed is left out:
#
#   apt-get install --no-install-recommends nginx-light apache2 haproxy \
#       lighttpd squid curl apache2-utils libapache2-mod-security2
#
# Every server runs from a directory of its own on loopback, never from /etc,
# and is ended by its process id. Clients are 127.0.0.9 (and ::1 where it
# exists), so that nothing has to be rewritten: the lines are the servers' own,
# but for the temporary directory, which becomes /srv/capture. Run it as root
# (Apache wants to change its user), with openssl and bash at hand.
set -eu

out=${1:-$(dirname "$0")/../../internal/parse/web/testdata}
mkdir -p "$out"
out=$(cd "$out" && pwd)
tmp=$(mktemp -d)
pids=
trap 'for p in $pids; do kill "$p" 2>/dev/null || :; done; rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
mkdir -p "$tmp/www/dir" "$tmp/run"
echo hello >"$tmp/www/index.html"
echo private >"$tmp/www/dir/x.txt"
chmod -R a+rX "$tmp/www"
# alice:secret, by crypt(3) of openssl so that no server's tool is needed
printf 'alice:%s\n' "$(openssl passwd -apr1 -salt capture1 secret)" >"$tmp/htpasswd"
printf 'alice:secret\n' >"$tmp/plain"
printf 'alice:area:%s\n' "$(printf alice:area:secret | md5sum | cut -d' ' -f1)" >"$tmp/htdigest"
chmod 644 "$tmp/htpasswd" "$tmp/plain" "$tmp/htdigest"

have() { command -v "$1" >/dev/null 2>&1; }

# ready PORT waits until something listens there.
ready() {
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		curl -s -o /dev/null "http://127.0.0.1:$1/" && return 0
		sleep 0.2
	done
	echo "web.sh: nothing listens on port $1" >&2
	return 1
}

get() { curl -s -o /dev/null --max-time 5 --interface 127.0.0.9 "$@" || :; }

# raw PORT TEXT sends bytes that are no request.
raw() {
	timeout 3 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0"; printf "$1" >&3; timeout 1 cat <&3 >/dev/null' "$1" "$2" 2>/dev/null || :
}

# attempts PORT does what attackers and browsers do.
attempts() {
	u=http://127.0.0.1:$1
	get "$u/index.html" -A 'Mozilla/5.0 "quoted" \back' -e 'http://example.com/?q="x"'
	get "$u/auth/"
	get "$u/auth/" -u 'alice:wrong'
	get "$u/auth/" -u 'nobody:x'
	get "$u/auth/" -u 'alice:secret'
	get "$u/auth/" -u 'a b] [client 203.0.113.66] user root not found: /x'
	get "$u/auth/" -u 'x", client 203.0.113.66, server:pw'
	get "$u/auth/" -u 'root, IP: 203.0.113.66'
	get "$u/digest/" --digest -u 'alice:wrong'
	get "$u/digest/" --digest -u 'nobody:x'
	get "$u/deny/secret"
	get "$u/dir/"
	get "$u/nothing/here.php?x=1%20or%202"
	get "$u/%22,%20client:%20203.0.113.66,%20server:%20x,%20request:%20%22GET%20/%20HTTP/1.1%22"
	get --path-as-is "$u/[client%20203.0.113.66]%20user%20root%20not%20found"
	get -g "$u/x\",client:203.0.113.66"
	for _ in 1 2 3; do get "$u/limited/"; done
	get -X PROPFIND "$u/"
	raw "$1" '\026\003\001\002\000\001\000\001\374\003\003 hello\r\n\r\n'
	raw "$1" 'HELP\r\n\r\n'
	raw "$1" 'GET /sp ace", client: 203.0.113.66, server: x, request: "GET / HTTP/1.1\r\nHost: h\r\n\r\n'
	raw "$1" 'GET / HTTP/1.1\r\nHost: a b/c"\r\n\r\n'
}

nginx_capture() {
	cat >"$tmp/nginx.conf" <<EOF
daemon off; pid $tmp/run/nginx.pid; error_log $tmp/nginx-error.log info; worker_processes 1;
events {}
http {
  client_body_temp_path $tmp/run; proxy_temp_path $tmp/run; fastcgi_temp_path $tmp/run; uwsgi_temp_path $tmp/run; scgi_temp_path $tmp/run;
  log_format main '\$remote_addr - \$remote_user [\$time_local] "\$request" \$status \$body_bytes_sent "\$http_referer" "\$http_user_agent" "\$http_x_forwarded_for"';
  log_format js escape=json '{"time":"\$time_iso8601","remote_addr":"\$remote_addr","remote_user":"\$remote_user","request":"\$request","status":\$status,"agent":"\$http_user_agent"}';
  access_log $tmp/nginx-access.log combined; access_log $tmp/nginx-main.log main; access_log $tmp/nginx-json.log js;
  limit_req_zone \$binary_remote_addr zone=one:1m rate=1r/m; limit_conn_zone \$binary_remote_addr zone=addr:1m;
  server { listen 127.0.0.1:18081; listen [::1]:18081; server_name www.example.org; root $tmp/www;
    location /auth/ { auth_basic area; auth_basic_user_file $tmp/htpasswd; }
    location /deny/ { deny all; }
    location /limited/ { limit_req zone=one; }
    location /up/ { proxy_pass http://127.0.0.1:9; }
  }
}
EOF
	nginx -c "$tmp/nginx.conf" -p "$tmp" 2>/dev/null &
	pids="$pids $!"
	ready 18081
	attempts 18081
	get http://127.0.0.1:18081/up/x
	curl -s -g -o /dev/null 'http://[::1]:18081/auth/' -u alice:wrong || :
	for f in error access main json; do cp "$tmp/nginx-$f.log" "$out/nginx-$f.log"; done
}

apache_capture() {
	mods=/usr/lib/apache2/modules
	{
		echo "ServerRoot $tmp"
		for m in mpm_event authn_core authz_core authz_user authz_host auth_basic auth_digest authn_file access_compat log_config alias dir autoindex unixd cgid; do
			[ -e "$mods/mod_$m.so" ] && echo "LoadModule ${m}_module $mods/mod_$m.so"
		done
		if [ -e "$mods/mod_security2.so" ]; then
			echo "LoadModule unique_id_module $mods/mod_unique_id.so"
			echo "LoadModule security2_module $mods/mod_security2.so"
		fi
		cat <<EOF
PidFile $tmp/run/apache.pid
ServerName www.example.org
User www-data
Group www-data
Listen 127.0.0.1:18082
ErrorLog $tmp/apache-error.log
LogLevel info
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost
CustomLog $tmp/apache-access.log combined
CustomLog $tmp/apache-vhost.log vhost
DocumentRoot $tmp/www
ScriptSock $tmp/run/cgid
ScriptAlias /cgi-bin/ $tmp/www/
<Directory $tmp/www>
  Require all granted
  Options +ExecCGI -Indexes
</Directory>
<Location /auth/>
  AuthType Basic
  AuthName area
  AuthUserFile $tmp/htpasswd
  Require valid-user
</Location>
<Location /digest/>
  AuthType Digest
  AuthName area
  AuthUserFile $tmp/htdigest
  Require valid-user
</Location>
<Location /deny/>
  Require all denied
</Location>
<IfModule security2_module>
  SecRuleEngine On
  SecDataDir $tmp/run
  SecRule REQUEST_URI "@contains /nothing/here" "id:1,phase:1,deny,status:403,msg:'no such door'"
</IfModule>
EOF
	} >"$tmp/apache.conf"
	apache2 -f "$tmp/apache.conf" -DFOREGROUND 2>"$tmp/apache.out" &
	pids="$pids $!"
	ready 18082 || cat "$tmp/apache.out" >&2
	attempts 18082
	get http://127.0.0.1:18082/cgi-bin/none.cgi
	get --path-as-is "http://127.0.0.1:18082/a/../../../../etc/passwd"
	get --path-as-is "http://127.0.0.1:18082/cgi-bin/.%2e/.%2e/.%2e/.%2e/etc/passwd"
	for f in error access vhost; do cp "$tmp/apache-$f.log" "$out/apache-$f.log"; done
}

haproxy_capture() {
	cat >"$tmp/haproxy.cfg" <<EOF
global
  log stdout format raw local0
defaults
  timeout connect 2s
  timeout client 5s
  timeout server 5s
userlist users
  user alice insecure-password secret
frontend web
  mode http
  log global
  option httplog
  bind 127.0.0.1:18083
  acl private path_beg /auth/
  http-request deny if { path_beg /deny/ }
  http-request tarpit if { path_beg /limited/ }
  http-request auth realm area if private !{ http_auth(users) }
  timeout tarpit 100ms
  default_backend app
frontend tcp
  mode tcp
  log global
  option tcplog
  bind 127.0.0.1:18084
  default_backend none
frontend tls
  mode http
  log global
  bind 127.0.0.1:18085 accept-proxy
  default_backend app
backend app
  mode http
  server s1 127.0.0.1:18081
backend none
  mode tcp
  server s1 127.0.0.1:9
EOF
	haproxy -f "$tmp/haproxy.cfg" >"$tmp/haproxy.log" 2>/dev/null &
	pids="$pids $!"
	ready 18083
	attempts 18083
	get http://127.0.0.1:18084/
	get http://127.0.0.1:18085/
	grep '^[0-9]' "$tmp/haproxy.log" >"$out/haproxy.log"
}

lighttpd_capture() {
	cat >"$tmp/lighttpd.conf" <<EOF
server.modules = ("mod_auth","mod_authn_file","mod_access","mod_accesslog")
server.document-root = "$tmp/www"
server.bind = "127.0.0.1"
server.port = 18086
server.errorlog = "$tmp/lighttpd-error.log"
accesslog.filename = "$tmp/lighttpd-access.log"
auth.backend = "plain"
auth.backend.plain.userfile = "$tmp/plain"
auth.require = ( "/auth/" => ("method"=>"basic","realm"=>"area","require"=>"valid-user"),
                 "/digest/" => ("method"=>"digest","realm"=>"area","require"=>"valid-user") )
\$HTTP["url"] =~ "^/deny/" { url.access-deny = ("") }
EOF
	lighttpd -D -f "$tmp/lighttpd.conf" 2>/dev/null &
	p=$!
	pids="$pids $p"
	ready 18086
	attempts 18086
	kill "$p" && wait "$p" 2>/dev/null || : # it writes its access log at the end
	for f in error access; do cp "$tmp/lighttpd-$f.log" "$out/lighttpd-$f.log"; done
}

squid_capture() {
	mkdir -p "$tmp/squid"
	chmod 777 "$tmp/squid"
	cat >"$tmp/squid.conf" <<EOF
http_port 127.0.0.1:18087
pid_filename none
cache_log $tmp/squid/cache.log
access_log stdio:$tmp/squid/access.log
cache deny all
coredump_dir $tmp/squid
shutdown_lifetime 1 seconds
acl ok dst 127.0.0.0/8
acl bad dstdomain .example.net
http_access deny bad
http_access allow ok
http_access deny all
EOF
	squid -N -f "$tmp/squid.conf" >/dev/null 2>&1 &
	p=$!
	pids="$pids $p"
	ready 18087
	get -x http://127.0.0.1:18087 http://127.0.0.1:18081/index.html
	get -x http://127.0.0.1:18087 'http://bad.example.net/a b?x=203.0.113.66 TCP_DENIED/403'
	get -p -x http://127.0.0.1:18087 https://bad.example.net/
	raw 18087 'HELP\r\n\r\n'
	kill "$p" && wait "$p" 2>/dev/null || :
	cp "$tmp/squid/access.log" "$out/squid-access.log"
}

if have nginx; then nginx_capture; fi
if have apache2; then apache_capture; fi
if have haproxy; then haproxy_capture; fi
if have lighttpd; then lighttpd_capture; fi
if have squid; then squid_capture; fi
sed -i "s#$tmp#/srv/capture#g" "$out"/*.log
ls -l "$out"
