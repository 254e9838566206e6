package feed

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/export/proxytest"
)

const checkerEnv = "STOPLOG_TEST_CHECKER"

// TestMain is also the check server that tests stop and kill.
func TestMain(m *testing.M) {
	if how := os.Getenv(checkerEnv); how != "" {
		if err := checker(how); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// checker blocks 127.0.0.16/28 for an hour, but for the allowed 127.0.0.20,
// slows 127.0.0.48/28 down to three a minute, and closes SSH to 127.0.0.64/28.
func checker(how string) error {
	addr, status, _ := strings.Cut(how, " ")
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	var s Snapshot
	slow, ssh := block("127.0.0.48/28", time.Hour), block("127.0.0.64/28", time.Hour)
	slow.Limit.Rate, ssh.Limit.Ports = 3, "tcp/22"
	s.Set(block("127.0.0.16/28", time.Hour), slow, ssh)
	s.SetFlags([]Flag{{"captcha", time.Now().Add(time.Hour)}})
	if err := s.SetAllow(prefixes("127.0.0.20/32")); err != nil {
		return err
	}
	n, err := strconv.Atoi(status)
	if err != nil {
		return err
	}
	c, err := NewCheck(&s, CheckOptions{Header: "x-real-ip", Status: n})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return c.Serve(context.Background(), l)
}

// startChecker runs a check server in a process of its own.
func startChecker(t *testing.T, addr string, status int) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", checkerEnv, addr, status))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Fatalf("the check server said %q, %v", said, err)
	}
	return cmd.Process
}

// snippet is the text of one language in docs/proxies.md, with the places and
// files of a test instead of its own.
func snippet(t *testing.T, language string, replace ...string) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(doc)
	if m == nil {
		t.Fatalf("docs/proxies.md has no %s", language)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(m[1]), replace[i]) {
			t.Fatalf("the %s of docs/proxies.md has no %q", language, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(m[1]))
}

// app is what stands behind the proxies: it shows the flag that it was told.
func app(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mine" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "app, flag %q", r.Header.Get("X-Stoplog-Flag"))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// judge asks a proxy from blocked and other addresses; open: all pass.
func judge(t *testing.T, what, port string, open bool) {
	t.Helper()
	for from, retry := range map[string]int{"127.0.0.16": 3600, "127.0.0.31": 3600, "127.0.0.48": 20, "127.0.0.20": 0, "127.0.0.15": 0, "127.0.0.32": 0, "127.0.0.64": 0} {
		a := proxytest.Get(t, "http://127.0.0.1:"+port+"/", from, "X-Real-IP", "127.0.0.99", "X-Forwarded-For", "127.0.0.98")
		want := http.StatusOK
		if retry > 0 && !open {
			want = http.StatusTooManyRequests
		}
		if a.Status != want {
			t.Errorf("%s, from %s: %d, want %d", what, from, a.Status, want)
		}
		if want == http.StatusOK {
			if !strings.HasPrefix(a.Body, "app, ") {
				t.Errorf("%s, from %s: the answer is not the app's: %q", what, from, a.Body)
			}
			continue
		}
		if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || n < retry*5/6 || n > retry {
			t.Errorf("%s, from %s: Retry-After %q, want nearly %d", what, from, a.Header.Get("Retry-After"), retry)
		}
	}
}

// withDeaths judges while the check server lives, hangs, is dead, and is back.
func withDeaths(t *testing.T, port, checkAddr string, status int, p *os.Process) {
	t.Helper()
	judge(t, "alive", port, false)
	signal(t, p, syscall.SIGSTOP)
	var ws syscall.WaitStatus // it stops when all its threads have
	if _, err := syscall.Wait4(p.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("waiting for the check server to stop: %v, status %v", err, ws)
	}
	start := time.Now()
	judge(t, "hanging", port, true)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("five requests took %s while it hung", took)
	}
	signal(t, p, syscall.SIGKILL)
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	judge(t, "dead", port, true)
	startChecker(t, checkAddr, status)
}

func signal(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestNginxAsks(t *testing.T) {
	proxytest.Need(t, "nginx")
	port, check := proxytest.Port(t), "127.0.0.1:"+proxytest.Port(t)
	p := startChecker(t, check, 403)
	proxytest.Nginx(t, snippet(t, "nginx", "127.0.0.1:9180", check, "listen 80;", "listen 127.0.0.1:"+port+";", "127.0.0.1:8000", app(t)))
	if a := proxytest.Get(t, "http://127.0.0.1:"+port+"/", "127.0.0.1"); a.Body != `app, flag "captcha"` {
		t.Errorf("got %q, want the flag", a.Body)
	}
	if a := proxytest.Get(t, "http://127.0.0.1:"+port+"/mine", "127.0.0.1"); a.Status != 403 {
		t.Errorf("the app's own 403 became %d", a.Status)
	}
	if a := proxytest.Get(t, "http://127.0.0.1:"+port+"/stoplog-check", "127.0.0.1"); a.Status != 204 || a.Header.Get("X-Stoplog-Flag") != "" {
		t.Errorf("the check can be asked from outside: %d, %v", a.Status, a.Header)
	}
	withDeaths(t, port, check, 403, p)
	judge(t, "back", port, false)
}

func TestCaddyAsks(t *testing.T) {
	proxytest.Need(t, "caddy")
	port, check := proxytest.Port(t), "127.0.0.1:"+proxytest.Port(t)
	p := startChecker(t, check, 429)
	proxytest.Caddy(t, snippet(t, "caddyfile", "127.0.0.1:9180", check, "127.0.0.1:9181", "127.0.0.1:"+proxytest.Port(t), "example.org {", "http://127.0.0.1:"+port+" {", "127.0.0.1:8000", app(t)))
	if a := proxytest.Get(t, "http://127.0.0.1:"+port+"/", "127.0.0.1"); a.Body != `app, flag "captcha"` {
		t.Errorf("got %q, want the flag", a.Body)
	}
	withDeaths(t, port, check, 429, p) // back: only after fail_duration
}

func TestHAProxyAsks(t *testing.T) {
	proxytest.Need(t, "haproxy")
	port, check, relay := proxytest.Port(t), "127.0.0.1:"+proxytest.Port(t), "127.0.0.1:"+proxytest.Port(t)
	p := startChecker(t, check, 429)
	lua := proxytest.File(t, "stoplog.lua", snippet(t, "lua", "127.0.0.1:9181", relay))
	proxytest.HAProxy(t, snippet(t, "haproxy", "/etc/haproxy/stoplog.lua", lua, "bind :80", "bind 127.0.0.1:"+port, "127.0.0.1:8000", app(t), "127.0.0.1:9181", relay, "127.0.0.1:9180", check))
	withDeaths(t, port, check, 429, p)
	judge(t, "back", port, false)
}

// TestHAProxyReads needs no check server: the map ends blocks by itself.
func TestHAProxyReads(t *testing.T) {
	proxytest.Need(t, "haproxy")
	var s Snapshot
	s.Set(block("127.0.0.16/28", time.Hour))
	es, _ := s.Entries()
	path := filepath.Join(t.TempDir(), "stoplog.map")
	if _, err := export.ToFile(path, "haproxy-map", es, export.Options{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "127.0.0.32/32 %d\n", time.Now().Unix()-1)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	port := proxytest.Port(t)
	proxytest.HAProxy(t, snippet(t, "haproxy-list", "/etc/haproxy/stoplog.map", path, "bind :80", "bind 127.0.0.1:"+port, "127.0.0.1:8000", app(t)))
	for from, want := range map[string]int{"127.0.0.16": 429, "127.0.0.31": 429, "127.0.0.15": 200, "127.0.0.32": 200} {
		if got := proxytest.Get(t, "http://127.0.0.1:"+port+"/", from).Status; got != want {
			t.Errorf("from %s: %d, want %d", from, got, want)
		}
	}
}
