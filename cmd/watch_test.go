//go:build unix

package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watchLog has one line of each kind that watch tells apart, and one that
// would recolour the screen.
const watchLog = "Nov 22 16:20:01 host sshd[100]: Failed password for root from 192.0.2.7 port 5022 ssh2\n" +
	"Nov 22 16:20:02 host sshd[101]: Failed password for invalid user admin from 192.0.2.7 port 5023 ssh2\n" +
	"Nov 22 16:20:03 host sshd[102]: Accepted password for joe from 198.51.100.4 port 5024 ssh2\n" +
	"Nov 22 16:20:04 host cron[7]: hello\n" +
	"Nov 22 16:20:05 host my-app[8]: tenant=acme wrong code from 203.0.113.8\n" +
	`192.0.2.9 - - [22/Nov/2026:16:20:06 +0000] "GET /nothing HTTP/1.1" 404 5 "-" "curl"` + "\n" +
	"Nov 22 16:20:07 host sshd[109]: Failed password for \x1b[31mx\x07 from 192.0.2.77 port 5022 ssh2\n"

// watchRules have a rule of the user's own.
const watchRules = `
use: [ssh]
sources: [auth]
rules:
  - name: my-app
    pattern: 'tenant=(?P<tenant>\S+) wrong code from (?P<ip>\S+)'
    programs: [my-app]
    bucket: {capacity: 0, leak: 1m}
    mode: observe
`

// startWatch runs the program with the built-in rules, or with watchRules as
// rules.yaml of its folder.
func startWatch(t *testing.T, dir, stdin string, args ...string) *exec.Cmd {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(watchRules), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "stoplog", append([]string{"watch", "--config", "rules.yaml", "--zone", "UTC"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "EXAMPLE="+example(t), "TZ=UTC")
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	return cmd
}

// TestWatchShowsEvents: what comes through a pipe is shown with its address,
// user and rules, as the filters ask, and the end of the pipe ends it.
func TestWatchShowsEvents(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string // the parts that the shown lines begin with, in order
	}{
		{nil, []string{
			"16:20:01 failure sshd       192.0.2.7       root     [ssh-login]", "16:20:02 failure sshd       192.0.2.7       admin    [ssh-login ssh-names]",
			"2026-", "2026-", // what the rules would do
			"16:20:03 success sshd       198.51.100.4    joe ", "16:20:05 failure my-app     203.0.113.8     -        [my-app]", "2026-11-22 16:20:05 UTC  observe 203.0.113.0/28",
			"16:20:06 other   http       192.0.2.9 ", `16:20:07 failure sshd       192.0.2.77      \x1b[31mx\x07`}},
		{[]string{"--outcome", "success"}, []string{"16:20:03 success"}},
		{[]string{"--service", "http,my-app", "--rule", "my-app"}, []string{"16:20:05 failure my-app", "2026-"}},
		{[]string{"--match", "{fields: {tenant: ac*}}"}, []string{"16:20:05", "2026-"}},
		{[]string{"--match", "{status: 404}", "--all"}, []string{"Nov 22 16:20:01", "Nov 22 16:20:02", "Nov 22 16:20:03", "Nov 22 16:20:04 host cron", "Nov 22 16:20:05", "16:20:06 other", "Nov 22 16:20:07"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			out, err := startWatch(t, t.TempDir(), watchLog, c.args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(string(out), "\x1b\x07") {
				t.Errorf("a line reached the terminal as it is:\n%q", out)
			}
			got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			for i := range max(len(got), len(c.want)) {
				if i >= len(got) || i >= len(c.want) || !strings.HasPrefix(got[i], c.want[i]) {
					t.Fatalf("line %d: want\n%s\ngot\n%s", i+1, strings.Join(c.want, "\n"), out)
				}
			}
		})
	}
}

// TestWatchJSON: each line is an object of its own, hostile text included.
func TestWatchJSON(t *testing.T) {
	out, err := startWatch(t, t.TempDir(), watchLog, "--json", "--all").Output()
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	n := 0
	for line := range strings.Lines(string(out)) {
		var got struct {
			Text  string
			Rules []string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if rules = append(rules, got.Rules...); got.Text != "" {
			n++
		}
	}
	if got := strings.Join(rules, " "); n != 7 || got != "ssh-login ssh-login ssh-names my-app ssh-login" {
		t.Errorf("%d texts, counted by %s:\n%s", n, got, out)
	}
}

// TestWatchFollows: files are followed through a rotation, and ^C ends it with
// exit code 0.
func TestWatchFollows(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "auth.log")
	write := func(user string) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("Nov 22 16:20:01 host sshd[100]: Failed password for " + user + " from 192.0.2.7 port 5022 ssh2\n"); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	cmd := startWatch(t, dir, "", "--since", "2020-01-01", log)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(pipe)
	next := func(user string) {
		t.Helper()
		for out.Scan() {
			if strings.Contains(out.Text(), " 192.0.2.7       "+user) {
				return
			}
		}
		t.Fatalf("the line of %s was not shown", user)
	}
	next("one")
	write("two")
	next("two")
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	write("three")
	next("three")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("^C: %v", err)
	}
}

// TestWatchRefuses: a filter that can never match is a mistake.
func TestWatchRefuses(t *testing.T) {
	for _, args := range [][]string{{"--rule", "nope"}, {"--outcome", "bad"}, {"--match", "{statsu: 404}"}, {"--match", ""}, {"--since", "yesterday"}, {"-", "x"}} {
		want := exitUsage
		if args[0] == "--match" && args[1] == "" {
			want = exitOK // as if it were left out
		}
		cmd := startWatch(t, t.TempDir(), "x\n", args...)
		cmd.Stderr = nil
		if _ = cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%q: exit %d, want %d", args, cmd.ProcessState.ExitCode(), want)
		}
	}
}
