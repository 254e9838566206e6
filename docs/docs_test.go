package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// TestGenerated: what is made from the code is as the code says now.
func TestGenerated(t *testing.T) {
	for name, want := range Generated() {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what the code says now; make docs", name)
		}
	}
}

// pages are all pages that people read.
func pages(t *testing.T) []string {
	t.Helper()
	top, _ := filepath.Glob("../*.md")
	here, _ := filepath.Glob("*.md")
	if len(top) == 0 || len(here) == 0 {
		t.Fatal("no pages were found")
	}
	return append(top, here...)
}

// snippet is a fenced block of a page.
type snippet struct {
	page, kind, text string
	line             int
	why              string // why it is not tried, by a comment above it
}

var noTest = regexp.MustCompile(`^<!-- no test: (.+) -->$`)

// snippets are the fenced blocks of all pages. A comment "no test: why" above
// one says that it cannot be tried here, and why.
func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		why, in := "", (*snippet)(nil)
		for i, line := range strings.Split(string(b), "\n") {
			kind, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
			switch {
			case fence && in == nil:
				in = &snippet{page: page, kind: kind, line: i + 1, why: why}
			case fence:
				all, in, why = append(all, *in), nil, ""
			case in != nil:
				in.text += line + "\n"
			case noTest.MatchString(line):
				why = noTest.FindStringSubmatch(line)[1]
			case line != "":
				why = ""
			}
		}
		if in != nil {
			t.Errorf("%s:%d: this block has no end", page, in.line)
		}
	}
	return all
}

// TestYAML: every snippet of rules is without a mistake.
func TestYAML(t *testing.T) {
	n := 0
	for _, s := range snippets(t) {
		if s.kind != "yaml" || s.why != "" {
			continue
		}
		n++
		text := s.text
		set, problems := rules.LoadBytes("snippet", []byte(text), "/etc/stoplog")
		if set == nil && complains(problems, "notify") && !strings.Contains(text, "\nnotify:") {
			// Rules may name somebody to tell whom another snippet shows.
			text += "\nnotify: {ops: {exec: [/bin/true]}}\n"
			set, problems = rules.LoadBytes("snippet", []byte(text), "/etc/stoplog")
		}
		if set == nil {
			t.Errorf("%s:%d: %v", s.page, s.line, problems)
		}
	}
	if n < 3 {
		t.Errorf("%d snippets of rules were found", n)
	}
}

func complains(ps []rules.Problem, of string) bool {
	for _, p := range ps {
		if strings.Contains(p.Msg, of) {
			return true
		}
	}
	return false
}

var linkRE = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// TestLinks: what pages point to is there.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linkRE.FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s points to %s: %v", page, m[1], err)
			}
		}
	}
}

var backedRE = regexp.MustCompile("`([a-z0-9/]+): ((?:Test|Fuzz)\\w+)`")

// TestSecurityIsBacked: each line of SECURITY.md's tables names a test, and
// each of these is there.
func TestSecurityIsBacked(t *testing.T) {
	b, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	rows := 0
	for i, line := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what") || strings.HasPrefix(line, "| attack |") || strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		tests := backedRE.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("SECURITY.md:%d: no test backs this line", i+1)
		}
		for _, m := range tests {
			if _, ok := code[m[1]]; !ok {
				code[m[1]] = testCode(t, m[1])
			}
			if !strings.Contains(code[m[1]], "func "+m[2]+"(") {
				t.Errorf("SECURITY.md:%d: there is no %s in %s", i+1, m[2], m[1])
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d lines were found", rows)
	}
}

func testCode(t *testing.T, dir string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// TestShell runs the commands of all pages, where nothing can come of it: in
// a network of its own, and on copies of /etc, /var and /run that go away.
// There a daemon with the built-in rules runs already, so `stoplog run` only
// has its flags checked; make and go only tell what they would do.
func TestShell(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a daemon")
	}
	box := newSandbox(t)
	n := 0
	for _, s := range snippets(t) {
		if s.kind != "sh" || s.why != "" {
			continue
		}
		for i, line := range commands(s.text) {
			n++
			if out, err := box.run(line); err != nil {
				t.Errorf("%s:%d: command %d, %s: %v\n%s", s.page, s.line, i+1, line, err, out)
			}
		}
	}
	if n < 5 {
		t.Errorf("%d commands were found", n)
	}
}

// commands are the lines of a snippet, continued ones joined, without comments.
func commands(text string) (out []string) {
	for _, l := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
			out = append(out, l)
		}
	}
	return out
}

// sandbox is a place where commands of root change nothing outside.
type sandbox struct {
	pid, dir string
}

const boxScript = `set -e
mount -t tmpfs tmpfs "$1"
for d in etc var run; do
	mkdir -p "$1/up/$d" "$1/work/$d" "$1/low/$d"
	mount -t overlay overlay -o "lowerdir=/$d,upperdir=$1/up/$d,workdir=$1/work/$d" "/$d"
done
ip link set lo up
mkdir -p /etc/stoplog /var/log
rm -rf /var/lib/stoplog /run/stoplog /etc/stoplog/*
date=$(date -u +%Y-%m-%dT%H:%M:%SZ)
echo "$date host sshd[7]: Failed password for bob from 203.0.113.50 port 4000 ssh2" >/var/log/auth.log
exec "$2" run --since 1h
`

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "needs root"
	}
	for _, p := range []string{"unshare", "nsenter", "ip", "nft"} {
		if _, err := exec.LookPath(p); err != nil {
			why = "needs the program " + p
		}
	}
	if why != "" {
		if os.Getenv("STOPLOG_REQUIRE_KERNEL_TESTS") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "stoplog-docs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	programs(t, dir)
	box := filepath.Join(dir, "box")
	if err := os.Mkdir(box, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "-n", "-m", "sh", "-c", boxScript, "sh", box, filepath.Join(dir, "real", "stoplog"))
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := sandbox{fmt.Sprint(c.Process.Pid), dir}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() { c.Process.Kill() })
	deadline := time.After(60 * time.Second)
	for {
		if _, err := s.run("stoplog status"); err == nil {
			return s
		}
		select {
		case err := <-ended:
			t.Fatalf("the daemon ended: %v\n%s", err, said.String())
		case <-deadline:
			t.Fatalf("the daemon does not answer\n%s", said.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// programs are what commands of the pages find: the program, and stand-ins
// for what must not be done here.
func programs(t *testing.T, dir string) {
	t.Helper()
	real := filepath.Join(dir, "real", "stoplog")
	c := exec.Command("go", "build", "-o", real, "stoplog")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	repo, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bin/go":      `cmd=$1; shift; case $cmd in generate) exec ` + tool + ` -C ` + repo + ` generate -n "$@" ;; *) exec ` + tool + ` -C ` + repo + ` list "$@" ;; esac`,
		"bin/stoplog": `case $1 in run) exec ` + real + ` "$@" --help >/dev/null ;; *) exec ` + real + ` "$@" ;; esac`,
		"bin/sudo":    `exec "$@"`,
		"bin/make":    `exec /usr/bin/make -n -C ` + repo + ` "$@"`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// In a clone the program is ./stoplog.
	if err := os.Symlink("bin/stoplog", filepath.Join(dir, "stoplog")); err != nil {
		t.Fatal(err)
	}
}

func (s sandbox) run(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "nsenter", "-t", s.pid, "-n", "-m", "sh", "-c", "cd "+s.dir+" && "+line)
	c.Env = append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "NO_COLOR=1")
	out, err := c.CombinedOutput()
	return string(out), err
}
