package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const listenRules = `
use: []
sources: [{file: %s, service: sshd}]
%s
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`

// TestPageListener: an address that is taken is told of and ends nothing; a
// reload puts the page elsewhere, on a socket too, and takes it away.
func TestPageListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p := newPlain(t, fmt.Sprintf(listenRules, auth, "listen: {page: {addr: "+taken.Addr().String()+"}}"))
	p.start(t)
	p.out.waitFor(t, "the page: listen tcp", "address already in use")
	if s := p.ask(t, "status"); !strings.Contains(s, "address already in use") {
		t.Errorf("status does not tell:\n%s", s)
	}
	sock := filepath.Join(p.dir, "s", "page.sock")
	put(t, p.config, fmt.Sprintf(listenRules, auth, "listen: {page: {addr: "+sock+"}}"), 0o644)
	p.ask(t, "reload")
	p.out.waitFor(t, "msg=page", "listening="+sock)
	if fi, err := os.Stat(sock); err != nil || fi.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v; want mode 0660", fi.Mode(), err)
	}
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	}}}
	for url, want := range map[string]int{"http://localhost/login": 200, "http://evil.example/login": 421} {
		r, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", url, r.StatusCode, want)
		}
	}
	c.CloseIdleConnections()
	put(t, p.config, fmt.Sprintf(listenRules, auth, ""), 0o644)
	p.ask(t, "reload")
	waitGone(t, sock)
}
