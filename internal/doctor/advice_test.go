package doctor

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/control"
	"stoplog/internal/protect"
	"stoplog/internal/rules"
)

// TestQuote asks a real shell what it makes of a quoted path.
func TestQuote(t *testing.T) {
	for _, s := range []string{"/var/log/auth.log", "/srv/my logs/a.log", "/x/it's", "/x/$(id)", "/x/`id`;rm -rf x", "/x/\"", "/x/*", "/x/\nnew", "", "~root", "/x/ünï", "-n"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("quote(%q) = %s: a shell reads %q %v", s, quote(s), out, err)
		}
	}
	if got := quote("/var/log/auth.log"); got != "/var/log/auth.log" {
		t.Errorf("a plain path became %s", got)
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		addr, prefix string
		want         bool
	}{
		{"192.0.2.1", "192.0.2.0/28", true}, {"192.0.2.16", "192.0.2.0/28", false}, {"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::/64", true}, {"2001:db8:0:1::1", "2001:db8::/64", false}, {"192.0.2.1", "::/0", false}, {"192.0.2.1", "nonsense", false}, {"192.0.2.1", "", false},
	} {
		if got := within(netip.MustParseAddr(c.addr), c.prefix); got != c.want {
			t.Errorf("%s in %q: %v, want %v", c.addr, c.prefix, got, c.want)
		}
	}
}

func TestPeers(t *testing.T) {
	for ssh, want := range map[string]string{
		"": "", "192.0.2.1 1 192.0.2.2 22": "192.0.2.1", "::ffff:192.0.2.1 1 x 22": "192.0.2.1", "fe80::1%eth0 1 x 22": "fe80::1",
		"host.example 1 x 22": "", "127.0.0.1 1 127.0.0.1 22": "", "   ": "", "192.0.2.1\n": "192.0.2.1",
	} {
		d := &doctor{Machine: Machine{Root: t.TempDir(), SSH: ssh, Protect: protect.Finder{}}}
		var got []string
		for _, a := range d.peers() {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %q", ssh, got, want)
		}
	}
}

// TestAllowedWins: a block around an allowed address harms nobody, and the
// protection of an open session is no allowance for later.
func TestAllowedWins(t *testing.T) {
	block := []control.Block{{Prefix: "203.0.113.0/28", Rule: "ssh-login"}}
	for _, c := range []struct {
		name    string
		blocks  []control.Block
		allowed []control.AllowEntry
		want    Severity
	}{
		{"allowed", nil, []control.AllowEntry{{Prefix: "203.0.113.9", Origin: "by hand"}}, OK},
		{"allowed inside a block", block, []control.AllowEntry{{Prefix: "203.0.113.9/32", Origin: "rules"}}, OK},
		{"protected only", nil, []control.AllowEntry{{Prefix: "203.0.113.9", Origin: "protected: ssh peer"}}, Note},
		{"blocked", block, nil, Broken},
		{"another is allowed", block, []control.AllowEntry{{Prefix: "203.0.113.8", Origin: "rules"}}, Broken},
	} {
		m := healthy(t)
		m.SSH = "203.0.113.9 1 2 3"
		m.change(func(f *fake) { f.blocks, f.allowed = c.blocks, c.allowed })
		for _, f := range Examine(t.Context(), *m) {
			if f.Area == "lock-out" && f.Severity != c.want {
				t.Errorf("%s: %+v, want %s", c.name, f, c.want)
			}
		}
	}
}

// TestWithoutDaemonTheRulesAreKnown: before the first start, too, one wants to
// know whether one could be locked out.
func TestWithoutDaemonTheRulesAreKnown(t *testing.T) {
	for peer, want := range map[string]Severity{"192.0.2.10": OK, "203.0.113.9": Note} {
		m := healthy(t)
		m.SSH = peer + " 1 2 3"
		m.Daemon = fake{err: control.ErrNoDaemon}
		for _, f := range Examine(t.Context(), *m) {
			if f.Area == "lock-out" && f.Severity != want {
				t.Errorf("%s: %+v, want %s", peer, f, want)
			}
		}
	}
}

// TestGlobs: what is left out, what is told once, and what is no file.
func TestGlobs(t *testing.T) {
	m := healthy(t)
	log(t, m, "/var/log/app-old.log", 30, "?", now)
	if err := exec.Command("mkfifo", m.path("/var/log/app-pipe.log")).Run(); err != nil {
		t.Fatal(err)
	}
	m.Set.Sources = []rules.Source{
		{Kind: rules.File, Path: "/var/log/app*.log", Exclude: []string{"/var/log/*-old.log"}},
		{Kind: rules.File, Path: "/var/log/app.log"},               // the same again
		{Kind: rules.File, Path: "/var/log/[", Ready: "x"},         // no glob
		{Kind: rules.File, Path: "/srv/ready/*.log", Ready: "web"}, // not installed: nothing to tell
	}
	var got []string
	for _, f := range Examine(t.Context(), *m) {
		if f.Area == "logs" {
			got = append(got, string(f.Severity)+" "+f.Found)
		}
	}
	if want := "ok /var/log/app.log: 30 of the last 30 lines understood"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q alone", got, want)
	}
}

// TestUnreadable: root is told to mend it, others that they may not look.
func TestUnreadable(t *testing.T) {
	for _, c := range []struct {
		euid int
		want Severity
	}{{0, Broken}, {1000, Note}} {
		d := &doctor{Machine: Machine{EUID: c.euid}}
		_, err := tail(filepath.Join(t.TempDir(), "none"))
		if err == nil {
			t.Fatal("a file that is not there was read")
		}
		d.unreadable("/var/log/x", permission{})
		if d.found[0].Severity != c.want {
			t.Errorf("user %d: %+v, want %s", c.euid, d.found[0], c.want)
		}
	}
}

type permission struct{}

func (permission) Error() string   { return "open /var/log/x: permission denied" }
func (permission) Is(e error) bool { return e.Error() == "permission denied" }
