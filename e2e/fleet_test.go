package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/fleet/enginetest"
)

// fleetNode is a stoplog of a fleet, in a dry run, with a log of its own.
type fleetNode struct {
	*plainRun
	name string
	log  *os.File
}

const fleetRules = `
use: []
sources: [{file: %s, service: sshd}]
fleet: {mode: %s}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 10m}
    ttl: 1h
`

// fleetOf makes a fleet with the commands that an administrator uses.
func fleetOf(t *testing.T, e *enginetest.Engine, mode string, size int) (admin string, nodes []*fleetNode) {
	t.Helper()
	admin = filepath.Join(scratch(t), "admin.json")
	stoplogOnce(t, "fleet", "init", e.URL("default", enginetest.Password), "--ca", e.CAFile, "--admin", admin)
	for i := range size {
		nodes = append(nodes, joinFleet(t, admin, fmt.Sprintf("web%d", i), mode))
	}
	for _, n := range nodes {
		n.waitFleet(t, "all to know each other", func(s fleetState) bool { return s.Connected && len(s.Nodes) == size-1 })
	}
	return admin, nodes
}

// stoplogOnce runs a command and returns its standard output.
func stoplogOnce(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command(binary, args...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("stoplog %v: %v: %s", args, err, errs.String())
	}
	return string(out)
}

func joinFleet(t *testing.T, admin, name, mode string) *fleetNode {
	t.Helper()
	token := strings.TrimSpace(stoplogOnce(t, "fleet", "invite", name, "--admin", admin))
	dir := scratch(t)
	log := filepath.Join(dir, "auth.log")
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	n := &fleetNode{plainRun: newPlain(t, fmt.Sprintf(fleetRules, log, mode)), name: name, log: f}
	state := filepath.Join(n.dir, "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	stoplogOnce(t, "fleet", "join", token, "--state", state)
	n.start(t)
	n.out.waitFor(t, "caught up with the logs")
	return n
}

// fail has the log say that the address failed to log in.
func (n *fleetNode) fail(t *testing.T, addr string, user int) {
	t.Helper()
	stamp := time.Now().Format(time.RFC3339Nano)
	if _, err := fmt.Fprintf(n.log, "%s %s sshd[%d]: Failed password for user%d from %s port 4711 ssh2\n", stamp, n.name, 1000+user, user, addr); err != nil {
		t.Fatal(err)
	}
}

// fleetState is what status shows of the fleet.
type fleetState struct {
	Connected bool
	Keys      int
	Decisions int
	Nodes     []struct {
		Name    string
		Refused int
		Why     string
	}
}

func (n *fleetNode) waitFleet(t *testing.T, what string, ok func(fleetState) bool) {
	t.Helper()
	var s struct{ Fleet fleetState }
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		out, err := exec.Command(binary, "--socket", n.socket(), "status", "--json").Output()
		if err == nil && json.Unmarshal(out, &s) == nil && ok(s.Fleet) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: waited in vain for %s: %s", n.name, what, out)
		}
	}
}

func (n *fleetNode) ask(t *testing.T, args ...string) string {
	t.Helper()
	return stoplogOnce(t, append([]string{"--socket", n.socket()}, args...)...)
}

// TestFleet: an attacker with one try a node is blocked on all ten.
func TestFleet(t *testing.T) {
	e := enginetest.Start(t)
	_, nodes := fleetOf(t, e, "on", 10)
	for i := range 5 {
		nodes[i].fail(t, "203.0.113.9", i)
	}
	for _, n := range nodes {
		n.waitFleet(t, "five tries to be known", func(s fleetState) bool { return s.Keys == 1 && s.Decisions == 0 })
	}
	nodes[0].waitFleet(t, "the levels of five nodes", func(fleetState) bool {
		return strings.Contains(nodes[0].ask(t, "explain", "203.0.113.9"), "web0 1, web1 1, web2 1, web3 1, web4 1")
	})
	decided := time.Now()
	nodes[5].fail(t, "203.0.113.9", 5)
	var after []time.Duration
	for _, n := range nodes {
		n.out.waitFor(t, "block", "203.0.113.0/28", "ssh-login")
		after = append(after, time.Since(decided))
	}
	slices.Sort(after)
	t.Logf("the deciding try was blocked on ten nodes within %s, in the median %s", after[9], after[5])
	why := nodes[9].ask(t, "explain", "203.0.113.9")
	for _, want := range []string{"by fleet: ", "web0", "web5: 1 of at most 3 points"} {
		if !strings.Contains(why, want) {
			t.Errorf("explain does not say %q:\n%s", want, why)
		}
	}
	if h := nodes[9].ask(t, "history", "203.0.113.9"); !strings.Contains(h, "fleet: web") {
		t.Errorf("history does not name the nodes:\n%s", h)
	}
	// An unblock here holds here, and what the others said before is void.
	nodes[9].ask(t, "unblock", "203.0.113.9")
	nodes[9].fail(t, "203.0.113.9", 9)
	nodes[9].waitFleet(t, "the new try", func(fleetState) bool { return strings.Contains(nodes[9].ask(t, "explain", "203.0.113.9"), "web9 1") })
	if strings.Contains(nodes[9].ask(t, "list"), "203.0.113.0/28") {
		t.Error("blocked again after an unblock by what was said before it")
	}
}

// TestFleetPartition: five nodes lose the engine for the time of an attack; after
// it is back, all count the union.
func TestFleetPartition(t *testing.T) {
	e := enginetest.Start(t)
	_, nodes := fleetOf(t, e, "observe", 4)
	e.Kill()
	for _, n := range nodes {
		n.waitFleet(t, "the loss to be seen", func(s fleetState) bool { return !s.Connected })
	}
	for i := range 3 {
		nodes[0].fail(t, "203.0.113.9", i)
		nodes[1].fail(t, "203.0.113.10", i)
	}
	// Each goes on alone: its own sixth failure blocks at once.
	for i := range 6 {
		nodes[2].fail(t, "198.51.100.7", i)
	}
	nodes[2].out.waitFor(t, "block", "198.51.100.0/28")
	// The engine is back without its data, its users too: they are in no ACL file.
	e.Restart()
	for _, n := range nodes {
		e.Do(n.acl(t)...)
	}
	for _, n := range nodes {
		n.out.waitFor(t, "breach", "ssh-login", "203.0.113.0/28")
	}
	if strings.Contains(nodes[3].ask(t, "list"), "203.0.113.0/28") {
		t.Error("a fleet that is observed blocks")
	}
}

// acl is the order that makes the node's user on the engine again.
func (n *fleetNode) acl(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "state", "fleet.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Fleet, URL string }
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	user, rest, _ := strings.Cut(strings.TrimPrefix(m.URL, "rediss://"), ":")
	password, _, _ := strings.Cut(rest, "@")
	return []string{"ACL", "SETUSER", user, "reset", "on", ">" + password, "~*", "+@all"}
}

// TestFleetOrders: an operator's order reaches all nodes, and a revoked node is
// not heard.
func TestFleetOrders(t *testing.T) {
	e := enginetest.Start(t)
	admin, nodes := fleetOf(t, e, "on", 3)
	key := filepath.Join(filepath.Dir(admin), "operator.json")
	stoplogOnce(t, "fleet", "operator", "alice", "--admin", admin, "--out", key)
	nodes[0].ask(t, "fleet", "order", "block", "203.0.113.0/24", "--ttl", "1h", "--reason", "abuse report", "--operator", key)
	for _, n := range nodes {
		n.out.waitFor(t, "fleet: order", "203.0.113.0/24", "fleet: alice")
		if l := n.ask(t, "list"); !strings.Contains(l, "203.0.113.0/24") {
			t.Errorf("%s does not block:\n%s", n.name, l)
		}
	}
	nodes[1].ask(t, "fleet", "order", "unblock", "203.0.113.0/24", "--operator", key)
	for _, n := range nodes {
		n.out.waitFor(t, "fleet: order", "unblock", "203.0.113.0/24")
	}
	stoplogOnce(t, "fleet", "revoke", "web2", "--admin", admin)
	for _, n := range nodes[:2] {
		n.waitFleet(t, "the revocation", func(s fleetState) bool { return len(s.Nodes) == 1 })
	}
	if l := stoplogOnce(t, "fleet", "list", "--admin", admin); !strings.Contains(l, "revoked") {
		t.Errorf("the list does not show the revocation:\n%s", l)
	}
	if s := nodes[0].ask(t, "fleet", "status"); !strings.Contains(s, "connected since") || !strings.Contains(s, "web1") {
		t.Errorf("fleet status:\n%s", s)
	}
}

// TestFleetDocs runs the commands of docs/fleet.md.
func TestFleetDocs(t *testing.T) {
	e := enginetest.Start(t)
	b, err := os.ReadFile("../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := scratch(t)
	admin, op := filepath.Join(dir, "admin.json"), filepath.Join(dir, "operator.json")
	nodes := map[string]*fleetNode{}
	var tokens []string
	ran := 0
	for l := range strings.Lines(string(b)) {
		args, ok := strings.CutPrefix(strings.TrimSpace(l), "sudo stoplog fleet ")
		if !ok {
			continue
		}
		ran++
		words := strings.Fields(args)
		switch words[0] {
		case "init":
			stoplogOnce(t, "fleet", "init", e.URL("default", enginetest.Password), "--ca", e.CAFile, "--admin", admin)
		case "invite":
			tokens = append(tokens, words[1])
		case "join":
			for _, name := range tokens {
				nodes[name] = joinFleet(t, admin, name, "on")
			}
		case "order":
			argv := []string{"fleet"}
			for _, w := range words {
				if strings.HasPrefix(w, `"`) || strings.HasSuffix(w, `"`) {
					w = strings.Trim(w, `"`)
					if strings.HasPrefix(argv[len(argv)-1], "abuse") {
						argv[len(argv)-1] += " " + w
						continue
					}
				}
				argv = append(argv, w)
			}
			nodes["web1"].ask(t, append(argv, "--operator", op)...)
			for _, n := range nodes {
				n.out.waitFor(t, "fleet: order", words[1])
			}
		case "operator":
			stoplogOnce(t, "fleet", "operator", words[1], "--admin", admin, "--out", op)
		case "status":
			nodes["web1"].waitFleet(t, "two other nodes", func(s fleetState) bool { return len(s.Nodes) == 2 })
			nodes["web1"].ask(t, "fleet", "status")
		case "list", "revoke":
			stoplogOnce(t, append(append([]string{"fleet"}, words...), "--admin", admin)...)
		default:
			t.Errorf("a command that this test does not know: %s", l)
		}
	}
	if ran < 10 {
		t.Errorf("only %d commands found", ran)
	}
}
