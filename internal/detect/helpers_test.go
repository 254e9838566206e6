package detect

import (
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).UnixNano()

// after is the instant d after the start of a test's log.
func after(d time.Duration) int64 { return start + int64(d) }

// load reads rules that must be without a mistake.
func load(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, problems := rules.LoadBytes("test.yaml", []byte(text), "")
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p.Error())
		}
	}
	return set
}

// ready is a set of nothing but the named ready rules.
func ready(t testing.TB, names string) *rules.Set {
	t.Helper()
	return load(t, "use: "+names+"\n")
}

// gate is a Gate that blocks, knows and allows what a test says.
type gate struct {
	blocked map[netip.Prefix]span
	allowed []netip.Prefix
	known   map[string]bool // service, user and address
	flags   map[string]bool
	struck  map[netip.Prefix]int64 // when the last block ended
	strikes map[netip.Prefix]int
}

type span struct{ since, until int64 }

func newGate() *gate {
	return &gate{blocked: map[netip.Prefix]span{}, known: map[string]bool{}, flags: map[string]bool{},
		struck: map[netip.Prefix]int64{}, strikes: map[netip.Prefix]int{}}
}

func (g *gate) Verdict(a netip.Addr, service string, user []byte, at int64) Verdict {
	for _, p := range g.allowed {
		if p.Contains(a) {
			return Allowed
		}
	}
	for p, s := range g.blocked {
		if p.Contains(a) && s.since <= at && at < s.until {
			return Blocked
		}
	}
	if g.known[service+" "+string(user)+" "+a.String()] {
		return KnownGood
	}
	return Stranger
}

func (g *gate) KnownAddr(a netip.Addr, service string, at int64) bool {
	for k := range g.known {
		if len(k) > len(a.String()) && k[len(k)-len(a.String())-1:] == " "+a.String() && k[:len(service)] == service {
			return true
		}
	}
	return false
}

func (g *gate) Struck(p netip.Prefix, at int64) (int64, bool) {
	ended, ok := g.struck[p]
	return ended, ok
}

func (g *gate) Flag(name string, at int64) bool { return g.flags[name] }

// obey blocks what the breaches ask for, longer each time by the rule's own
// escalation.
func (g *gate) obey(set *rules.Set, bs []Breach) {
	for _, b := range bs {
		ttl := float64(b.TTL)
		if ttl == 0 {
			ttl = float64(set.Block.TTL)
		}
		for range g.strikes[b.Prefix] {
			ttl *= max(b.Multiply, 1)
		}
		for _, a := range b.Answers {
			if a.Kind == Block && !b.Observe {
				until := b.At + int64(min(ttl, float64(30*24*time.Hour)))
				g.blocked[b.Prefix] = span{b.At, until}
				if b.Multiply > 1 {
					g.struck[b.Prefix] = until
					g.strikes[b.Prefix]++
				}
			}
		}
	}
}

// failure is one failed login.
func failure(at int64, service, user, addr string) *parse.Event {
	return &parse.Event{Time: at, Service: service, Outcome: parse.Failure, User: []byte(user), Addr: netip.MustParseAddr(addr), Count: 1, First: true}
}

func success(at int64, service, user, addr string) *parse.Event {
	ev := failure(at, service, user, addr)
	ev.Outcome = parse.Success
	return ev
}

func unknown(at int64, service, user, addr string) *parse.Event {
	ev := failure(at, service, user, addr)
	ev.Kind = parse.UnknownUser
	return ev
}

func probe(at int64, service, addr string) *parse.Event {
	ev := failure(at, service, "", addr)
	ev.Outcome, ev.Kind, ev.User = parse.Other, parse.Probe, nil
	return ev
}

func request(at int64, addr, method, path string, status uint16) *parse.Event {
	return &parse.Event{Time: at, Service: "http", Addr: netip.MustParseAddr(addr), Count: 1,
		Method: []byte(method), Path: []byte(path), Status: status}
}

var testOrigin = &source.Origin{Name: "auth.log"}

// feed observes events in turn, and returns copies of all breaches.
func feed(e *Engine, g Gate, evs ...*parse.Event) []Breach {
	var out []Breach
	for i, ev := range evs {
		line := &source.Line{Text: []byte("a line"), Number: int64(i + 1)}
		out = append(out, e.Observe(ev, line, testOrigin, g)...)
	}
	return out
}

// repeat makes n failures, step apart, three a connection.
func repeat(n int, step time.Duration, service, user, addr string) []*parse.Event {
	var out []*parse.Event
	for i := range n {
		ev := failure(after(time.Duration(i)*step), service, user, addr)
		ev.First = i%3 == 0
		out = append(out, ev)
	}
	return out
}
