package fleet

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"
)

var (
	day     = 24 * time.Hour
	meaning = MeaningOf("ssh-login")
	minute  = int64(time.Minute)
	noon    = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	source  = netip.MustParsePrefix("192.0.2.0/28")
	login   = Shared{Rule: "ssh-login", Capacity: 5, Leak: 10 * time.Minute, Bits4: 28, Bits6: 64, TTL: time.Hour}
)

// test is a fleet with an administrator, an operator and some nodes.
type test struct {
	admin   *Admin
	op      *Operator
	members map[string]*Member
	seq     map[string]uint64
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newFleet(names ...string) *test {
	f := &test{admin: must(Create("redis://127.0.0.1")), members: map[string]*Member{}, seq: map[string]uint64{}}
	f.op = must(f.admin.Operator("alice"))
	for _, name := range names {
		tok := must(f.admin.Invite(name, "redis://127.0.0.1", time.Now().Add(day)))
		f.members[name] = must(must(ParseToken(tok.String())).Join(time.Now()))
	}
	return f
}

func (f *test) state(l Limits) *State {
	s := NewState(f.admin.Fleet, f.admin.Public(), l)
	s.SetShared(map[Meaning]Shared{meaning: login})
	return s
}

// entry is what a node says next.
func (f *test) entry(node string, ls ...Level) *Entry {
	f.seq[node]++
	return &Entry{Node: node, Version: Version{1, f.seq[node]}, Made: noon, Levels: ls}
}

func (f *test) order(kind OrderKind, p netip.Prefix, at int64) *Order {
	o := &Order{Kind: kind, Prefix: p, At: at}
	f.op.Sign(o)
	return o
}

// level is a bucket with n points at an instant.
func level(p netip.Prefix, at int64, n int) Level {
	return Level{Meaning: meaning, Prefix: p, At: at, Empty: at + int64(n)*int64(login.Leak)}
}

func TestTwoNodesDecideTogether(t *testing.T) {
	f := newFleet("web1", "web2")
	s := f.state(Limits{})
	if r := s.Apply(f.entry("web1", level(source, noon, 5)), noon, true); len(r.Decisions) != 0 {
		t.Errorf("one node alone decided: %+v", r.Decisions)
	}
	if r := s.Apply(f.entry("web2", level(source, noon, 2)), noon, false); len(r.Decisions) != 0 {
		t.Errorf("five points decided: %+v", r.Decisions)
	}
	r := s.Apply(f.entry("web2", level(source, noon+1, 3)), noon, false)
	if len(r.Decisions) != 1 {
		t.Fatalf("got %d decisions, want 1", len(r.Decisions))
	}
	d := r.Decisions[0]
	want := []Share{{Node: "web1", Points: 3, At: noon}, {Node: "web2", Points: 3, At: noon + 1}}
	if d.Prefix != source || d.Points != 6 || !reflect.DeepEqual(d.Shares, want) {
		t.Errorf("got %+v", d)
	}
	if r := s.Apply(f.entry("web2", level(source, noon+2, 4)), noon, false); len(r.Decisions) != 0 {
		t.Error("decided again while the decision stands")
	}
}

func TestOneNodeAloneBlocksNobody(t *testing.T) {
	f := newFleet("web1", "evil")
	s := f.state(Limits{Live: 1000, PerMin: 500})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		b := [4]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
		p := netip.PrefixFrom(netip.AddrFrom4(b), []int{1, 8, 16, 24, 28, 32}[i%6]).Masked()
		if r := s.Apply(f.entry("evil", level(p, noon, 1_000_000)), noon, false); len(r.Decisions) != 0 {
			t.Fatalf("one node blocked %v", p)
		}
	}
	if s.Keys() > 1000 {
		t.Errorf("%d prefixes of one node are kept", s.Keys())
	}
	// What others say about one failure of a good source is not enough with it.
	s = f.state(Limits{})
	s.Apply(f.entry("evil", level(source, noon, 6)), noon, false)
	for n := 1; n <= 2; n++ {
		if r := s.Apply(f.entry("web1", level(source, noon+int64(n), n)), noon, true); len(r.Decisions) != 0 {
			t.Errorf("%d failures and a lying node: blocked", n)
		}
	}
}

func TestRefusedStatements(t *testing.T) {
	f := newFleet("web1")
	v6 := netip.MustParsePrefix("2001:db8::/64")
	for name, l := range map[string]Level{
		"wide":     level(netip.MustParsePrefix("192.0.0.0/8"), noon, 3),
		"wide v6":  level(netip.MustParsePrefix("2001:db8::/48"), noon, 3),
		"future":   level(source, noon+minute, 3),
		"too full": level(source, noon, 5000),
		"not ours": {Meaning: MeaningOf("other"), Prefix: v6, At: noon, Empty: noon + 1},
	} {
		s := f.state(Limits{Quorum: 1, Cap: 100})
		if r := s.Apply(f.entry("web1", l), noon, false); len(r.Decisions) != 0 || s.Keys() != 0 {
			t.Errorf("%s: taken", name)
		}
	}
	s := f.state(Limits{})
	e := f.entry("web1", level(v6, noon, 3))
	e.Made = noon + minute
	if s.Apply(e, noon, false); s.Keys() != 0 {
		t.Error("an entry of the future was taken")
	}
	e.Made = noon - 100*minute
	if s.Apply(e, noon, false); s.Keys() != 1 {
		t.Error("a late entry was refused")
	}
}

// The state after all entries does not depend on their order, nor on repetition.
func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	f := newFleet("a", "b", "c")
	rng := rand.New(rand.NewPCG(2, 7))
	for round := range 300 {
		var all []*Entry
		for i := range 12 {
			node := string("abc"[rng.IntN(3)])
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(16 * rng.IntN(3))}), 28)
			at := noon + int64(i)*minute
			if rng.IntN(8) == 0 {
				e := f.entry(node)
				e.Orders = []Order{*f.order([]OrderKind{Unblock, Block, Allow, Disallow}[rng.IntN(4)], p, at)}
				all = append(all, e)
				continue
			}
			all = append(all, f.entry(node, level(p, at, rng.IntN(5))))
		}
		end := noon + 12*minute
		var first []Decision
		var firstOrders map[orderKey]Order
		for try := range 6 {
			s := f.state(Limits{})
			for _, e := range all {
				s.Apply(e, end, false)
				if rng.IntN(3) == 0 {
					s.Apply(e, end, false)
				}
			}
			about := s.About(netip.MustParsePrefix("0.0.0.0/0"), end)
			if try == 0 {
				first, firstOrders = about, s.orders
			} else if !reflect.DeepEqual(about, first) || !reflect.DeepEqual(s.orders, firstOrders) {
				t.Fatalf("round %d: the order of arrival changed\n%+v\nto\n%+v", round, first, about)
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// A level may fall: a success clears it, and what was said before comes late.
func TestLevelFalls(t *testing.T) {
	f := newFleet("web1", "web2")
	s := f.state(Limits{})
	high, low := f.entry("web1", level(source, noon, 3)), f.entry("web1", level(source, noon+1, 0))
	s.Apply(high, noon, false)
	s.Apply(low, noon, false)
	s.Apply(high, noon, false)
	if r := s.Apply(f.entry("web2", level(source, noon+2, 3)), noon, true); len(r.Decisions) != 0 {
		t.Error("a level that was cleared counts")
	}
}

func TestUnblockVoidsWhatWasSaidBefore(t *testing.T) {
	f := newFleet("web1", "web2")
	s := f.state(Limits{})
	late := f.entry("web1", level(source, noon, 3))
	e := f.entry("web2")
	e.Orders = []Order{*f.order(Unblock, netip.MustParsePrefix("192.0.2.5/32"), noon+1)}
	s.Apply(e, noon, false)
	s.Apply(late, noon, false)
	if r := s.Apply(f.entry("web2", level(source, noon+2, 3)), noon, true); len(r.Decisions) != 0 || s.Keys() != 1 {
		t.Error("what was said before the unblock counts")
	}
	if r := s.Apply(f.entry("web1", level(source, noon+3, 3)), noon, false); len(r.Decisions) != 1 {
		t.Error("what was said after the unblock does not count")
	}
}

func TestOrdersNeedAnOperator(t *testing.T) {
	f, other := newFleet("web1"), newFleet("x")
	s := f.state(Limits{})
	good := *f.order(Block, source, noon)
	forged := good
	forged.Prefix = netip.MustParsePrefix("198.51.100.0/28")
	foreign := *other.order(Block, source, noon)
	for _, o := range []Order{forged, foreign, {Kind: Block, Prefix: source, At: noon, By: "web1"}} {
		e := f.entry("web1")
		e.Orders = []Order{o}
		if r := s.Apply(e, noon, false); len(r.Orders) != 0 {
			t.Errorf("taken: %+v", o)
		}
	}
	e := f.entry("web1")
	e.Orders = []Order{good}
	if r := s.Apply(e, noon, false); len(r.Orders) != 1 || r.Orders[0].By != "alice" {
		t.Errorf("got %+v", r.Orders)
	}
	if r := s.Apply(e, noon, false); len(r.Orders) != 0 {
		t.Error("repeated order was given again")
	}
}

// A node that sends forged orders, or the same order over and over, costs little:
// signatures are verified for one of them in each entry.
func TestOrdersCostLittle(t *testing.T) {
	f := newFleet("web1")
	s := f.state(Limits{})
	good := f.order(Block, source, noon)
	forged := *good
	forged.Sig = make([]byte, ed25519.SignatureSize)
	n := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			_ = forged.Verify(f.admin.Fleet, f.admin.Public())
		}
	}).NsPerOp()
	s.Apply(&Entry{Node: "web1", Version: Version{1, 1}, Made: noon, Orders: []Order{*good}}, noon, false)
	for name, o := range map[string]Order{"forged": forged, "repeated": *good} {
		if name == "forged" {
			o.At++
		}
		e := &Entry{Node: "web1", Version: Version{1, 2}, Made: noon, Orders: slices.Repeat([]Order{o}, MaxStatements)}
		if took := testing.Benchmark(func(b *testing.B) {
			for range b.N {
				s.Apply(e, noon, false)
			}
		}).NsPerOp(); took > 20*n {
			t.Errorf("%d %s orders take as long as %d signatures", MaxStatements, name, took/n)
		}
	}
}

func TestDistinctCountsAddUpAsASet(t *testing.T) {
	f := newFleet("a", "b")
	s := NewState(f.admin.Fleet, f.admin.Public(), Limits{})
	s.SetShared(map[Meaning]Shared{meaning: {Rule: "sprayer", Capacity: 5, Bits4: 28, Bits6: 64, TTL: time.Hour}})
	put := func(node string, values ...uint64) Result {
		e := f.entry(node)
		e.Distincts = []Distinct{{Meaning: meaning, Prefix: source, At: noon, Until: noon + minute, Values: values}}
		return s.Apply(e, noon, false)
	}
	put("a", 1, 2, 3)
	if r := put("b", 1, 2, 3); len(r.Decisions) != 0 {
		t.Error("the same three values at two nodes count twice")
	}
	if r := put("b", 4, 5, 6); len(r.Decisions) != 1 {
		t.Error("six different values at two nodes do not decide")
	}
}

func TestRevokedNodeCountsForNothing(t *testing.T) {
	f := newFleet("web1", "web2")
	n := New(Options{Member: f.members["web1"]})
	n.SetShared(map[Meaning]Shared{meaning: login}, Limits{})
	web2 := f.members["web2"].Cert
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meet(map[string][]byte{"web2": certJSON(&web2)}, nil)
	if n.publicKey("web2") == nil {
		t.Fatal("an invited node is not known")
	}
	n.state.Apply(f.entry("web2", level(source, noon, 3)), noon, false)
	r := f.admin.Revoke("web2", time.Now().Add(time.Second))
	b := must(json.Marshal(r))
	bad := bytes.Replace(b, []byte("web2"), []byte("web1"), 1)
	n.meet(nil, map[string][]byte{"web1": bad})
	if len(n.revoked) != 0 {
		t.Error("a forged revocation was taken")
	}
	n.meet(map[string][]byte{"web2": certJSON(&web2)}, map[string][]byte{"web2": b})
	if n.publicKey("web2") != nil || n.state.Keys() != 0 {
		t.Error("a revoked node is still heard")
	}
	// The list of revocations survives an engine that lost it.
	again := New(Options{Member: f.members["web1"], Cache: n.cached()})
	again.meet(map[string][]byte{"web2": certJSON(&web2)}, nil)
	if again.publicKey("web2") != nil {
		t.Error("a revoked node came back with its old certificate")
	}
}

// A node says itself when it joined: a revocation ends every key of its invitation,
// and the next invitation to the name is taken.
func TestRevokedNodeCannotJoinAgain(t *testing.T) {
	f := newFleet("web1")
	tok := must(f.admin.Invite("web2", "redis://h", time.Now().Add(day)))
	n := New(Options{Member: f.members["web1"]})
	late := must(tok.Join(tok.Expires)).Cert // the latest that its invitation allows
	n.meet(map[string][]byte{"web2": certJSON(&late)}, nil)
	r := map[string][]byte{"web2": must(json.Marshal(f.admin.Revoke("web2", time.Now())))}
	n.meet(nil, r)
	if n.publicKey("web2") != nil {
		t.Error("a node that joined in the future is not revoked")
	}
	again := must(tok.Join(tok.Expires)).Cert
	n.meet(map[string][]byte{"web2": certJSON(&again)}, nil)
	if n.publicKey("web2") != nil {
		t.Error("a revoked node joined again by its old invitation")
	}
	if l := List(f.admin.Fleet, f.admin.Public(), map[string][]byte{"web2": certJSON(&again)}, r); len(l) != 1 || l[0].Revoked.IsZero() {
		t.Errorf("listed as %+v", l)
	}
	next := must(must(f.admin.Invite("web2", "redis://h", time.Now().Add(day))).Join(time.Now())).Cert
	n.meet(map[string][]byte{"web2": certJSON(&next)}, nil)
	if string(n.publicKey("web2")) != string(next.Key) {
		t.Error("a new invitation is not taken")
	}
	n.meet(map[string][]byte{"web2": certJSON(&late)}, nil)
	if string(n.publicKey("web2")) != string(next.Key) {
		t.Error("the old key replaces the new one")
	}
}

func TestTokens(t *testing.T) {
	f := newFleet()
	tok := must(f.admin.Invite("web1", "redis://h", time.Now().Add(time.Hour)))
	for name, s := range map[string]string{"empty": "", "prefix only": tokenPrefix, "cut": tok.String()[:60], "other": "AAAA"} {
		if _, err := ParseToken(s); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	forged := *tok
	forged.Name = "web2"
	if _, err := ParseToken(forged.String()); err == nil {
		t.Error("a token for another name was taken")
	}
	if _, err := tok.Join(time.Now().Add(2 * time.Hour)); err == nil {
		t.Error("an expired token was taken")
	}
	for _, name := range []string{"", "a b", "A", "-a", "a/b", "x}"} {
		if _, err := f.admin.Invite(name, "u", time.Now()); err == nil {
			t.Errorf("a node may be called %q", name)
		}
	}
}

// The user of the daemon owns the state directory, where root's commands read.
func TestReadsRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, MemberFile)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, CacheFile), 0o600); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(dir, "endless")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{pipe, endless, dir} {
			if err := Read(path, &Member{}); err == nil {
				t.Errorf("%s: read", path)
			}
		}
		if b := LoadCache(dir); b != nil {
			t.Errorf("a cache of %d bytes", len(b))
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("still reading")
	}
}

func TestEntryRoundTrip(t *testing.T) {
	f := newFleet("web1", "web2")
	m := f.members["web1"]
	key := ed25519.NewKeyFromSeed(m.Seed)
	e := &Entry{Node: "web1", Version: Version{3, 9}, Made: noon,
		Levels:    []Level{level(source, noon, 3), level(netip.MustParsePrefix("2001:db8::/64"), noon, 1)},
		Distincts: []Distinct{{Meaning: meaning, Prefix: source, At: noon, Until: noon + 5, Values: []uint64{1, 9}}},
		Orders:    []Order{*f.order(Block, source, noon)},
		Rules:     []Rule{{meaning, "ssh-login", 2}}}
	b := must(e.Sign(f.admin.Fleet, key))
	keys := func(node string) ed25519.PublicKey {
		if m := f.members[node]; m != nil {
			return m.Cert.Key
		}
		return nil
	}
	got, err := Open(b, f.admin.Fleet, keys)
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, e)
	}
	for i := range b {
		x := bytes.Clone(b)
		x[i] ^= 1
		if _, err := Open(x, f.admin.Fleet, keys); err == nil {
			t.Fatalf("byte %d changed: taken", i)
		}
	}
	if _, err := Open(b, newFleet().admin.Fleet, keys); err != ErrForeign {
		t.Errorf("another fleet's entry: %v", err)
	}
	f.members["web1"] = f.members["web2"]
	if _, err := Open(b, f.admin.Fleet, keys); err != ErrSignature {
		t.Errorf("another node's key: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	fl := newFleet("web1")
	m := fl.members["web1"]
	key := ed25519.NewKeyFromSeed(m.Seed)
	e := &Entry{Node: "web1", Version: Version{1, 1}, Made: noon, Levels: []Level{level(source, noon, 3)},
		Orders: []Order{*fl.order(Flag, netip.Prefix{}, noon)}, Rules: []Rule{{meaning, "r", 0}}}
	b := must(e.Sign(fl.admin.Fleet, key))
	head := len(magic) + 16 + 1 + len("web1")
	f.Add(b[head : len(b)-ed25519.SignatureSize])
	f.Fuzz(func(t *testing.T, body []byte) {
		// A node may sign anything.
		signed := append(bytes.Clone(b[:head]), body...)
		signed = append(signed, ed25519.Sign(key, sum("entry", fl.admin.Fleet, signed))...)
		got, err := Open(signed, fl.admin.Fleet, func(string) ed25519.PublicKey { return m.Cert.Key })
		if err != nil {
			return
		}
		s := fl.state(Limits{})
		if r := s.Apply(got, noon, false); len(r.Decisions) > 0 {
			t.Errorf("one node decided: %+v", r.Decisions)
		}
		s.Sweep(noon)
	})
}

func ExampleACL() {
	user, rules := ACL(ID{1}, "web1", "secret")
	fmt.Println(user, rules[:3])
	// Output: stoplog-01000000-web1 [reset on >secret]
}
