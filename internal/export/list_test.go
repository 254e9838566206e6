package export

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go4.org/netipx"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// block ends so many seconds after noon; 0: never.
func block(prefix string, seconds int) Entry {
	e := Entry{Prefix: netip.MustParsePrefix(prefix), Rule: "ssh-login", Count: 6, Points: 6}
	if seconds != 0 {
		e.Until = noon.Add(time.Duration(seconds) * time.Second)
	}
	return e
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// show lists pieces with the seconds they last.
func show(l *List) string {
	var ss []string
	for _, p := range l.pieces {
		if p.end == forever {
			ss = append(ss, p.String())
		} else {
			ss = append(ss, fmt.Sprintf("%s %d", p.Prefix, p.end-l.now))
		}
	}
	return strings.Join(ss, ", ")
}

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		name  string
		es    []Entry
		allow []netip.Prefix
		grain grain
		want  string
	}{
		{"nothing", nil, nil, byCover, ""},
		{"neighbours merge", []Entry{block("192.0.2.16/28", 9), block("192.0.2.0/28", 5)}, nil, byCover, "192.0.2.0/27 9"},
		{"neighbours that are no prefix do not", []Entry{block("192.0.2.16/28", 9), block("192.0.2.32/28", 9)}, nil, byCover, "192.0.2.16/28 9, 192.0.2.32/28 9"},
		{"another end keeps neighbours apart", []Entry{block("192.0.2.16/28", 9), block("192.0.2.0/28", 5)}, nil, byEnd, "192.0.2.0/28 5, 192.0.2.16/28 9"},
		{"the same end does not", []Entry{block("192.0.2.16/28", 9), block("192.0.2.0/28", 9)}, nil, byEnd, "192.0.2.0/27 9"},
		{"blocks stay apart", []Entry{block("192.0.2.16/28", 9), block("192.0.2.0/28", 9)}, nil, byEntry, "192.0.2.0/28 9, 192.0.2.16/28 9"},
		{"what ended is out", []Entry{block("192.0.2.0/28", -1), block("198.51.100.0/28", 1)}, nil, byEnd, "198.51.100.0/28 1"},
		{"without an end", []Entry{block("192.0.2.0/28", 0), block("192.0.2.0/24", 7)}, nil, byEnd, "192.0.2.0/28, 192.0.2.16/28 7, 192.0.2.32/27 7, 192.0.2.64/26 7, 192.0.2.128/25 7"},
		{"inside one that lasts longer", []Entry{block("192.0.2.0/30", 5), block("192.0.2.0/24", 7)}, nil, byEnd, "192.0.2.0/24 7"},
		{"the same twice", []Entry{block("192.0.2.0/30", 5), block("192.0.2.0/30", 7)}, nil, byEntry, "192.0.2.0/30 7"},
		{"three deep", []Entry{block("192.0.2.0/30", 1), block("192.0.2.0/31", 2), block("192.0.2.1/32", 3)}, nil, byEnd, "192.0.2.0/32 2, 192.0.2.1/32 3, 192.0.2.2/31 1"},
		{"never the broadcast address", []Entry{block("255.255.255.252/30", 1), block("255.255.255.255/32", 3), block("255.255.255.254/32", 2)}, nil, byEnd, "255.255.255.254/32 2"},
		{"never multicast, link-local or unspecified", []Entry{block("ff02::1/128", 3), block("fe80::/64", 3), block("::/128", 1), block("224.0.0.0/24", 1), block("169.254.0.0/16", 1), block("2001:db8::/64", 1)}, nil, byEnd, "2001:db8::/64 1"},
		{"allow inside", []Entry{block("192.0.2.0/29", 9)}, prefixes("192.0.2.5/32"), byCover, "192.0.2.0/30 9, 192.0.2.4/32 9, 192.0.2.6/31 9"},
		{"allow around", []Entry{block("192.0.2.0/29", 9), block("2001:db8::/64", 9)}, prefixes("192.0.2.0/24"), byCover, "2001:db8::/64 9"},
		{"allow everything", []Entry{block("192.0.2.0/29", 9), block("2001:db8::/64", 9)}, prefixes("0.0.0.0/0", "::/0"), byCover, ""},
		{"allow at the ends and between", []Entry{block("10.0.0.0/30", 9), block("10.0.0.4/30", 8)}, prefixes("10.0.0.0/32", "10.0.0.3/32", "10.0.0.4/32", "10.0.0.7/32"), byEntry, "10.0.0.1/32 9, 10.0.0.2/32 9, 10.0.0.5/32 8, 10.0.0.6/32 8"},
		{"allow mapped", []Entry{block("192.0.2.0/31", 9)}, prefixes("::ffff:192.0.2.1/128"), byCover, "192.0.2.0/32 9"},
		{"block mapped", []Entry{block("::ffff:192.0.2.0/124", 9)}, nil, byCover, "192.0.2.0/28 9"},
		{"host bits", []Entry{block("192.0.2.7/28", 9)}, nil, byCover, "192.0.2.0/28 9"},
	} {
		l, err := build(c.es, Options{Allow: c.allow, Now: noon}, format{grain: c.grain, able: nothing})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := show(l); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("::ffff:0.0.0.0/96")} {
		var w bytes.Buffer
		if _, err := Write(&w, "plain", []Entry{{Prefix: p}}, Options{Now: noon}); err == nil || w.Len() > 0 {
			t.Errorf("%s: error %v, %d bytes written; want an error and none", p, err, w.Len())
		}
	}
	if _, err := Write(&bytes.Buffer{}, "plain", nil, Options{Allow: []netip.Prefix{{}}}); err == nil {
		t.Error("an allowlist that is not valid was taken")
	}
	if _, err := Write(&bytes.Buffer{}, "wordstar", nil, Options{}); err == nil || !strings.Contains(err.Error(), "nginx-geo") {
		t.Errorf("unknown format: %v; want the names of all", err)
	}
}

// TestModel compares random lists with netipx and with looking at addresses
// one by one.
func TestModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		es, allow := randomBlocks(r)
		var b netipx.IPSetBuilder
		for _, e := range es {
			if e.Until.After(noon) {
				b.AddPrefix(e.Prefix)
			}
		}
		for _, p := range allow {
			b.RemovePrefix(p)
		}
		set, err := b.IPSet()
		if err != nil {
			t.Fatal(err)
		}
		for g := byCover; g <= byEntry; g++ {
			l, err := build(es, Options{Allow: allow, Now: noon}, format{grain: g, able: nothing})
			if err != nil {
				t.Fatal(err)
			}
			if g == byCover {
				sameCover(t, l, set.Prefixes())
			} else {
				sameEnds(t, l, es, set)
			}
		}
		if t.Failed() {
			t.Fatalf("of %v minus %v", es, allow)
		}
	}
}

// randomBlocks lie in 203.0.113.0/24 and the same of IPv6, so that they meet.
func randomBlocks(r *rand.Rand) (es []Entry, allow []netip.Prefix) {
	prefix := func(least int) netip.Prefix {
		a, top := netip.AddrFrom4([4]byte{203, 0, 113, byte(r.IntN(256))}), 32
		if r.IntN(3) == 0 {
			a, top = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(r.IntN(256))}), 128
		}
		return netip.PrefixFrom(a, top-r.IntN(least)).Masked()
	}
	for range r.IntN(30) {
		es = append(es, Entry{Prefix: prefix(8), Until: noon.Add(time.Duration(r.IntN(6)-1) * time.Second)})
	}
	for range r.IntN(4) {
		allow = append(allow, prefix(4))
	}
	return es, allow
}

func sameCover(t *testing.T, l *List, want []netip.Prefix) {
	t.Helper()
	var got []netip.Prefix
	for _, p := range l.pieces {
		got = append(got, p.Prefix)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// sameEnds checks that the pieces lie apart, cover set, and that each address
// ends with the block that ends last.
func sameEnds(t *testing.T, l *List, es []Entry, set *netipx.IPSet) {
	t.Helper()
	var b netipx.IPSetBuilder
	for i, p := range l.pieces {
		if i > 0 && l.pieces[i-1].Overlaps(p.Prefix) {
			t.Errorf("%s overlaps %s", l.pieces[i-1], p)
		}
		b.AddPrefix(p.Prefix)
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			want := int64(0)
			for _, e := range es {
				if e.Prefix.Contains(a) {
					want = max(want, e.Until.Unix())
				}
			}
			if p.end != want || l.entries[p.entry].Until.Unix() != want {
				t.Errorf("%s in %s ends at %d, want %d", a, p, p.end, want)
			}
		}
	}
	if got, _ := b.IPSet(); !got.Equal(set) {
		t.Errorf("covers %v, want %v", got.Prefixes(), set.Prefixes())
	}
}

func TestCap(t *testing.T) {
	es := []Entry{block("192.0.2.1/32", 5), block("192.0.2.3/32", 9), block("192.0.2.5/32", 0), block("192.0.2.7/32", 7)}
	for _, c := range []struct{ cap, left int }{{2, 2}, {1, 3}, {4, 0}, {5, 0}, {0, 0}, {-1, 0}} {
		var w bytes.Buffer
		left, err := Write(&w, "plain", es, Options{Cap: c.cap, Now: noon})
		if err != nil || left != c.left {
			t.Errorf("cap %d: left %d, %v; want %d", c.cap, left, err, c.left)
		}
		if said := strings.Contains(w.String(), "left out"); said != (left > 0) {
			t.Errorf("cap %d: the comment tells of what is left out: %v\n%s", c.cap, said, &w)
		}
	}
	l, err := Build("plain", es, Options{Cap: 2, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(l), "192.0.2.3/32 9, 192.0.2.5/32"; got != want {
		t.Errorf("those that end last: %s, want %s", got, want)
	}
	if l.Len() != 2 || l.Cap != 2 || !l.Ends.Equal(noon.Add(5*time.Second)) {
		t.Errorf("len %d, cap %d, ends %v", l.Len(), l.Cap, l.Ends)
	}
}

// TestEnds: a list is good until the first of its blocks ends, also of those
// that were merged with one that lasts longer.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		es   []Entry
		want time.Time
	}{
		{nil, time.Time{}},
		{[]Entry{block("192.0.2.0/28", 0)}, time.Time{}},
		{[]Entry{block("192.0.2.0/28", 9), block("192.0.2.16/28", 4)}, noon.Add(4 * time.Second)},
		{[]Entry{block("192.0.2.0/24", 9), block("192.0.2.16/28", 4)}, noon.Add(9 * time.Second)},
	} {
		l, err := Build("plain", c.es, Options{Now: noon})
		if err != nil || !l.Ends.Equal(c.want) || l.Len() > 1 {
			t.Errorf("%v: ends %v with %d prefixes, %v; want %v", c.es, l.Ends, l.Len(), err, c.want)
		}
	}
}

// TestDefaultCaps: no format has none, so that no reader is flooded unasked.
func TestDefaultCaps(t *testing.T) {
	for _, f := range Formats() {
		if f.Cap < 1000 || f.MIME == "" || f.About == "" {
			t.Errorf("%+v: wants a cap, a type and a description", f)
		}
		if g, err := Find(f.Name); err != nil || g != f {
			t.Errorf("Find(%s) = %+v, %v", f.Name, g, err)
		}
	}
}

func TestTag(t *testing.T) {
	tag := func(format string, o Options, es ...Entry) uint64 {
		l, err := Build(format, es, o)
		if err != nil {
			t.Fatal(err)
		}
		return l.Tag()
	}
	now, later := Options{Now: noon}, Options{Now: noon.Add(time.Second)}
	a, b := block("192.0.2.0/28", 60), block("192.0.2.0/28", 90)
	if tag("plain", now, a) != tag("plain", later, b) {
		t.Error("plain has another tag, though it shows no ends")
	}
	if tag("nft", now, a) != tag("nft", later, a) {
		t.Error("nft has another tag, though only the time went on")
	}
	seen := map[uint64]string{}
	for what, got := range map[string]uint64{
		"nothing": tag("nft", now), "a": tag("nft", now, a), "b": tag("nft", now, b), "another format": tag("ipset", now, a),
		"another prefix": tag("nft", now, block("192.0.2.0/29", 60)), "more": tag("nft", now, a, block("10.0.0.0/28", 60)),
		"IPv6": tag("nft", now, block("::192.0.2.0/124", 60)), "a cap": tag("nft", Options{Now: noon, Cap: 1}, a),
	} {
		if other, twice := seen[got]; twice {
			t.Errorf("%s has the tag of %s", what, other)
		}
		seen[got] = what
	}
}

// FuzzBlocks reads blocks and allowlist from bytes: whatever they are, nothing
// that is allowed is exported and everything else that is blocked is.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte{28, 10, 1, 24, 20, 2}, []byte{30, 10})
	f.Add([]byte{32, 255, 3, 25, 255, 1, 32, 254, 1}, []byte{})
	f.Fuzz(func(t *testing.T, blocks, allowed []byte) {
		var es []Entry
		for ; len(blocks) >= 3 && len(es) < 64; blocks = blocks[3:] {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, blocks[1]}), 24+int(blocks[0]%9))
			es = append(es, Entry{Prefix: p, Until: noon.Add(time.Duration(blocks[2]) * time.Second)})
		}
		var allow []netip.Prefix
		for ; len(allowed) >= 2 && len(allow) < 16; allowed = allowed[2:] {
			allow = append(allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, allowed[1]}), 24+int(allowed[0]%9)))
		}
		l, err := build(es, Options{Allow: allow, Now: noon}, format{grain: byEnd, able: nothing})
		if err != nil {
			t.Fatal(err)
		}
		in := func(ps []netip.Prefix, a netip.Addr) bool {
			return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
		}
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{255, 255, 255, byte(i)})
			want := !in(allow, a) && slices.ContainsFunc(es, func(e Entry) bool {
				return e.Until.After(noon) && e.Prefix.Contains(a) && !e.Prefix.Contains(netip.MustParseAddr("255.255.255.255"))
			})
			if got := slices.ContainsFunc(l.pieces, func(p piece) bool { return p.Contains(a) }); got != want {
				t.Fatalf("%s exported: %v, want %v", a, got, want)
			}
		}
	})
}

// million blocks, a third of which merge.
func million(n int) []Entry {
	r := rand.New(rand.NewPCG(3, 4))
	es := make([]Entry, n)
	for i := range es {
		a := netip.AddrFrom4([4]byte{byte(1 + r.IntN(40)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
		es[i] = Entry{Prefix: netip.PrefixFrom(a, 32-4*r.IntN(2)).Masked(), Until: noon.Add(time.Duration(1+r.IntN(3600)) * time.Second), Rule: "ssh-login", Count: 6, Points: 6}
	}
	return es
}

func BenchmarkMillion(b *testing.B) {
	es := million(1_000_000)
	for _, name := range []string{"plain", "nft", "json"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var n counter
				if _, err := Write(&n, name, es, Options{Now: noon, Allow: prefixes("1.2.3.0/24"), Cap: -1}); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
			}
		})
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }
