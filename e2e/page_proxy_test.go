package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestPageBehindProxy runs nginx with the configuration that docs/page.md
// shows, and logs in through it.
func TestPageBehindProxy(t *testing.T) {
	need(t, "nginx", "openssl")
	dir, addr := scratch(t), freeAddr(t)
	auth := put(t, filepath.Join(dir, "auth.log"), "", 0o644)
	p := newPlain(t, "")
	sock := filepath.Join(p.dir, "s", "page.sock")
	put(t, p.config, fmt.Sprintf(listenRules, auth, "listen: {page: {addr: "+sock+", hosts: [stoplog.example.net]}}\nprotect: {own: false, ssh_peers: false}"), 0o644)
	p.start(t)
	p.out.waitFor(t, "msg=page", "listening="+sock)
	token := strings.TrimSpace(lastLine(p.ask(t, "token", "add", "anna", "--config", p.config, "--state", filepath.Join(p.dir, "state"))))
	startProxy(t, dir, addr, sock)

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	origin := "https://stoplog.example.net:" + port
	c := http.Client{Jar: jar, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the certificate is our own, of this test
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
	}}
	send := func(path string, form url.Values) (int, string) {
		t.Helper()
		r, err := http.NewRequest("GET", origin+path, nil)
		if form != nil {
			r, err = http.NewRequest("POST", origin+path, strings.NewReader(form.Encode()))
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		a, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(b)
	}
	code, page := send("/login", url.Values{"token": {token}})
	if code != 200 || !strings.Contains(page, "Newest blocks") {
		t.Fatalf("after the login: %d\n%s", code, page)
	}
	u, _ := url.Parse(origin)
	if cs := jar.Cookies(u); len(cs) != 1 || cs[0].Name != "__Host-stoplog" {
		t.Errorf("cookies %v, want one that is bound to TLS", cs)
	}
	csrf := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(page)
	code, page = send("/block", url.Values{"csrf": {csrf[1]}, "target": {"203.0.113.9"}})
	if code != 200 || !strings.Contains(page, "Blocked 203.0.113.9/32") || !strings.Contains(p.ask(t, "list"), "203.0.113.9/32") {
		t.Errorf("a block: %d\n%s", code, page)
	}
}

// startProxy runs nginx with the page's snippet, at our address, socket and
// certificate.
func startProxy(t *testing.T, dir, addr, sock string) {
	t.Helper()
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=stoplog.example.net", "-keyout", filepath.Join(dir, "key"), "-out", filepath.Join(dir, "pem")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	doc, err := os.ReadFile("../docs/page.md")
	if err != nil {
		t.Fatal(err)
	}
	_, server, ok := strings.Cut(string(doc), "```nginx\n")
	server, _, closed := strings.Cut(server, "```")
	if !ok || !closed {
		t.Fatal("docs/page.md shows no configuration of nginx")
	}
	for old, now := range map[string]string{
		"listen 443 ssl": "listen " + addr + " ssl", "/etc/ssl/stoplog.pem": dir + "/pem", "/etc/ssl/stoplog.key": dir + "/key", "/run/stoplog/page.sock": sock,
	} {
		if !strings.Contains(server, old) {
			t.Fatalf("docs/page.md: no %q", old)
		}
		server = strings.ReplaceAll(server, old, now)
	}
	conf := put(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf("user nobody nogroup; daemon off; pid %[1]s/pid; error_log %[1]s/error.log;\nevents {}\nhttp { access_log off;\n%s}\n", dir, server), 0o644)
	cmd := exec.Command("nginx", "-c", conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	until(t, "nginx does not listen", func() bool {
		x, err := net.Dial("tcp", addr)
		if err == nil {
			x.Close()
		}
		return err == nil
	})
}
