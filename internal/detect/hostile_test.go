package detect

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

const hostileRules = `
sources: [auth]
rules:
  - {name: by-user, match: {outcome: failure}, key: [user, prefix], bucket: {capacity: 0, leak: 1m}, clears: success}
  - {name: by-path, match: {path: "*"}, key: path, bucket: {capacity: 0, leak: 1m}, then: [{flag: f, for: 1s}]}
  - {name: by-param, match: {params: {id: "*"}}, key: [param id, field x], bucket: {capacity: 0, leak: 1m}, then: [{flag: f, for: 1s}]}
  - {name: by-prefix, match: {agent: {regex: "(a+)+b"}}, window: {distinct: path, over: 0, within: 1m}}
`

// Whatever stands in the fields that an outsider chooses, the one blocked is
// the one whose address the event has, and what is shown is text of bounded
// length.
func FuzzObserve(f *testing.F) {
	f.Add([]byte("root"), []byte("/wp-login.php"), []byte("id=1"), []byte("curl"))
	f.Add([]byte("\x00\xff 192.0.2.99/32"), []byte("/%2e%2e/%00"), []byte("id=%zz&id=1"), []byte(strings.Repeat("a", 5000)))
	f.Add([]byte(strings.Repeat("x", 4000)), []byte("//"), []byte("&&=&id"), []byte{})
	set := load(f, hostileRules)
	f.Fuzz(func(t *testing.T, user, path, query, agent []byte) {
		e := New(set, Options{Seed: 5})
		addr := netip.MustParseAddr("192.0.2.1")
		ev := parse.Event{Time: start, Service: "http", Outcome: parse.Failure, Addr: addr, Count: 1,
			User: user, Path: path, Query: query, Agent: agent, Fields: []parse.Field{{Name: "x", Value: user}}}
		line := source.Line{Text: append(append(append([]byte{}, user...), path...), agent...)}
		for range 2 {
			for _, b := range e.Observe(&ev, &line, testOrigin, newGate()) {
				if b.Prefix.IsValid() && b.Prefix != netip.MustParsePrefix("192.0.2.0/28") {
					t.Fatalf("%s blocks %v", b.Rule, b.Prefix)
				}
				if !utf8.ValidString(b.Key) || !utf8.ValidString(b.User) || len(b.Key) > 1000 || len(b.User) > 400 || len(b.Evidence) > maxEvidence {
					t.Fatalf("what is shown is no bounded text: %q", b.Key)
				}
			}
			ev.Time++
		}
		ev.Outcome = parse.Success
		e.Observe(&ev, &line, testOrigin, newGate())
		e.Explain(&ev, testOrigin, newGate())
		e.Forget(netip.MustParsePrefix("192.0.2.0/24"))
		for _, l := range e.Levels(addr, start) {
			if l.Level != 0 {
				t.Fatalf("forgotten, and %s holds %d", l.Rule, l.Level)
			}
		}
	})
}

// Millions of keys do not take more than the limit says.
func TestMemoryIsBounded(t *testing.T) {
	e := New(load(t, sshRule+"limits: {buckets: 1000, evidence: 64KiB}\n"), Options{})
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	for i := range 100_000 {
		a[4], a[5], a[6] = byte(i>>16), byte(i>>8), byte(i)
		ev := failure(after(time.Duration(i)*time.Microsecond), "sshd", fmt.Sprint("user", i), "192.0.2.1")
		ev.Addr = netip.AddrFrom16(a)
		feed(e, newGate(), ev)
	}
	s := e.Stats().Rules[0]
	if s.Keys > 1000 || s.Max != 1000 || s.Evicted == 0 || s.Bytes > 64<<10 {
		t.Errorf("got %+v, want at most 1000 keys in 64 KiB, and evictions told", s)
	}
}

// A bucket one event short of breaching, kept warm, outlives a flood.
func TestFloodDoesNotPushOutWhatIsFilling(t *testing.T) {
	e := New(load(t, sshRule+"limits: {buckets: 1000}\n"), Options{})
	feed(e, newGate(), repeat(5, 0, "sshd", "joe", "192.0.2.1")...)
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	for i := range 100_000 {
		a[4], a[5], a[6] = byte(i>>16), byte(i>>8), byte(i)
		ev := failure(after(time.Duration(i)*100), "sshd", "x", "192.0.2.1")
		ev.Addr = netip.AddrFrom16(a)
		feed(e, newGate(), ev)
	}
	if bs := feed(e, newGate(), failure(after(time.Second), "sshd", "joe", "192.0.2.1")); len(bs) != 1 {
		t.Errorf("got %d breaches, want the sixth failure told", len(bs))
	}
}

func TestRestoreUnderOtherRules(t *testing.T) {
	const text = `
sources: [auth]
rules:
  - {name: a, match: {service: sshd}, bucket: {capacity: 5, leak: 1m}}
  - {name: b, match: {service: %s}, bucket: {capacity: 5, leak: 1m}}
`
	e := New(load(t, fmt.Sprintf(text, "sshd")), Options{})
	feed(e, newGate(), repeat(4, 0, "sshd", "joe", "192.0.2.1")...)
	f := New(load(t, fmt.Sprintf(text, "[sshd, dropbear]")), Options{})
	if err := f.Restore(e.AppendBinary(nil)); err != nil {
		t.Fatal(err)
	}
	ls := f.Levels(netip.MustParseAddr("192.0.2.1"), start)
	if ls[0].Level != 4 || ls[1].Level != 0 {
		t.Errorf("got %d and %d, want 4 of the rule that means the same and 0 of the other", ls[0].Level, ls[1].Level)
	}
}
