// Package proxytest runs real web servers and proxies on loopback for tests:
// nginx, Apache, HAProxy and Caddy, each in the foreground with a
// configuration of the test's and ended with it.
package proxytest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait.
const Patience = 20 * time.Second

// requireEnv turns every skipped test into a failure.
const requireEnv = "STOPLOG_REQUIRE_KERNEL_TESTS"

// Need skips without the programs, or fails where none may be skipped.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv(requireEnv) == "1" {
			t.Fatalf("needs the program %s, and %s=1", p, requireEnv)
		}
		t.Skip("needs the program " + p)
	}
}

// Port returns a loopback port that nobody listens on.
func Port(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// File writes a file of the test's and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Nginx runs nginx with what goes inside http, until the test ends. Skips
// without nginx.
func Nginx(t testing.TB, inHTTP string) {
	t.Helper()
	Need(t, "nginx")
	dir := t.TempDir()
	conf := "daemon off;\nerror_log stderr notice;\npid " + dir + "/pid;\nevents {}\nhttp {\naccess_log off;\n" + inHTTP + "\n}\n"
	start(t, "start worker process ", nil, "nginx", "-e", "stderr", "-p", dir, "-c", File(t, "nginx.conf", conf))
}

// HAProxy runs HAProxy, until the test ends. Skips without it.
func HAProxy(t testing.TB, conf string) {
	t.Helper()
	Need(t, "haproxy")
	start(t, "Loading success", nil, "haproxy", "-W", "-f", File(t, "haproxy.cfg", conf))
}

// Caddy runs Caddy with a Caddyfile, until the test ends. Skips without it.
func Caddy(t testing.TB, caddyfile string) {
	t.Helper()
	Need(t, "caddy")
	home := t.TempDir()
	start(t, "serving initial configuration", []string{"HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home},
		"caddy", "run", "--adapter", "caddyfile", "--config", File(t, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n"+caddyfile))
}

// Apache runs Apache with a configuration that needs no module but those that
// decide about access, until the test ends. Skips without it.
func Apache(t testing.TB, port, conf string) {
	t.Helper()
	Need(t, "apache2")
	dir := t.TempDir()
	const mods = "/usr/lib/apache2/modules/"
	text := "ServerRoot " + dir + "\nPidFile " + dir + "/pid\nDefaultRuntimeDir " + dir + "\nErrorLog /dev/stderr\nServerName test\nUser www-data\nGroup www-data\n" +
		"LoadModule mpm_event_module " + mods + "mod_mpm_event.so\nLoadModule authz_core_module " + mods + "mod_authz_core.so\n" +
		"LoadModule authz_host_module " + mods + "mod_authz_host.so\nListen 127.0.0.1:" + port + "\n" + conf
	start(t, "resuming normal operations", nil, "apache2", "-DFOREGROUND", "-f", File(t, "apache.conf", text))
}

// start runs a program and returns once it has printed ready on one of its
// outputs.
func start(t testing.TB, ready string, env []string, argv ...string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		// SIGTERM first: a master that lives takes care of its workers.
		cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(Patience, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		late.Stop()
		r.Close()
	})
	said := make(chan string, 1)
	go watch(r, ready, said)
	select {
	case text := <-said:
		if text != "" {
			t.Fatalf("%s ended:\n%s", argv[0], text)
		}
	case <-time.After(Patience):
		t.Fatalf("%s does not get ready", argv[0])
	}
}

// watch sends "" once a line holds ready, or all that was said when the
// program ends before; then it drains the rest.
func watch(r io.Reader, ready string, said chan<- string) {
	var all strings.Builder
	b := bufio.NewScanner(r)
	for b.Scan() {
		if strings.Contains(b.Text(), ready) {
			said <- ""
			io.Copy(io.Discard, r)
			return
		}
		all.WriteString(b.Text() + "\n")
	}
	said <- all.String() + "(nothing more)"
}

// Answer is what a server said.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Get asks for a URL from a loopback address ("127.0.0.5"), over a connection
// of its own.
func Get(t testing.TB, url, from string, header ...string) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := http.Client{
		Transport:     &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{resp.StatusCode, resp.Header, string(body)}
}
