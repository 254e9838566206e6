package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const tellRules = `
use: []
sources: [{file: %[1]s/auth.log, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 1h}
notify:
  hook: {webhook: "%[2]s", group: 2s}
  prog: {exec: [%[1]s/prog], group: 2s}
listen:
  metrics: {addr: "%[3]s", token_file: %[1]s/token}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 2, leak: 1m}
    then: [block, {notify: hook}, {notify: prog}]
`

// told is what a message says of interest here.
type told struct {
	Text          string
	Count, Blocks int
	Events        []struct {
		User, Prefix string
		Blocks       []string
		Evidence     []string
	}
}

// TestTell follows messages from a failed login to a web server and to a
// program, and looks at the metrics.
func TestTell(t *testing.T) {
	messages := make(chan told, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m told
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &m); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %q as %s: %v", b, r.Header.Get("Content-Type"), err)
		}
		messages <- m
	}))
	defer s.Close()
	addr := freeAddr(t)
	p := newPlain(t, "")
	said := pipe(t, filepath.Join(p.dir, "pipe"))
	put(t, p.config, fmt.Sprintf(tellRules, p.dir, s.URL, addr), 0o644)
	put(t, filepath.Join(p.dir, "token"), "s3cret\n", 0o644)
	put(t, filepath.Join(p.dir, "prog"), "#!/bin/sh\n{ cat; cat /proc/self/status; } >"+p.dir+"/pipe\n", 0o755)
	log := put(t, filepath.Join(p.dir, "auth.log"), "", 0o644)
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.start(t)
	p.out.waitFor(t, "caught up")
	for i := range 30 {
		attempt(t, f, i, fmt.Sprintf("203.0.113.%d", i/3*16))
	}
	m := next(t, messages)
	if m.Count != 10 || m.Blocks != 10 || len(m.Events) != 10 || m.Events[0].Blocks[0] != "203.0.113.0/28" || m.Events[0].User != "root" || len(m.Events[0].Evidence) != 3 {
		t.Errorf("got %+v, want one message of ten blocks", m)
	}
	program(t, next(t, said))
	p.scrape(t, addr)

	// What stands from before is not told again.
	p.kill()
	p.start(t)
	p.out.waitFor(t, "caught up")
	for i := range 3 {
		attempt(t, f, 100+i, "198.51.100.7")
	}
	m = next(t, messages)
	if m.Count != 1 || m.Blocks != 1 || m.Events[0].Prefix != "198.51.100.0/28" {
		t.Errorf("after a restart: %+v, want the new block alone", m)
	}
}

func next[T any](t *testing.T, c <-chan T) (x T) {
	t.Helper()
	select {
	case x = <-c:
	case <-time.After(patience):
		t.Fatal("no message came")
	}
	return x
}

// pipe makes a named pipe that anybody may write to and returns what each
// writer wrote.
func pipe(t *testing.T, path string) <-chan string {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	said := make(chan string, 10)
	go func() {
		for {
			b, err := os.ReadFile(path)
			if err != nil {
				return // the test is over
			}
			said <- string(b)
		}
	}()
	return said
}

// program looks at what the program got and which rights it had.
func program(t *testing.T, said string) {
	t.Helper()
	if !strings.Contains(said, `"count":10`) {
		t.Errorf("the program got %s", said)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if os.Geteuid() == 0 && !strings.Contains(said, set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, said)
		}
	}
}

// scrape asks for the metrics without the token and with it.
func (p *plainRun) scrape(t *testing.T, addr string) {
	t.Helper()
	for token, want := range map[string]int{"": 401, "wrong": 401, "s3cret": 200} {
		r, err := http.NewRequest("GET", "http://"+addr+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != want {
			t.Errorf("token %q: %d %v, want %d", token, a.StatusCode, err, want)
		}
		if want != 200 {
			continue
		}
		for _, l := range []string{"stoplog_up 1", "stoplog_blocks 10", `stoplog_rule_breaches_total{rule="ssh-login"} 10`} {
			if !strings.Contains(string(b), "\n"+l+"\n") {
				t.Errorf("no %s in:\n%s", l, b)
			}
		}
	}
}

// freeAddr is an address that nothing listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
