package web

import (
	"bufio"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"stoplog/internal/parse/event"
)

// webRef is when the tests' lines are read: late 2026.
var webRef = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano()

// testReader is a Reader with the message that it reads.
type testReader struct {
	*Reader
	m event.Message
}

func webParser(t testing.TB, o Options) *testReader {
	t.Helper()
	o.Sniff = true
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &testReader{w, event.Message{Ref: webRef, Loc: time.UTC, Hint: o.Service}}
}

func (p *testReader) read(read reader, line []byte, ev *event.Event) bool {
	return read(p.Reader, &p.m, line, ev)
}

// bareWeb reads a line by the format, or as any server's.
func bareWeb(w *Reader, m *event.Message, line []byte, ev *event.Event) bool {
	if w.Formats() {
		return w.Formatted(m, line, ev)
	}
	return w.Any(m, line, ev)
}

// families are the scanners of the lines of parsetest.
var families = map[string]reader{
	"any": (*Reader).Any, "nginx": (*Reader).nginxTagged, "apache": (*Reader).apacheAny, "haproxy": (*Reader).haproxyAny,
	"squid": (*Reader).squidAny, "lighttpd": (*Reader).lighttpdAny, "suhosin": (*Reader).suhosinLog,
}

// webWant is what a line is to be read as; the zero want is "not understood".
type webWant struct {
	addr    string
	service string
	outcome event.Outcome
	kind    event.Kind
	user    string
}

type webCase struct {
	line string
	want webWant
}

func webGot(ev *event.Event, ok bool) webWant {
	if !ok {
		return webWant{}
	}
	got := webWant{service: ev.Service, outcome: ev.Outcome, kind: ev.Kind, user: string(ev.User)}
	if ev.Addr.IsValid() {
		got.addr = ev.Addr.String()
	}
	return got
}

func runWeb(t *testing.T, o Options, read reader, cases []webCase) {
	t.Helper()
	p := webParser(t, o)
	for _, c := range cases {
		var ev event.Event
		ok := p.read(read, []byte(c.line), &ev)
		if got := webGot(&ev, ok); got != c.want {
			t.Errorf("%s\n got  %+v\n want %+v", c.line, got, c.want)
		}
		p.Reset()
	}
}

// webTime reads one line and returns its stamp.
func webTime(t *testing.T, p *testReader, read reader, line string) time.Time {
	t.Helper()
	var ev event.Event
	if !p.read(read, []byte(line), &ev) {
		t.Fatalf("not understood: %s", line)
	}
	return time.Unix(0, ev.Time).UTC()
}

func webLines(t testing.TB, name string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
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
