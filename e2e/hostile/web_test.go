package hostile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"testing"
	"time"
)

// request fills every field of an HTTP request with the payload, as far as a
// header may hold it.
func request(port, path string, payload string) error {
	if payload == mark || payload == "honest" {
		path += payload
	}
	auth := base64.StdEncoding.EncodeToString([]byte(payload + ":wrong"))
	oneLine := headerText(payload)
	texts := []string{
		fmt.Sprintf("GET %s HTTP/1.1\r\nHost: h\r\nAuthorization: Basic %s\r\nUser-Agent: %s\r\nReferer: %s\r\nX-Forwarded-For: %s\r\nConnection: close\r\n\r\n", path, auth, oneLine, oneLine, victimAddr),
		fmt.Sprintf("GET %s?%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nConnection: close\r\n\r\n", path, escaped(payload), oneLine, auth),
		fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", oneLine, escaped(payload)),
		fmt.Sprintf("GET %s/%s HTTP/1.1\r\nHost: h\r\nAuthorization: %s\r\nConnection: close\r\n\r\n", path, escaped(payload), oneLine),
	}
	for _, text := range texts {
		if err := say(port, false, text); err != nil {
			return err
		}
	}
	return nil
}

// headerText leaves out what would end a header, so that the request goes on;
// every other byte stays.
func headerText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = '\v'
		}
	}
	return string(b)
}

// escaped writes what cannot stand in a request's target in hexadecimal.
func escaped(s string) string {
	var out []byte
	for _, c := range []byte(s) {
		if c <= ' ' || c == '%' || c == '#' || c >= 0x7f {
			out = fmt.Appendf(out, "%%%02x", c)
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func TestNginx(t *testing.T) {
	need(t, "nginx")
	d, log := scratch(t), dir(t, "/var/log/nginx")
	put(t, d+"/htpasswd", "alice:{PLAIN}right\n")
	put(t, d+"/nginx.conf", fmt.Sprintf(`daemon off; user root; pid %[1]s/pid; error_log %[2]s/error.log info;
events {}
http {
  access_log %[2]s/access.log combined;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server {
    listen %[3]s:80; root %[1]s;
    location / { auth_basic "closed"; auth_basic_user_file %[1]s/htpasswd; }
    location /open { }
    location /forbidden { deny all; }
  }
  server { listen %[3]s:443 ssl; server_name h; ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/cert.pem; return 403; }
}
`, d, log, serverAddr))
	certificate(t, d+"/cert.pem")
	start(t, "nginx", "-c", d+"/nginx.conf").listening(t, "80")
	a := attack{logs: []string{log + "/*.log"}, apart: 4, try: func(p string) error {
		if err := hello("443", p); err != nil {
			return err
		}
		for _, path := range []string{"/", "/open", "/forbidden"} {
			if err := request("80", path, p); err != nil {
				return err
			}
		}
		return nil
	}, plain: func(name string) error { return request("80", "/", name) }}
	a.run(t)
}

func TestApache(t *testing.T) {
	need(t, "apache2")
	d, log := scratch(t), dir(t, "/var/log/apache2")
	put(t, d+"/htpasswd", "alice:{SHA}x\n")
	mods := ""
	for _, m := range []string{"mpm_prefork", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "authz_host", "alias"} {
		mods += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n", m, m)
	}
	put(t, d+"/apache.conf", mods+fmt.Sprintf(`ServerRoot %[1]s
ServerName h
Listen %[3]s:80
PidFile %[1]s/pid
DefaultRuntimeDir %[1]s
Mutex file:%[1]s
User www-data
Group www-data
StartServers 1
ErrorLog %[2]s/error.log
LogLevel info
LogFormat "%%h %%l %%u %%t \"%%r\" %%>s %%O \"%%{Referer}i\" \"%%{User-Agent}i\"" combined
CustomLog %[2]s/access.log combined
DocumentRoot %[1]s
<Directory %[1]s>
  Require all granted
</Directory>
<Location /closed>
  AuthType Basic
  AuthName closed
  AuthUserFile %[1]s/htpasswd
  Require valid-user
</Location>
<Location /forbidden>
  Require all denied
</Location>
`, d, log, serverAddr))
	start(t, "apache2", "-X", "-f", d+"/apache.conf").listening(t, "80")
	a := attack{logs: []string{log + "/*.log"}, n: 100, try: func(p string) error {
		for _, path := range []string{"/", "/closed", "/forbidden"} {
			if err := request("80", path, p); err != nil {
				return err
			}
		}
		return nil
	}}
	a.run(t)
}

func TestSquid(t *testing.T) {
	need(t, "squid")
	d, log := scratch(t), dir(t, "/var/log/squid")
	put(t, d+"/passwd", "alice:x\n")
	put(t, d+"/squid.conf", fmt.Sprintf(`http_port %[3]s:3128
pid_filename %[1]s/pid
access_log stdio:%[2]s/access.log
cache_log %[2]s/cache.log
cache_store_log none
coredump_dir %[1]s
shutdown_lifetime 0 seconds
auth_param basic program /usr/lib/squid/basic_ncsa_auth %[1]s/passwd
auth_param basic children 2
auth_param basic realm closed
acl known proxy_auth REQUIRED
http_access deny !known
http_access allow known
`, d, log, serverAddr))
	start(t, "squid", "-N", "-f", d+"/squid.conf").listening(t, "3128")
	a := attack{logs: []string{log + "/*.log"}, blind: true, n: 40, own: 20, workers: 32, try: func(p string) error {
		auth := base64.StdEncoding.EncodeToString([]byte(p + ":wrong"))
		for _, text := range []string{
			fmt.Sprintf("GET http://h/%s HTTP/1.1\r\nHost: h\r\nProxy-Authorization: Basic %s\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", escaped(p), auth, headerText(p)),
			fmt.Sprintf("CONNECT %s:443 HTTP/1.1\r\nProxy-Authorization: Basic %s\r\n\r\n", escaped(p), auth),
			fmt.Sprintf("%s http://h/ HTTP/1.1\r\nHost: h\r\n\r\n", headerText(p)),
		} {
			if err := say("3128", false, text); err != nil {
				return err
			}
		}
		return nil
	}}
	a.run(t)
}

// certificate writes a key and its certificate into one file.
func certificate(t *testing.T, path string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"h"}}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return put(t, path, string(append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)))
}

// hello sends a TLS greeting for a server of that name (SNI), and a request.
func hello(port, name string) error {
	c, err := dial(port)
	if err != nil {
		return err
	}
	defer c.Close()
	s := tls.Client(c, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if s.Handshake() != nil {
		return nil
	}
	if _, err := fmt.Fprintf(s, "GET /%s HTTP/1.1\r\nHost: h\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n", escaped(name), headerText(name)); err == nil {
		_, _ = s.Read(make([]byte, 4096))
	}
	return nil
}

func TestLighttpd(t *testing.T) {
	need(t, "lighttpd")
	d, log := scratch(t), dir(t, "/var/log/lighttpd")
	put(t, d+"/passwd", "alice:right\n")
	put(t, d+"/lighttpd.conf", fmt.Sprintf(`server.modules = ("mod_access", "mod_auth", "mod_authn_file", "mod_accesslog")
server.document-root = "%[1]s"
server.bind = "%[3]s"
server.port = 80
server.pid-file = "%[1]s/pid"
server.errorlog = "%[2]s/error.log"
accesslog.filename = "%[2]s/access.log"
debug.log-request-header-on-error = "enable"
auth.backend = "plain"
auth.backend.plain.userfile = "%[1]s/passwd"
$HTTP["url"] =~ "^/open" { } else { auth.require = ("" => ("method" => "basic", "realm" => "closed", "require" => "valid-user")) }
`, d, log, serverAddr))
	start(t, "lighttpd", "-D", "-f", d+"/lighttpd.conf").listening(t, "80")
	a := attack{logs: []string{log + "/*.log"}, n: 60, own: 60, workers: 32, try: func(p string) error {
		for _, path := range []string{"/", "/open"} {
			if err := request("80", path, p); err != nil {
				return err
			}
		}
		return nil
	}, plain: func(name string) error { return request("80", "/", name) }}
	a.run(t)
}

func TestHAProxy(t *testing.T) {
	need(t, "haproxy", "rsyslogd", "logger")
	syslog(t)
	d := scratch(t)
	certificate(t, d+"/cert.pem")
	put(t, d+"/haproxy.cfg", fmt.Sprintf(`global
  log /dev/log local0
  maxconn 500
defaults
  mode http
  log global
  option httplog
  timeout client 5s
  timeout connect 5s
  timeout server 5s
userlist people
  user alice insecure-password right
frontend web
  bind %[2]s:80
  bind %[2]s:443 ssl crt %[1]s/cert.pem
  capture request header User-Agent len 200
  capture request header Referer len 200
  http-request capture ssl_fc_sni len 200
  http-request auth unless { http_auth(people) }
`, d, serverAddr))
	start(t, "haproxy", "-db", "-f", d+"/haproxy.cfg").listening(t, "80")
	a := attack{logs: []string{"/var/log/haproxy.log"}, n: 80, own: 80, workers: 8, synced: flushed(t, "local0.info", "/var/log/haproxy.log"), try: func(p string) error {
		if err := hello("443", p); err != nil {
			return err
		}
		return request("80", "/", p)
	}, plain: func(name string) error { return request("80", "/", name) }}
	a.run(t)
}
