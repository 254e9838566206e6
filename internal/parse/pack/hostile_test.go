package pack

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

const evil = "198.51.100.66"

// field is a sample cut around the name that a stranger chose.
type field struct {
	pack, tag    string
	ip           string
	parts        []string // of the line, around each place of the name
	json, logfmt bool
}

// fields finds the samples with a name in them.
func fields(t testing.TB) []field {
	var out []field
	for _, p := range everyPack(t) {
		for _, s := range p.samples {
			parts := strings.Split(s.Line, s.User)
			if s.User == "" || s.IP == "" || len(parts) < 2 {
				continue
			}
			f := field{pack: p.name, tag: s.Tag, ip: s.IP, parts: parts}
			f.json = strings.HasPrefix(s.Line, "{") || strings.Contains(parts[0], `{"`)
			f.logfmt = !f.json && len(p.patterns[0].fields) > 0
			out = append(out, f)
		}
	}
	return out
}

// line writes the sample with name in it, as the service would escape it.
func (f *field) line(name string) string {
	name = strings.NewReplacer("\n", "", "\r", "", "\x00", "").Replace(name)
	switch {
	case f.json:
		b, _ := json.Marshal(name)
		name = string(b[1 : len(b)-1])
	case f.logfmt:
		q := strconv.Quote(name)
		if strings.HasSuffix(f.parts[0], "=") {
			return strings.Join(f.parts, q)
		}
		name = q[1 : len(q)-1]
	}
	return strings.Join(f.parts, name)
}

// check fails when anybody but the sample's address, or nobody, is named.
func (f *field) check(t *testing.T, s *Set, name string) {
	t.Helper()
	var m Match
	line := f.line(name)
	ok := s.MatchBare([]byte(line), &m)
	if f.tag != "" {
		ok = s.MatchTagged([]byte(f.tag), []byte(line), &m)
	}
	if ok && m.Addr.IsValid() && m.Addr != netip.MustParseAddr(f.ip) {
		t.Errorf("%s: %s was named by %s for\n%s", f.pack, m.Addr, m.Service, line)
	}
}

// forgeries are names made of the line they will stand in.
func (f *field) forgeries() []string {
	fake := strings.NewReplacer(f.ip, evil)
	head, tail := fake.Replace(f.parts[0]), fake.Replace(f.parts[len(f.parts)-1])
	whole := fake.Replace(strings.Join(f.parts, "y"))
	return []string{
		"x" + tail, head + "x", whole, " " + whole, whole + " ", "x" + tail + head + "y", "x" + tail + " " + head + "y",
		"x" + tail + whole, head + "x" + tail, "x' from " + evil, `x" from ` + evil, "x from " + evil, "x] [" + evil + "]",
		"x\\n" + whole, "x#012" + whole, "\x1b[31m" + whole, "x ip=" + evil + " ", evil, "", " ", "x\"y", "x'y", "x]y", "x)y", "x|y", "x,y", "x;y",
		strings.Repeat(evil+" ", 60) + "x", strings.Repeat("x", 9000) + tail,
	}
}

func TestForgedNames(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields(t) {
		for _, name := range f.forgeries() {
			f.check(t, s, name)
		}
	}
}

// TestForeignLinesAsNames puts whole lines of every other service into names.
func TestForeignLinesAsNames(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	all := fields(t)
	for i, f := range all {
		for j := i % 7; j < len(all); j += 7 {
			g := all[j]
			f.check(t, s, strings.ReplaceAll(strings.Join(g.parts, "x"), g.ip, evil))
		}
	}
}

// likeOthers are packs whose service writes lines of the same words as another's.
var likeOthers = map[string]string{"freepbx": "wordpress"}

// TestForeignLinesBehindNewlines leaves the newlines of names in place: each
// piece is a line of that service's file, and a whole line of another service
// says nothing there, with blanks before it or without.
func TestForeignLinesBehindNewlines(t *testing.T) {
	s, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	all := fields(t)
	var m Match
	for i := range all {
		f := &all[i]
		own := s.Named(f.pack)
		if own == nil {
			t.Fatalf("no pack is named %s", f.pack)
		}
		for j := range all {
			g := &all[j]
			if g.pack == f.pack || likeOthers[f.pack] == g.pack {
				continue
			}
			foreign := strings.ReplaceAll(strings.Join(g.parts, "x"), g.ip, evil)
			for _, name := range []string{"x\n" + foreign + "\n", "x\n\t" + foreign + "\ny", "x\n   " + foreign + "\r\n"} {
				for _, line := range strings.Split(strings.Join(f.parts, name), "\n") {
					if s.MatchIn(own, []byte(line), &m) && m.Addr == netip.MustParseAddr(evil) {
						t.Errorf("in a log of %s, a line of %s names somebody:\n%s", f.pack, g.pack, line)
					}
				}
			}
			m.Reset()
		}
	}
}

// FuzzNewlines reads each line that a name breaks a sample into under the
// service's binding: whom it names stands in that very line.
func FuzzNewlines(f *testing.F) {
	s, err := Builtin()
	if err != nil {
		f.Fatal(err)
	}
	all := fields(f)
	for i := range all {
		f.Add(uint8(i), "x\n"+all[(i+1)%len(all)].forgeries()[i%9])
	}
	f.Fuzz(func(t *testing.T, i uint8, name string) {
		x := &all[int(i)%len(all)]
		var m Match
		for _, line := range strings.Split(strings.Join(x.parts, name), "\n") {
			if s.MatchIn(s.Named(x.pack), []byte(line), &m) && m.Addr == netip.MustParseAddr(evil) && !strings.Contains(line, evil) && !strings.Contains(line, `\`) && !strings.Contains(line, ":") {
				t.Errorf("%s named %s by a line without it: %q", x.pack, m.Addr, line)
			}
			if strings.HasPrefix(line, "\t") && s.MatchIn(s.Named(x.pack), []byte(line), &m) {
				t.Errorf("%s reads an indented line: %q", x.pack, line)
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	s, err := Builtin()
	if err != nil {
		f.Fatal(err)
	}
	all := fields(f)
	for i := range all {
		f.Add(uint8(i), all[i].forgeries()[i%9])
	}
	f.Fuzz(func(t *testing.T, i uint8, name string) {
		all[int(i)%len(all)].check(t, s, name)
	})
}

// FuzzLine feeds any line: an address that is read stands in the line.
func FuzzLine(f *testing.F) {
	s, err := Builtin()
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range everyPack(f) {
		for _, x := range p.samples {
			f.Add(x.Line)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		var m Match
		if !s.MatchBare([]byte(line), &m) || !m.Addr.IsValid() {
			return
		}
		if m.Addr.Is4() && !strings.Contains(line, ".") && !strings.Contains(line, `\`) {
			t.Errorf("%s is not in %q", m.Addr, line)
		}
		if m.Addr.Is4In6() || m.Addr.Zone() != "" {
			t.Errorf("%s is not in its short form: %q", m.Addr, line)
		}
	})
}
