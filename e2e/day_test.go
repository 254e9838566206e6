package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDay squeezes a day into moments: orders, attacks, reloads, rotations,
// kills and flushes by chance, after each of which the ledger, the kernel and
// the exports must agree.
func TestDay(t *testing.T) { testDay(t, 25) }

func TestSoakDay(t *testing.T) {
	if os.Getenv("STOPLOG_SOAK") == "" {
		t.Skip("a long day is part of make soak")
	}
	testDay(t, 500)
}

// day is the state of the test.
type day struct {
	*instance
	log     string
	export  string
	rnd     *rand.Rand
	writers int
	ids     int
}

func testDay(t *testing.T, steps int) {
	need(t, "nft")
	server, _ := newNet(t)
	dir := scratch(t)
	d := &day{log: put(t, filepath.Join(dir, "auth.log"), "", 0o644), export: filepath.Join(dir, "out", "list.json")}
	if err := os.Mkdir(filepath.Dir(d.export), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(d.export), 0o777); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d.rnd = rand.New(rand.NewPCG(seed, 2))
	d.instance = stoplog(t, server, fmt.Sprintf(`
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
allow: ["198.51.100.77"]
block: {ttl: 1h, multiply: 2}
firewall: {backend: nftables}
exports: [{format: json, file: %s}]
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`, d.log, d.export), "-v", "--save-every", "200ms")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stoplog said:\n%s", d.out.all.String())
		}
	})
	moves := []func(*testing.T) string{d.attack, d.attack, d.order, d.order, d.lift, d.reload, d.rotate, d.killed, d.flush}
	for range steps {
		what := moves[d.rnd.IntN(len(moves))](t)
		d.agree(t, what)
	}
}

// place is a /28 that chance chooses; places are few, so that orders meet, and
// apart, so that lists do not merge them.
func (d *day) place() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(100 + d.rnd.IntN(3)), byte(d.rnd.IntN(8) * 32)}), 28)
}

// attack writes six failures; they block their prefix, if it is not blocked.
func (d *day) attack(t *testing.T) string {
	p := d.place()
	a := p.Addr().Next()
	f, err := os.OpenFile(d.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 6 {
		d.ids++
		attempt(t, f, d.ids, a.String())
	}
	d.until(t, "blocked by an attack: "+p.String(), func() bool { return slices.Contains(d.listed(t), p.String()) })
	return "an attack from " + a.String()
}

func (d *day) order(t *testing.T) string {
	p := d.place()
	d.ask(t, "block", p.String(), "--ttl", "2h")
	return "block " + p.String()
}

func (d *day) lift(t *testing.T) string {
	p := d.place()
	d.ask(t, "unblock", p.Addr().String())
	return "unblock " + p.Addr().String()
}

func (d *day) reload(t *testing.T) string {
	d.ask(t, "reload")
	return "reload"
}

func (d *day) rotate(t *testing.T) string {
	d.writers++
	if err := os.Rename(d.log, fmt.Sprintf("%s.%d", d.log, d.writers)); err != nil {
		t.Fatal(err)
	}
	put(t, d.log, "", 0o644)
	return "rotation"
}

func (d *day) killed(t *testing.T) string {
	d.kill(t)
	d.start(t)
	return "kill -9"
}

func (d *day) flush(t *testing.T) string {
	d.run(t, "nft", "flush", "ruleset")
	return "nft flush ruleset"
}

// until polls; what it waits for is told by nobody.
func (d *day) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s; status:\n%s", what, d.ask(t, "status"))
		}
	}
}

// agree waits until the kernel and the export hold what the ledger lists.
func (d *day) agree(t *testing.T, after string) {
	t.Helper()
	var want, kernel, file []string
	for deadline := time.Now().Add(patience); ; {
		want, kernel, file = d.listed(t), d.held(t), d.exported()
		if slices.Equal(want, kernel) && slices.Equal(want, file) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s:\nledger %v\nkernel %v\nexport %v", after, want, kernel, file)
		}
	}
}

func (d *day) listed(t *testing.T) (ps []string) {
	t.Helper()
	for l := range strings.Lines(d.ask(t, "list", "--json")) {
		var b struct{ Prefix string }
		if err := json.Unmarshal([]byte(l), &b); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		ps = append(ps, b.Prefix)
	}
	slices.Sort(ps)
	return ps
}

// held reads the elements of our sets; the set's name tells their length.
func (d *day) held(t *testing.T) (ps []string) {
	t.Helper()
	out := d.run(t, "nft", "-j", "list", "ruleset")
	var all struct {
		Nftables []struct {
			Set *struct {
				Table, Name string
				Elem        json.RawMessage
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("nft -j printed %q: %v", out, err)
	}
	for _, x := range all.Nftables {
		if x.Set == nil || x.Set.Table != "stoplog" || !strings.HasPrefix(x.Set.Name, "v4.28.") {
			continue
		}
		var elems []json.RawMessage
		if len(x.Set.Elem) > 0 {
			if err := json.Unmarshal(x.Set.Elem, &elems); err != nil {
				t.Fatalf("set %s holds %s: %v", x.Set.Name, x.Set.Elem, err)
			}
		}
		for _, text := range elems {
			var e struct{ Elem struct{ Val string } }
			if json.Unmarshal(text, &e) == nil { // the mark has no timeout and is a plain string
				ps = append(ps, e.Elem.Val+"/28")
			}
		}
	}
	slices.Sort(ps)
	return ps
}

// exported reads the file that is kept current. The allowlist is cut out of
// it: the pieces of a block count as the block.
func (d *day) exported() (ps []string) {
	b, err := os.ReadFile(d.export)
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(b)) {
		i := strings.Index(l, `"prefix":"`)
		if i < 0 {
			continue
		}
		text, _, _ := strings.Cut(l[i+len(`"prefix":"`):], `"`)
		p, err := netip.ParsePrefix(text)
		if err != nil {
			continue
		}
		if s := netip.PrefixFrom(p.Addr(), 28).Masked().String(); !slices.Contains(ps, s) {
			ps = append(ps, s)
		}
	}
	slices.Sort(ps)
	return ps
}
