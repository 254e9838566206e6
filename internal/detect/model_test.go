package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/rules"
)

// rounds is how often a property is tried: more when STOPLOG_SOAK is set.
func rounds(n int) int {
	if os.Getenv("STOPLOG_SOAK") != "" {
		return n * 50
	}
	return n
}

const modelRules = `
sources: [auth]
networks:
  198.51.100.0/24: {prefix: 32, capacity: x3}
rules:
  - name: ssh
    match: {service: sshd, outcome: failure}
    weight: {unknown_user: 2, user: {root: 3}}
    buckets:
      - {capacity: 5, leak: 1m}
      - {capacity: 9, leak: 1h, ttl: 1d, weight: {base: 0, unknown_user: 1}}
  - name: anybody
    match: {outcome: failure, user: {not: [ann, "b*"]}}
    key: [service, user]
    window: {over: 3, within: 10m}
    then: [{flag: f, for: 2s}]
  - name: spray
    match: {service: {not: vsftpd}, outcome: failure}
    key: address
    window: {distinct: user, over: 3, within: 20m}
  - name: web
    match: {method: POST, path: [/login, "/x/*"], status: 4xx}
    bucket: {capacity: 3, leak: 30s}
`

// model is the rules above again, written out by hand with lists of instants.
type model struct {
	at    map[string]int64     // latest instant, by rule and key
	depth map[string]int64     // of buckets, at that instant
	seen  map[string][]instant // of windows
	hush  map[string]int64
}

type instant struct {
	at    int64
	value string
}

func newModel() *model {
	return &model{map[string]int64{}, map[string]int64{}, map[string][]instant{}, map[string]int64{}}
}

func (m *model) observe(ev *parse.Event, g Gate) (out []string) {
	if v := g.Verdict(ev.Addr, ev.Service, ev.User, ev.Time); v == Blocked || v == Allowed {
		return nil
	}
	network := netip.MustParsePrefix("198.51.100.0/24").Contains(ev.Addr)
	bits, room := 28, int64(1)
	if network {
		bits, room = 32, 3
	}
	p, _ := ev.Addr.Prefix(bits)
	user, failed := string(ev.User), ev.Outcome == parse.Failure
	if ev.Service == "sshd" && failed {
		n := int64(1)
		if ev.Kind == parse.UnknownUser {
			n = 2
		}
		if user == "root" {
			n = 3
		}
		fast := m.leak("ssh 0 "+p.String(), ev.Time, n*int64(ev.Count), 5*room, time.Minute)
		slow := int64(0)
		if ev.Kind == parse.UnknownUser {
			slow = m.leak("ssh 1 "+p.String(), ev.Time, int64(ev.Count), 9*room, time.Hour)
		}
		if slow > 0 {
			out = append(out, fmt.Sprintf("ssh 1 %v %d", p, slow))
		} else if fast > 0 {
			out = append(out, fmt.Sprintf("ssh 0 %v %d", p, fast))
		}
	}
	if failed && user != "" && user != "ann" && user[0] != 'b' {
		k := "service=" + ev.Service + " user=" + user
		if n := m.window("anybody "+k, ev.Time, ev.Count, 10*time.Minute, ""); n > 3 && ev.Time >= m.hush[k] {
			m.hush[k] = ev.Time + int64(time.Second)
			out = append(out, fmt.Sprintf("anybody 0 %s %d", k, min(n, 4)))
		}
	}
	if ev.Service != "vsftpd" && failed && user != "" {
		k := netip.PrefixFrom(ev.Addr, 32).String()
		if n := m.window("spray "+k, ev.Time, 1, 20*time.Minute, user); int64(n) > 3*room {
			out = append(out, fmt.Sprintf("spray 0 %s %d", k, n))
		}
	}
	path := string(ev.Path)
	if string(ev.Method) == "POST" && (path == "/login" || len(path) > 2 && path[:3] == "/x/") && ev.Status/100 == 4 {
		if n := m.leak("web "+p.String(), ev.Time, int64(ev.Count), 3*room, 30*time.Second); n > 0 {
			out = append(out, fmt.Sprintf("web 0 %v %d", p, n))
		}
	}
	return out
}

// leak pours n and returns what the bucket holds when that is too much.
func (m *model) leak(k string, at, n, capacity int64, leak time.Duration) int64 {
	now := max(at, m.at[k])
	held := max(m.depth[k]-(now-m.at[k]), 0)
	depth := max(held, min(held+n*int64(leak), (capacity+n)*int64(leak)))
	m.at[k], m.depth[k] = now, depth
	if depth > capacity*int64(leak) {
		return (depth + int64(leak) - 1) / int64(leak)
	}
	return 0
}

// window counts the events, or the different values when value is not "".
func (m *model) window(k string, at int64, n int, within time.Duration, value string) int {
	now := max(at, m.at[k])
	m.at[k] = now
	for range n {
		m.seen[k] = append(m.seen[k], instant{now, value})
	}
	values := map[string]bool{}
	count := 0
	for _, s := range m.seen[k] {
		if s.at > now-int64(within) {
			count++
			values[s.value] = true
		}
	}
	if value != "" {
		return len(values)
	}
	return count
}

func randomEvent(r *rand.Rand, at int64) *parse.Event {
	addrs := []string{"192.0.2.1", "192.0.2.14", "192.0.2.20", "198.51.100.1", "198.51.100.2", "203.0.113.77"}
	users := []string{"ann", "bob", "root", "carol", "dave", "eve", "a longer name than fits"}
	if r.IntN(4) == 0 {
		paths := []string{"/login", "/x/y", "/x", "/", "/%6cogin", "/a/../login"}
		ev := request(at, addrs[r.IntN(len(addrs))], []string{"GET", "POST"}[r.IntN(2)], paths[r.IntN(4)], []uint16{200, 401, 404}[r.IntN(3)])
		return ev
	}
	ev := failure(at, []string{"sshd", "sshd", "vsftpd", "dovecot"}[r.IntN(4)], users[r.IntN(len(users))], addrs[r.IntN(len(addrs))])
	ev.Outcome = []parse.Outcome{parse.Failure, parse.Failure, parse.Failure, parse.Success}[r.IntN(4)]
	if r.IntN(3) == 0 {
		ev.Kind = parse.UnknownUser
	}
	if r.IntN(8) == 0 {
		ev.Count = 1 + r.IntN(4)
	}
	return ev
}

// The engine says what the model says, event by event, over random timelines:
// bursts, gaps, stamps out of order, blocks that stand for a while.
func TestEngineIsTheModel(t *testing.T) {
	set := load(t, modelRules)
	for round := range rounds(150) {
		r := rand.New(rand.NewPCG(7, uint64(round)))
		e, m, g := New(set, Options{Seed: r.Uint64()}), newModel(), newGate()
		at, breaches := start, 0
		for i := range 400 {
			at += r.Int64N(int64(time.Second) << r.IntN(8))
			stamp := at
			if r.IntN(12) == 0 {
				stamp -= r.Int64N(int64(3 * time.Minute))
			}
			ev := randomEvent(r, stamp)
			want := m.observe(ev, g)
			bs := feed(e, g, ev)
			var got []string
			for _, b := range bs {
				got = append(got, fmt.Sprintf("%s %d %s %d", b.Rule, b.Level, b.Key, b.Points))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, event %d: got %q, want %q", round, i, got, want)
			}
			breaches += len(got)
			g.obey(set, bs)
			if r.IntN(50) == 0 {
				e.Sweep(at)
			}
			if r.IntN(100) == 0 {
				e = reborn(t, e, set, r.Uint64())
			}
		}
		if round < 5 && breaches == 0 {
			t.Errorf("round %d: nothing breached, so nothing was compared", round)
		}
	}
}

// reborn saves an engine and restores it into a new one.
func reborn(t *testing.T, e *Engine, set *rules.Set, seed uint64) *Engine {
	t.Helper()
	n := New(set, Options{Seed: seed})
	if err := n.Restore(e.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	return n
}

// Swapping in the same rules under another file, and back, changes nothing.
func TestSwapKeepsWhatMeansTheSame(t *testing.T) {
	set := load(t, modelRules)
	again := load(t, modelRules+`
  - {name: more, match: {outcome: success}, bucket: {capacity: 1, leak: 1s}, mode: observe}
limits: {buckets: 3000}
`)
	for round := range rounds(30) {
		r := rand.New(rand.NewPCG(9, uint64(round)))
		e, f := New(set, Options{Seed: 1}), New(set, Options{Seed: 2})
		at := start
		for i := range 300 {
			at += r.Int64N(int64(time.Second) << r.IntN(8))
			ev := randomEvent(r, at)
			a, b := feed(e, newGate(), ev), feed(f, newGate(), ev)
			b = slices.DeleteFunc(b, func(b Breach) bool { return b.Rule == "more" })
			if len(a) != len(b) {
				t.Fatalf("round %d, event %d: got %d breaches, and %d after a reload", round, i, len(a), len(b))
			}
			if r.IntN(20) == 0 {
				f.Swap([]*rules.Set{set, again}[r.IntN(2)])
			}
		}
	}
}

func TestSwapForgetsWhatMeansAnother(t *testing.T) {
	const text = `
sources: [auth]
rules:
  - {name: r, match: {service: %s}, bucket: {capacity: %d, leak: %s}}
`
	base := []any{"sshd", 5, "1m"}
	for _, c := range []struct {
		name string
		to   []any
		want int // failures until it breaches, after four
	}{
		{"the same", base, 2},
		{"less room", []any{"sshd", 4, "1m"}, 1},
		{"more room", []any{"sshd", 7, "1m"}, 4},
		{"another leak", []any{"sshd", 5, "2m"}, 6},
		{"other lines", []any{"[sshd, dropbear]", 5, "1m"}, 6},
	} {
		e := New(load(t, fmt.Sprintf(text, base...)), Options{})
		feed(e, newGate(), repeat(4, 0, "sshd", "ann", "192.0.2.1")...)
		e.Swap(load(t, fmt.Sprintf(text, c.to...)))
		got := 0
		for i := 1; i < 20 && got == 0; i++ {
			if len(feed(e, newGate(), failure(after(0), "sshd", "ann", "192.0.2.1"))) > 0 {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s: breached after %d more, want %d", c.name, got, c.want)
		}
	}
}

func TestRestoreRefusesDamage(t *testing.T) {
	set := load(t, modelRules)
	e := New(set, Options{})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 200 {
		feed(e, newGate(), randomEvent(r, after(time.Duration(i)*time.Second)))
	}
	saved := e.AppendBinary(nil)
	for n := 0; n < len(saved); n += 1 + len(saved)/500 {
		f := New(set, Options{})
		if err := f.Restore(saved[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for the whole", n, len(saved))
		}
		if ls := f.Fullest(10, start); len(ls) != 0 {
			t.Fatalf("after damage %d buckets are not empty", len(ls))
		}
	}
}

func FuzzRestore(f *testing.F) {
	set := load(f, modelRules)
	e := New(set, Options{})
	feed(e, newGate(), repeat(9, time.Second, "sshd", "carol", "192.0.2.1")...)
	f.Add(e.AppendBinary(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e := New(set, Options{})
		if e.Restore(b) != nil && len(e.Fullest(1, start)) > 0 {
			t.Fatal("damage left counts behind")
		}
		feed(e, newGate(), repeat(9, time.Second, "sshd", "carol", "192.0.2.1")...)
	})
}
