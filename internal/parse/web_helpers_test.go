package parse

import (
	"bufio"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// webRef is when the tests' lines are read: late 2026.
var webRef = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

func webParser(t testing.TB, o Options) *Parser {
	t.Helper()
	o.Sniff = true
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.now = webRef
	return p
}

// webWant is what a line is to be read as; the zero want is "not understood".
type webWant struct {
	addr    string
	service string
	outcome Outcome
	kind    Kind
	user    string
}

type webCase struct {
	line string
	want webWant
}

func webGot(ev *Event, ok bool) webWant {
	if !ok {
		return webWant{}
	}
	got := webWant{service: ev.Service, outcome: ev.Outcome, kind: ev.Kind, user: string(ev.User)}
	if ev.Addr.IsValid() {
		got.addr = ev.Addr.String()
	}
	return got
}

func runWeb(t *testing.T, o Options, read scanner, cases []webCase) {
	t.Helper()
	p := webParser(t, o)
	for _, c := range cases {
		var ev Event
		ok := read(p, []byte(c.line), &ev)
		if got := webGot(&ev, ok); got != c.want {
			t.Errorf("%s\n got  %+v\n want %+v", c.line, got, c.want)
		}
		p.Reset()
	}
}

// webTime reads one line and returns its stamp.
func webTime(t *testing.T, p *Parser, read scanner, line string) time.Time {
	t.Helper()
	var ev Event
	if !read(p, []byte(line), &ev) {
		t.Fatalf("not understood: %s", line)
	}
	return time.Unix(0, ev.Time).UTC()
}

func webLines(t testing.TB, name string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "web", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		out = append(out, s.Text())
	}
	return out
}

func prefixes(ps ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range ps {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}
