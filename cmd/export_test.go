package cmd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/export"
)

// listed is a daemon that blocks and allows a little.
type listed struct{ control.Daemon }

func (listed) List(context.Context) ([]control.Block, error) {
	until := time.Now().Add(time.Hour)
	return []control.Block{{Prefix: "192.0.2.0/29", Until: until, Rule: "ssh-login", Count: 6}, {Prefix: "192.0.2.8/29", Until: until}, {Prefix: "2001:db8::/64", Until: until.Add(time.Hour)}, {Prefix: "198.51.100.0/28", Until: until, Limited: true, Ports: []string{"tcp/22"}}}, nil
}

func (listed) Allowed(context.Context) ([]control.AllowEntry, error) {
	return []control.AllowEntry{{Prefix: "192.0.2.0/30", Origin: "rules"}}, nil
}

// exported runs the command against a daemon.
func exported(t *testing.T, d control.Daemon, args ...string) (out, errs string, status int) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s.sock")
	if d != nil {
		serveOn(t, socket, d)
	}
	var o, e bytes.Buffer
	c := exportCmd(&env{out: &o, errw: &e, socket: socket})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	if err := c.ExecuteContext(t.Context()); err != nil {
		return o.String(), err.Error(), code(err)
	}
	return o.String(), e.String(), exitOK
}

// serveOn answers on the socket for d until the test ends.
func serveOn(t *testing.T, socket string, d control.Daemon) {
	t.Helper()
	l, err := control.Listen(socket, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Serve(ctx, l, d) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestExport(t *testing.T) {
	left := export.LeftOut(1)
	for _, c := range []struct {
		args []string
		want string
		errs string
	}{
		{nil, "# stoplog: 3 prefixes; " + left + "\n192.0.2.4/30\n192.0.2.8/29\n2001:db8::/64\n", "stoplog: " + left + "\n"},
		{[]string{"--all-ports"}, "# stoplog: 4 prefixes\n192.0.2.4/30\n192.0.2.8/29\n198.51.100.0/28\n2001:db8::/64\n", ""},
		{[]string{"--ports", "20-25", "--format", "cidr"}, "192.0.2.4/30\n192.0.2.8/29\n198.51.100.0/28\n2001:db8::/64\n", ""},
		{[]string{"--format", "nginx-deny", "--cap", "-1"}, "# stoplog: 3 prefixes; " + left + "\ndeny 192.0.2.4/30;\ndeny 192.0.2.8/29;\ndeny 2001:db8::/64;\n", "stoplog: " + left + "\n"},
		{[]string{"--format", "cidr", "--cap", "1"}, "2001:db8::/64\n", "stoplog: " + left + "\nstoplog: 2 prefixes were left out because of the cap\n"},
	} {
		out, errs, code := exported(t, listed{}, c.args...)
		if out != c.want || errs != c.errs || code != exitOK {
			t.Errorf("%v: exit %d\n%s%s\nwant\n%s%s", c.args, code, out, errs, c.want, c.errs)
		}
	}
}

func TestExportToFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	for range 2 {
		out, errs, code := exported(t, listed{}, "--format", "cidr", "--file", path)
		b, err := os.ReadFile(path)
		if out != "" || errs != "stoplog: "+export.LeftOut(1)+"\n" || code != exitOK || err != nil || string(b) != "192.0.2.4/30\n192.0.2.8/29\n2001:db8::/64\n" {
			t.Errorf("exit %d, %q, %q; the file: %q, %v", code, out, errs, b, err)
		}
	}
}

func TestExportFails(t *testing.T) {
	for _, c := range []struct {
		name string
		d    control.Daemon
		args []string
		code int
		says string
	}{
		{"no daemon", nil, nil, exitNoDaemon, "no stoplog is running"},
		{"unknown format", listed{}, []string{"--format", "wordstar"}, exitUsage, "nginx-geo"},
		{"bad cap", listed{}, []string{"--cap", "-7"}, exitUsage, "--cap"},
		{"bad ports", listed{}, []string{"--ports", "web"}, exitUsage, "--ports"},
		{"no such directory", listed{}, []string{"--file", "/nonexistent/list"}, exitRuntime, "/nonexistent/list: no such file or directory"},
	} {
		out, errs, code := exported(t, c.d, c.args...)
		if code != c.code || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("%s: exit %d, %q, printed %q; want %d and %q", c.name, code, errs, out, c.code, c.says)
		}
	}
	if help := exportHelp(); !strings.Contains(help, "mikrotik") || !strings.Contains(help, "caddy") {
		t.Errorf("the help does not name all formats:\n%s", help)
	}
}
