package hostsdeny

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

func newDeny(t *testing.T, text string) (*Wall, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts.deny")
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := New(firewall.Options{HostsDeny: path})
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHostsDenyText(t *testing.T) {
	w, path := newDeny(t, "ALL: 203.0.113.1\n")
	p := firewall.Policy{Allow: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.5/32"), netip.MustParsePrefix("192.0.2.8/30"),
		netip.MustParsePrefix("2001:db8::7/128"), netip.MustParsePrefix("198.51.100.0/24"),
	}}
	if err := w.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, e := range []firewall.Entry{
		{Prefix: netip.MustParsePrefix("192.0.2.0/28")},
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Action: firewall.Reject},
		{Prefix: netip.MustParsePrefix("203.0.113.7/32"), Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}}},
		{Prefix: netip.MustParsePrefix("203.0.113.32/28"), Action: firewall.Slow},
		{Prefix: netip.MustParsePrefix("198.51.100.16/28")}, // all of it allowed
	} {
		e.Until = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
			t.Fatal(err)
		}
	}
	want := `ALL: 203.0.113.1
# BEGIN stoplog: written by stoplog, changes between these markers are lost
# change MARK
# stoplog 192.0.2.0/28 until=2030-01-02T03:04:05Z action=drop
ALL: 192.0.2.0/255.255.255.240 EXCEPT 192.0.2.5 192.0.2.8/255.255.255.252
# stoplog 198.51.100.16/28 until=2030-01-02T03:04:05Z action=drop
# stoplog 203.0.113.7/32 until=2030-01-02T03:04:05Z action=drop ports=tcp/22
ALL: 203.0.113.7
# stoplog 203.0.113.32/28 until=2030-01-02T03:04:05Z action=slow
# stoplog 2001:db8::/64 until=2030-01-02T03:04:05Z action=reject
ALL: [2001:db8::]/64 EXCEPT [2001:db8::7]
# END stoplog
`
	if got := strings.Replace(readFile(t, path), w.mark, denyMark+"MARK", 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestHostsDenyOthers puts our part among others' text and takes it out again.
func TestHostsDenyOthers(t *testing.T) {
	for name, text := range map[string]string{
		"absent":               "",
		"plain":                "ALL: 203.0.113.1\n",
		"no line end":          "ALL: 203.0.113.1",
		"goes on":              "ALL: 203.0.113.1, \\\n",
		"goes on, no line end": "ALL: 203.0.113.1, \\",
		"blank lines":          "\n\n\n",
		"carriage returns":     "a: b\r\n",
		"other bytes":          "# \xff\x00 \xfe\n",
		"another stoplog":      "# BEGIN stoplog-2: written by stoplog, changes between these markers are lost\n# END stoplog-2\n",
	} {
		t.Run(name, func(t *testing.T) {
			w, path := newDeny(t, text)
			if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
				got := readFile(t, path)
				if !strings.HasPrefix(got, text) || !strings.Contains(got, "\nALL: 192.0.2.0/255.255.255.240\n") {
					t.Fatalf("with a block: got %q after %q", got, text)
				}
				// What others append later stays too.
				if err := w.Teardown(t.Context()); err != nil {
					t.Fatal(err)
				}
				after, err := os.ReadFile(path)
				if text == "" && os.IsNotExist(err) {
					continue
				}
				if err != nil || string(after) != text {
					t.Fatalf("after Teardown: got %q, %v, want %q", after, err, text)
				}
			}
		})
	}
}

func TestHostsDenyKeepsWhatComesAfter(t *testing.T) {
	w, path := newDeny(t, "before\n")
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("after"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	firewalltest.Block(t, w, "192.0.2.16/28", time.Hour)
	if got := readFile(t, path); !strings.HasSuffix(got, "# END stoplog\nafter") || !strings.Contains(got, "192.0.2.16/255") {
		t.Errorf("got %q", got)
	}
	if err := w.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, path); got != "before\nafter" {
		t.Errorf("after Teardown: got %q", got)
	}
}

func TestHostsDenyOwnerAndMode(t *testing.T) {
	w, path := newDeny(t, "x\n")
	if err := os.Chmod(path, 0o4641); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12, 34); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Chmod(path, 0o2641); err != nil { // chown clears what it must
			t.Fatal(err)
		}
	}
	before, _ := os.Stat(path)
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	after, _ := os.Stat(path)
	if after.Mode() != before.Mode() {
		t.Errorf("mode: got %v, want %v", after.Mode(), before.Mode())
	}
	a, b := after.Sys().(*syscall.Stat_t), before.Sys().(*syscall.Stat_t)
	if a.Uid != b.Uid || a.Gid != b.Gid {
		t.Errorf("owner: got %d:%d, want %d:%d", a.Uid, a.Gid, b.Uid, b.Gid)
	}
	names, _ := os.ReadDir(filepath.Dir(path))
	if len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

func TestHostsDenyUnchangedIsNotWritten(t *testing.T) {
	w, path := newDeny(t, "x\n")
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	before, _ := os.Stat(path)
	for range 2 {
		if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatal(err)
		}
		if err := w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/28")}); err != nil {
			t.Fatal(err)
		}
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("the file was replaced by what it was")
	}
}

func TestHostsDenyRefuses(t *testing.T) {
	begin, end := denyFile{name: "stoplog"}.begin(), denyFile{name: "stoplog"}.end()
	for name, text := range map[string]string{
		"begin without end":  begin + "\nALL: 192.0.2.1\n",
		"end without begin":  "x\n" + end + "\n",
		"two parts":          begin + "\n" + end + "\n" + begin + "\n" + end + "\n",
		"begin within begin": begin + "\n" + begin + "\n" + end + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			w, path := newDeny(t, text)
			if err := w.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Setup: got %v, want an error that names %s", err, path)
			}
			if got := readFile(t, path); got != text {
				t.Errorf("the file changed to %q", got)
			}
		})
	}
	t.Run("symbolic link", func(t *testing.T) {
		w, path := newDeny(t, "")
		other := path + ".other"
		if err := os.WriteFile(other, []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, path); err != nil {
			t.Fatal(err)
		}
		if err := w.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		w, path := newDeny(t, "")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := w.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.Contains(err.Error(), "directory") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

func TestHostsDenyExpire(t *testing.T) {
	past := "# BEGIN stoplog: written by stoplog, changes between these markers are lost\n" +
		"# stoplog 192.0.2.0/28 until=2021-01-02T03:04:05Z action=drop\nALL: 192.0.2.0/255.255.255.240\n# END stoplog\n"
	for name, do := range map[string]func(*Wall) error{
		"Setup":  func(w *Wall) error { return w.Setup(t.Context(), firewall.Policy{}) },
		"Expire": func(w *Wall) error { return w.Expire(t.Context()) },
		"a write": func(w *Wall) error {
			return w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, path := newDeny(t, past)
			if err := do(w); err != nil {
				t.Fatal(err)
			}
			if got := readFile(t, path); strings.Contains(got, "192.0.2.0") {
				t.Errorf("still there: %q", got)
			}
		})
	}
}

// TestHostsDenyExpireKeepsExceptions: at the service's end nobody knows the
// allowlist any more.
func TestHostsDenyExpireKeepsExceptions(t *testing.T) {
	w, path := newDeny(t, "")
	if err := w.Setup(t.Context(), firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32")}}); err != nil {
		t.Fatal(err)
	}
	firewalltest.Block(t, w, "192.0.2.0/28", time.Hour)
	before := readFile(t, path)
	if !strings.Contains(before, "EXCEPT 192.0.2.5\n") {
		t.Fatalf("got %q", before)
	}
	fresh, err := New(firewall.Options{HostsDeny: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, path); got != before {
		t.Errorf("got %q, want %q", got, before)
	}
}

// TestHostsDenyLongLines: libwrap cuts long lines, so that many exceptions
// become pieces instead, which cover the same.
func TestHostsDenyLongLines(t *testing.T) {
	p := netip.MustParsePrefix("198.18.0.0/16")
	var allow []netip.Prefix
	for i := range 200 {
		allow = append(allow, netip.MustParsePrefix(fmt.Sprintf("198.18.%d.7/32", i)))
	}
	lines := denyLines(p, allow)
	if len(lines) < 200 {
		t.Fatalf("got %d lines, want many", len(lines))
	}
	for _, l := range lines {
		if len(l) > maxExcept || strings.Contains(l, "EXCEPT") {
			t.Fatalf("got %q", l)
		}
	}
}

// TestHostsDenyAnotherWriter: what others write meanwhile is not lost.
func TestHostsDenyAnotherWriter(t *testing.T) {
	for _, tc := range []struct {
		writes int
		ok     bool
	}{{1, true}, {2, true}, {3, false}} {
		_, path := newDeny(t, "x\n")
		f := denyFile{path: path, name: "stoplog"}
		writes := 0
		err := f.update(func(denyText) []string {
			if writes < tc.writes {
				writes++
				if err := os.WriteFile(path, []byte(strings.Repeat("theirs\n", writes)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return []string{"ALL: 192.0.2.1"}
		})
		if (err == nil) != tc.ok {
			t.Errorf("%d writes: got %v", tc.writes, err)
		}
		got := readFile(t, path)
		if !strings.HasPrefix(got, strings.Repeat("theirs\n", tc.writes)) || strings.Contains(got, "ALL") != tc.ok {
			t.Errorf("%d writes: got %q", tc.writes, got)
		}
	}
}

func TestHostsDenyTooLarge(t *testing.T) {
	w, path := newDeny(t, "x\n")
	if err := os.Truncate(path, maxDenyFile+1); err != nil {
		t.Fatal(err)
	}
	if err := w.Setup(t.Context(), firewall.Policy{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func FuzzHostsDeny(f *testing.F) {
	d := denyFile{path: "hosts.deny", name: "stoplog"}
	f.Add("")
	f.Add("ALL: 192.0.2.1")
	f.Add(d.begin() + "\n" + d.end() + "\n")
	f.Add("a\\\n" + d.begin() + addedNewline + "\n# stoplog 192.0.2.0/28 until=2030-01-02T03:04:05Z action=drop\nx\n" + d.end() + "\nb")
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := d.parse(s)
		if err != nil {
			return
		}
		if !parsed.marked {
			with := d.render(parsed, []string{"ALL: 192.0.2.1"})
			again, err := d.parse(with)
			if err != nil || len(again.ours) != 1 {
				t.Fatalf("%q became %q: %v", s, with, err)
			}
			if got := d.render(again, nil); got != s {
				t.Fatalf("taken out of %q: got %q, want %q", with, got, s)
			}
			return
		}
		if got := d.render(parsed, parsed.ours); parsed.ours != nil && got != s && got != s+"\n" {
			t.Fatalf("written back: got %q, want %q", got, s)
		}
	})
}
