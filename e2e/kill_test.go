package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plainRun is a stoplog without walls, in the machine's own namespace.
type plainRun struct {
	dir, config string
	cmd         *exec.Cmd
	out         *output
	ended       chan struct{}
	extra       []string // more arguments
}

func newPlain(t *testing.T, rules string) *plainRun {
	t.Helper()
	p := &plainRun{dir: scratch(t)}
	p.config = put(t, filepath.Join(p.dir, "rules.yaml"), rules, 0o644)
	t.Cleanup(func() {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return p
}

func (p *plainRun) socket() string { return filepath.Join(p.dir, "s", "s.sock") }

// start runs it and returns at once.
func (p *plainRun) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(binary, "run", "--dry-run", "--config", p.config, "--state", filepath.Join(p.dir, "state"),
		"--flags", filepath.Join(p.dir, "flags"), "--socket", p.socket(), "--save-every", "100ms", "--user", "nobody")
	if os.Geteuid() != 0 {
		cmd.Args = cmd.Args[:len(cmd.Args)-2]
	}
	cmd.Args = append(cmd.Args, p.extra...)
	p.launch(t, cmd)
}

// launch starts cmd and collects what it prints.
func (p *plainRun) launch(t testing.TB, c *exec.Cmd) {
	t.Helper()
	p.cmd = c
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = &output{lines: make(chan string, 200000)}
	out, cmd, ended := p.out, p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			out.lines <- s.Text()
		}
		close(out.lines)
	}()
	go func() {
		_ = cmd.Wait()
		w.Close()
		close(ended)
	}()
}

func (p *plainRun) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *plainRun) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"--socket", p.socket()}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// facts are what must be the same after any number of kills: each block with
// its times and count, and each block told of in the audit trail, once.
func (p *plainRun) facts(t *testing.T) []string {
	t.Helper()
	var fs []string
	for l := range strings.Lines(p.ask(t, "list", "--json")) {
		var b struct {
			Prefix, Rule, Since, Until string
			Count, Strikes             int
		}
		if err := json.Unmarshal([]byte(l), &b); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		fs = append(fs, fmt.Sprintf("list %s %s %s %s %d strikes %d", b.Prefix, b.Rule, b.Since, b.Until, b.Count, b.Strikes))
	}
	for l := range strings.Lines(p.ask(t, "history", "--json", "--limit", "10000")) {
		var a struct {
			What, Prefix, Rule, TTL string
			Count                   int
		}
		if err := json.Unmarshal([]byte(l), &a); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		fs = append(fs, fmt.Sprintf("audit %s %s %s %s %d", a.What, a.Prefix, a.Rule, a.TTL, a.Count))
	}
	slices.Sort(fs)
	return fs
}

const killRules = `
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 1h, multiply: 4, max: 30d}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    buckets:
      - {capacity: 5, leak: 1m}
      - {capacity: 9, leak: 12h, ttl: 7d}
`

// TestKill compares a run that is killed at random instants with one that is
// not: no block lost, none doubled.
func TestKill(t *testing.T) { testKill(t, 5) }

func TestSoakKill(t *testing.T) {
	if os.Getenv("STOPLOG_SOAK") == "" {
		t.Skip("two hundred kills are part of make soak")
	}
	testKill(t, 200)
}

func testKill(t *testing.T, kills int) {
	dir := scratch(t)
	log := put(t, filepath.Join(dir, "auth.log"), "", 0o644)
	rules := fmt.Sprintf(killRules, log)
	calm, harried := newPlain(t, rules), newPlain(t, rules)
	for _, p := range []*plainRun{calm, harried} {
		p.start(t)
		p.out.waitFor(t, "caught up")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := range kills {
		// Lines land before, during and after the kill, which comes at an
		// instant that chance chooses.
		fail(t, f, rnd, n, 20+rnd.IntN(200))
		delay := time.Duration(rnd.IntN(40)) * time.Millisecond
		time.Sleep(delay) // not to wait for anything: the instant is the test's input
		harried.kill()
		fail(t, f, rnd, n, rnd.IntN(50))
		harried.start(t)
		if rnd.IntN(3) == 0 {
			harried.out.waitFor(t, "caught up")
		}
	}
	for i := range 6 {
		attempt(t, f, 1000000+i, "198.51.100.200")
	}
	for _, p := range []*plainRun{calm, harried} {
		p.out.waitFor(t, "prefix=198.51.100.192/28")
	}
	want, got := calm.facts(t), harried.facts(t)
	if len(want) < kills/2 {
		t.Fatalf("only %d facts: the test blocks nothing", len(want))
	}
	if !slices.Equal(want, got) {
		t.Errorf("after %d kills:\n%s", kills, difference(want, got))
	}
}

// fail writes failed logins of random attackers, each line at once.
func fail(t *testing.T, f *os.File, rnd *rand.Rand, round, lines int) {
	t.Helper()
	for i := range lines {
		attempt(t, f, round*1000+i, fmt.Sprintf("203.0.%d.%d", rnd.IntN(64), rnd.IntN(256)))
	}
}

func attempt(t *testing.T, f *os.File, id int, addr string) {
	t.Helper()
	_, err := fmt.Fprintf(f, "%s host sshd[%d]: Failed password for root from %s port 4000 ssh2\n", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"), id, addr)
	if err != nil {
		t.Fatal(err)
	}
}

func difference(want, got []string) string {
	var b strings.Builder
	for _, w := range want {
		if !slices.Contains(got, w) {
			b.WriteString("lost    " + w + "\n")
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			b.WriteString("new     " + g + "\n")
		}
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "the same facts, %d against %d times\n", len(want), len(got))
	}
	return b.String()
}
