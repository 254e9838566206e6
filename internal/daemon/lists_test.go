package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/export"
	"stoplog/internal/rules"
)

// freePort is a port of loopback that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fetch asks until somebody answers.
func fetch(t *testing.T, url, header, value string) (int, string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			req.Header.Set(header, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(b)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestLists: the feed, the check and an export file follow each order, and
// leave out who is allowed.
func TestLists(t *testing.T) {
	feedAt, checkAt := freePort(t), freePort(t)
	file := filepath.Join(t.TempDir(), "list.txt")
	x := startDaemon(t, t.TempDir(), quietRules+fmt.Sprintf(`
listen:
  feed: {addr: "%s"}
  check: {addr: "%s", header: X-Real-IP, trusted: ["127.0.0.1"]}
exports:
  - {format: plain, file: %s}
`, feedAt, checkAt, file))
	ctx := context.Background()
	check := func(addr string) int {
		code, _ := fetch(t, "http://"+checkAt+"/check", "X-Real-IP", addr)
		return code
	}
	if code := check("192.0.2.7"); code != http.StatusNoContent {
		t.Errorf("before any block: %d", code)
	}
	x.block(t, "192.0.2.0/28")
	if code := check("192.0.2.7"); code != http.StatusForbidden {
		t.Errorf("blocked: %d", code)
	}
	if _, err := x.c.Allow(ctx, control.Order{Target: "192.0.2.7"}); err != nil {
		t.Fatal(err)
	}
	if code := check("192.0.2.7"); code != http.StatusNoContent {
		t.Errorf("allowed inside a block: %d", code)
	}
	if code, body := fetch(t, "http://"+feedAt+"/blocklist.txt", "", ""); code != 200 || !strings.Contains(body, "192.0.2.8/29") || strings.Contains(body, "192.0.2.7\n") {
		t.Errorf("the feed: %d\n%s", code, body)
	}
	waitFile(t, file, func(text string) bool { return strings.Contains(text, "192.0.2.8/29") })
	if _, err := x.c.Unblock(ctx, control.Order{Target: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if code := check("192.0.2.1"); code != http.StatusNoContent {
		t.Errorf("unblocked: %d", code)
	}
	waitFile(t, file, func(text string) bool { return !strings.Contains(text, "192.0.2.") })
}

// TestLimitedLists: blocks of some ports, and those that slow down, are on the
// lists that can express them or are made for these ports; status and the lists
// count the others. The check refuses at the ports that it guards.
func TestLimitedLists(t *testing.T) {
	feedAt, checkAt, dir := freePort(t), freePort(t), t.TempDir()
	x := startDaemon(t, t.TempDir(), quietRules+fmt.Sprintf(`
firewall: {ports: [tcp/22, 8000-8001]}
listen:
  feed: {addr: "%s"}
  check: {addr: "%s", header: X-Real-IP, trusted: ["127.0.0.1"], ports: [80, 8000], port_header: X-Port}
exports:
  - {format: plain, file: %s/plain}
  - {format: plain, file: %s/any, ports: any}
  - {format: cidr, file: %s/22, ports: [22]}
  - {format: nft, file: %s/nft}
`, feedAt, checkAt, dir, dir, dir, dir))
	x.block(t, "192.0.2.0/28")
	left := export.LeftOut(1)
	for file, want := range map[string]string{"plain": "# stoplog: 0 prefixes; " + left + "\n", "any": "# stoplog: 1 prefixes\n192.0.2.0/28\n", "22": "192.0.2.0/28\n"} {
		waitFile(t, filepath.Join(dir, file), func(text string) bool { return text == want })
	}
	waitFile(t, filepath.Join(dir, "nft"), func(text string) bool {
		return strings.Contains(text, "tcp dport { 22, 8000-8001 } drop") && strings.Contains(text, "192.0.2.0/28")
	})
	for query, listed := range map[string]bool{"": false, "?ports=any": true, "?ports=22": true, "?ports=80": false} {
		if code, body := fetch(t, "http://"+feedAt+"/blocklist.txt"+query, "", ""); code != 200 || strings.Contains(body, "192.0.2.0/28\n") != listed || strings.Contains(body, left) == listed {
			t.Errorf("the feed%s: %d\n%s", query, code, body)
		}
	}
	if code, _ := fetch(t, "http://"+feedAt+"/blocklist.txt?ports=x", "", ""); code != 400 {
		t.Errorf("the feed for no ports: %d, want 400", code)
	}
	if code, _ := fetch(t, "http://"+checkAt+"/check", "X-Real-IP", "192.0.2.7"); code != 403 {
		t.Errorf("the check, which guards 8000: %d, want 403", code)
	}
	st, err := x.c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(append(st.Notes, st.Doors...), "\n"); strings.Count(said, left) != 2 || !strings.Contains(said, dir+"/plain: "+left) {
		t.Errorf("status says:\n%s\nwant the feed and the export to %s/plain", said, dir)
	}
}

func waitFile(t *testing.T, path string, ok func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		b, err := os.ReadFile(path)
		if err == nil && ok(string(b)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s holds %q, %v", path, b, err)
		}
	}
}

// TestBadPlaces: what cannot be opened or written is said, and the rest goes on.
func TestBadPlaces(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	x := startDaemon(t, t.TempDir(), quietRules+fmt.Sprintf(`
listen: {feed: {addr: "%s"}}
exports: [{format: plain, file: /proc/none/list.txt}]
`, taken.Addr()))
	x.block(t, "192.0.2.0/28")
	deadline := time.Now().Add(30 * time.Second)
	for {
		notes := strings.Join(x.status(t).Trouble, "\n")
		if strings.Contains(notes, "/proc/none/list.txt") && strings.Contains(notes, "in use") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("what status tells: %s", notes)
		}
	}
}

// TestListsFollowReload: rules that close some ports only take the blocks that
// stand off the lists, which shut out altogether, and the other way about.
func TestListsFollowReload(t *testing.T) {
	x := startDaemon(t, t.TempDir(), quietRules)
	file := filepath.Join(t.TempDir(), "list")
	x.block(t, "192.0.2.0/28")
	for _, s := range []struct {
		firewall string
		listed   bool
	}{{"{ports: [22]}", false}, {"{action: slow}", false}, {"{action: reject}", true}} {
		if err := x.daemon.ask(t.Context(), func() {
			x.daemon.opt.Load = func() (*rules.Set, []rules.Problem) {
				return rules.LoadBytes("test", []byte(quietRules+"exports: {format: plain, file: "+file+"}\nfirewall: "+s.firewall+"\n"), "")
			}
			x.daemon.reload(time.Now(), "a test")
		}); err != nil {
			t.Fatal(err)
		}
		es, _ := x.daemon.lists.Entries()
		if whole := len(es) == 1 && es[0].Limit == (export.Limit{}); whole != s.listed {
			t.Errorf("reloaded with firewall %s: %+v, want a whole block: %v", s.firewall, es, s.listed)
		}
	}
}
