package export_test

import (
	"bytes"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/export/proxytest"
)

// loopback blocks 127.0.0.16/28 for an hour but for the allowed 127.0.0.20.
func loopback(t *testing.T, format string) string {
	t.Helper()
	var b bytes.Buffer
	es := []export.Entry{entry("127.0.0.16/28", time.Hour), entry("127.0.0.99/32", -time.Hour), entry("2001:db8::/64", time.Hour)}
	if _, err := export.Write(&b, format, es, export.Options{Now: time.Now(), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.20/32")}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// judge asks from blocked, allowed and other addresses.
func judge(t *testing.T, port string, refused int) {
	t.Helper()
	for from, want := range map[string]int{
		"127.0.0.16": refused, "127.0.0.19": refused, "127.0.0.21": refused, "127.0.0.31": refused,
		"127.0.0.20": 200, "127.0.0.15": 200, "127.0.0.32": 200, "127.0.0.99": 200,
	} {
		if got := proxytest.Get(t, "http://127.0.0.1:"+port+"/", from).Status; got != want {
			t.Errorf("from %s: got %d, want %d", from, got, want)
		}
	}
}

func TestNginx(t *testing.T) {
	proxytest.Need(t, "nginx")
	for name, es := range samples() {
		conf := proxytest.File(t, "nginx.conf", "error_log stderr;\npid "+t.TempDir()+"/pid;\nevents {}\nhttp {\n"+text(t, "nginx-deny", es)+text(t, "nginx-geo", es)+"\n}\n")
		if out := command(t, "", "nginx", "-e", "stderr", "-t", "-c", conf); strings.Contains(out, "warn") {
			t.Errorf("%s: %s", name, out)
		}
	}
	deny, geo := proxytest.Port(t), proxytest.Port(t)
	proxytest.Nginx(t, "include "+proxytest.File(t, "geo.conf", loopback(t, "nginx-geo"))+";\n"+
		"server { listen 127.0.0.1:"+geo+"; if ($stoplog) { return 429; } location / { return 200; } }\n"+
		"server { listen 127.0.0.1:"+deny+"; location / { include "+proxytest.File(t, "deny.conf", loopback(t, "nginx-deny"))+"; try_files /none @ok; } location @ok { return 200; } }\n")
	judge(t, deny, 403)
	judge(t, geo, 429)
}

func TestApache(t *testing.T) {
	proxytest.Need(t, "apache2")
	in := func(list string) string {
		return "<Location />\n<RequireAll>\nRequire all granted\nInclude " + proxytest.File(t, "deny.conf", list) + "\n</RequireAll>\n</Location>\n"
	}
	const mods = "/usr/lib/apache2/modules/"
	for name, es := range samples() {
		conf := proxytest.File(t, "apache.conf", "ServerName test\nErrorLog /dev/stderr\nDefaultRuntimeDir /tmp\nLoadModule mpm_event_module "+mods+"mod_mpm_event.so\nLoadModule authz_core_module "+mods+"mod_authz_core.so\nLoadModule authz_host_module "+mods+"mod_authz_host.so\n"+in(text(t, "apache", es)))
		wants(t, name, command(t, "", "apache2", "-t", "-f", conf), "Syntax OK")
	}
	port := proxytest.Port(t)
	root := t.TempDir()
	if err := exec.Command("sh", "-c", "chmod 755 $0 $0/.. && echo ok >$0/index.html", root).Run(); err != nil {
		t.Fatal(err)
	}
	proxytest.Apache(t, port, "DocumentRoot "+root+"\n"+in(loopback(t, "apache")))
	for from, want := range map[string]int{"127.0.0.16": 403, "127.0.0.31": 403, "127.0.0.20": 200, "127.0.0.32": 200} {
		if got := proxytest.Get(t, "http://127.0.0.1:"+port+"/index.html", from).Status; got != want {
			t.Errorf("from %s: got %d, want %d", from, got, want)
		}
	}
}

func TestHAProxy(t *testing.T) {
	proxytest.Need(t, "haproxy")
	conf := func(acl, byMap, aclList, mapList string) string {
		return "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n" +
			"frontend acl\n bind 127.0.0.1:" + acl + "\n http-request deny deny_status 429 if { src -f " + proxytest.File(t, "acl", aclList) + " }\n http-request return status 200\n" +
			"frontend map\n bind 127.0.0.1:" + byMap + "\n http-request set-var(txn.now) date()\n" +
			" http-request deny deny_status 429 if { src,map_ip_int(" + proxytest.File(t, "map", mapList) + ",0),sub(txn.now) gt 0 }\n http-request return status 200\n"
	}
	acl, byMap := proxytest.Port(t), proxytest.Port(t)
	for _, es := range samples() {
		command(t, "", "haproxy", "-c", "-f", proxytest.File(t, "haproxy.cfg", conf(acl, byMap, text(t, "haproxy-acl", es), text(t, "haproxy-map", es))))
	}
	// The end in the map counts, not that the line is there.
	ended := "127.0.0.99/32 1000000000\n"
	proxytest.HAProxy(t, conf(acl, byMap, loopback(t, "haproxy-acl"), loopback(t, "haproxy-map")+ended))
	judge(t, acl, 429)
	judge(t, byMap, 429)
}

func TestCaddy(t *testing.T) {
	proxytest.Need(t, "caddy")
	site := func(list, port string) string {
		return "import " + proxytest.File(t, "stoplog.caddy", list) + "\nhttp://127.0.0.1:" + port + " {\n\timport stoplog\n\trespond 200\n}\n"
	}
	for _, es := range samples() {
		command(t, "", "caddy", "validate", "--adapter", "caddyfile", "--config", proxytest.File(t, "Caddyfile", site(text(t, "caddy", es), "8080")))
	}
	port := proxytest.Port(t)
	proxytest.Caddy(t, site(loopback(t, "caddy"), port))
	judge(t, port, 429)
}
