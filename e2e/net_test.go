// Package e2e runs the real program against real servers, in network
// namespaces of its own: sshd and nginx from Debian's packages, rsyslogd
// writing the log, the kernel's packet filter, and an attacker next door.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stoplog/internal/testkit"
)

// patience bounds every wait; a healthy run needs a fraction of it, on a busy
// machine too.
const patience = 3 * time.Minute

var binary string // the program under test, built once

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stoplog-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "stoplog")
	c := exec.Command("go", "build", "-o", binary, "stoplog")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
		os.Exit(1)
	}
	// The reader gives up root and must still reach the program.
	_ = os.Chmod(dir, 0o755)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// need skips a test that cannot run here.
func need(t *testing.T, programs ...string) {
	t.Helper()
	testkit.NeedRoot(t)
	testkit.Need(t, append([]string{"ip"}, programs...)...)
}

// host is a network namespace.
type host struct{ ns string }

func (h host) args(argv ...string) []string {
	return append([]string{"netns", "exec", h.ns}, argv...)
}

// try runs a program there and returns what it printed.
func (h host) try(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ip", h.args(argv...)...).CombinedOutput()
	return string(out), err
}

// run is try for what must succeed.
func (h host) run(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := h.try(ctx, argv...)
	if err != nil {
		t.Fatalf("in %s: %s: %v\n%s", h.ns, strings.Join(argv, " "), err, out)
	}
	return out
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

var netCount atomic.Int32

// The addresses of the two hosts. Attacker, Neighbour and Friend share one
// /28 (and one /64); Outsider is beyond it.
const (
	Server    = "192.0.2.1"
	Attacker  = "192.0.2.17"
	Neighbour = "192.0.2.18"
	Friend    = "192.0.2.20"
	Outsider  = "192.0.2.40"

	Server6    = "2001:db8:1::1"
	Attacker6  = "2001:db8:2::17"
	Neighbour6 = "2001:db8:2::18"
	Outsider6  = "2001:db8:3::40"
)

// newNet makes two namespaces joined by a cable: the server's and one that
// holds everybody else.
func newNet(t *testing.T) (server, others host) {
	t.Helper()
	id := fmt.Sprintf("sl%d-%d", os.Getpid()%100000, netCount.Add(1))
	server, others = host{id + "s"}, host{id + "o"}
	for _, h := range []host{server, others} {
		ip(t, "netns", "add", h.ns)
		t.Cleanup(func() {
			_ = exec.Command("ip", "netns", "del", h.ns).Run()
		})
	}
	ip(t, "link", "add", id+"a", "netns", server.ns, "type", "veth", "peer", "name", id+"b", "netns", others.ns)
	for _, a := range []string{Server + "/24", Server6 + "/32"} {
		server.run(t, "ip", "addr", "add", a, "dev", id+"a", "nodad")
	}
	for _, a := range []string{Attacker, Neighbour, Friend, Outsider} {
		others.run(t, "ip", "addr", "add", a+"/24", "dev", id+"b")
	}
	for _, a := range []string{Attacker6, Neighbour6, Outsider6} {
		others.run(t, "ip", "addr", "add", a+"/32", "dev", id+"b", "nodad")
	}
	for h, dev := range map[host]string{server: id + "a", others: id + "b"} {
		h.run(t, "ip", "link", "set", "lo", "up")
		h.run(t, "ip", "link", "set", dev, "up")
	}
	return server, others
}

// reaches reports whether a TCP connection from src to dst's port opens
// within the seconds given.
func (h host) reaches(src, dst, port string, seconds int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := h.try(ctx, "nc", "-z", "-w", fmt.Sprint(seconds), "-s", src, dst, port)
	return err == nil
}

// output collects what a program prints and lets a test wait for a line.
type output struct {
	lines chan string
	all   bytes.Buffer
}

// waitFor returns the first line from now on that holds all the words.
func (o *output) waitFor(t *testing.T, words ...string) string {
	t.Helper()
	return o.await(t, words...)
}

// await is waitFor for benchmarks too.
func (o *output) await(t testing.TB, words ...string) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case l, ok := <-o.lines:
			if !ok {
				t.Fatalf("the program ended before it printed %q; it printed:\n%s", words, o.all.String())
			}
			fmt.Fprintln(&o.all, l)
			if holds(l, words) {
				return l
			}
		case <-timeout:
			t.Fatalf("no line with %q; the program printed:\n%s", words, o.all.String())
		}
	}
}

func holds(l string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(l, w) {
			return false
		}
	}
	return true
}
