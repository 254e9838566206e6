package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stoplog/internal/control"
)

// TestTerminal: a character device is no terminal, a pseudo-terminal is one.
func TestTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	if isTerminal(null) || isTerminal(&strings.Builder{}) || !isTerminal(pty) {
		t.Errorf("terminals: %s %v, a builder %v, a pty %v; want only the pty", os.DevNull, isTerminal(null), isTerminal(&strings.Builder{}), isTerminal(pty))
	}
}

func TestPaint(t *testing.T) {
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pty.Close()
	for _, c := range []struct {
		color    colorMode
		out      io.Writer
		no, term string
		want     bool
	}{
		{"auto", pty, "", "xterm", true},
		{"auto", pty, "1", "xterm", false},
		{"auto", pty, "", "dumb", false},
		{"auto", io.Discard, "", "xterm", false},
		{"always", io.Discard, "1", "dumb", true},
		{"never", pty, "", "xterm", false},
	} {
		t.Setenv("NO_COLOR", c.no)
		t.Setenv("TERM", c.term)
		e := &env{out: c.out, screen: screenFlags{color: c.color}}
		if got := e.paint(); got != c.want {
			t.Errorf("%+v: coloured %v", c, got)
		}
	}
	if err := new(colorMode).Set("pink"); err == nil {
		t.Error("--color pink is taken")
	}
}

func TestPager(t *testing.T) {
	for _, c := range []struct {
		own, common string
		want        []string
	}{
		{"", "", []string{"less"}},
		{"", "more -d", []string{"more", "-d"}},
		{"most", "more", []string{"most"}},
		{"cat", "more", nil},
		{"", "cat", nil},
	} {
		got := pager(func(name string) string {
			return map[string]string{"STOPLOG_PAGER": c.own, "PAGER": c.common}[name]
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("STOPLOG_PAGER=%q PAGER=%q: %q, want %q", c.own, c.common, got, c.want)
		}
	}
	var out strings.Builder
	e := &env{out: &out, screen: screenFlags{color: "never"}}
	if err := e.page(t.Context(), []string{"/nonexistent/pager"}, "text\n"); err != nil || out.String() != "text\n" {
		t.Errorf("without its pager: %v, %q", err, out.String())
	}
}

// living answers completions.
type living struct{ control.Daemon }

func (living) Find(context.Context, control.BlockQuery) (control.BlockPage, error) {
	return control.BlockPage{Blocks: []control.Block{{Prefix: "192.0.2.0/28", Rule: "ssh-login"}}}, nil
}
func (living) Status(context.Context) (control.Status, error) {
	return control.Status{RuleStats: []control.RuleStatus{{Name: "ssh-login"}}}, nil
}
func (living) Flags(context.Context) ([]control.FlagEntry, error) {
	return []control.FlagEntry{{Name: "captcha"}}, nil
}
func (living) Allowed(context.Context) ([]control.AllowEntry, error) {
	return []control.AllowEntry{{Prefix: "198.51.100.7/32", Origin: "by hand"}, {Prefix: "127.0.0.0/8", Origin: "rules"}}, nil
}

// TestComplete asks the program as a shell does.
func TestComplete(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s.sock")
	serveOn(t, socket, living{})
	t.Setenv(socketEnv, socket)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"unblock", ""}, "192.0.2.0/28\tssh-login\n:4\n"},
		{[]string{"explain", ""}, "192.0.2.0/28\tssh-login\n:4\n"},
		{[]string{"history", ""}, "192.0.2.0/28\tssh-login\n:4\n"},
		{[]string{"history", "192.0.2.7", ""}, ":4\n"},
		{[]string{"status", ""}, "ssh-login\n:4\n"},
		{[]string{"list", "--rule", ""}, "ssh-login\n:4\n"},
		{[]string{"flag", "clear", ""}, "captcha\n:4\n"},
		{[]string{"allow", "remove", ""}, "198.51.100.7/32\n:4\n"},
		{[]string{"list", "--color", ""}, "auto\nalways\nnever\n:4\n"},
		{[]string{"list", "--sort", "c"}, "count\n:4\n"},
		{[]string{"export", "--format", "ngin"}, "nginx"},
		{[]string{"parse", "--service", "ssh"}, "sshd\n"},
	} {
		var out strings.Builder
		status := execute(t.Context(), &env{out: &out, errw: io.Discard, in: strings.NewReader("")}, append([]string{"__complete"}, c.args...))
		if status != 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q completes to %q (status %d), want %q", c.args, out.String(), status, c.want)
		}
	}
}

func TestBarsFit(t *testing.T) {
	as := []count{{Name: strings.Repeat("x", 30), Blocks: 9}, {Name: "y", Blocks: 3}}
	for _, columns := range []int{0, 80, 100, 200} {
		var b strings.Builder
		if err := printReport(&b, tally{Rules: as, Days: []dayCount{{Day: "2026-11-22", Blocks: 9}}}, columns); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(l, "\n"))); columns > 80 && n > columns {
				t.Errorf("%d columns: a line of %d: %q", columns, n, l)
			}
		}
	}
	if got := fmt.Sprint(room(80, 40, 10, 6, 8, 4), room(30, 40, 10, 6, 8, 4), room(0, 40, 10)); got != "40 1 40" {
		t.Errorf("room: %s", got)
	}
}
