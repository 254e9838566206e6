package web

import (
	"strings"
	"testing"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/parsetest"
)

// blamed checks the rule that nobody but the true client is ever named.
func blamed(t *testing.T, h parsetest.WebLine, text string) {
	t.Helper()
	p := webParser(t, Options{})
	var ev event.Event
	line := h.Line(text)
	if !p.read(families[h.Family], []byte(line), &ev) {
		return
	}
	if ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
		t.Errorf("%s: blames %v\n%s", h.Name, ev.Addr, line)
	}
}

func TestHostileTextNeverChoosesTheAddress(t *testing.T) {
	for _, h := range parsetest.WebLines() {
		for _, text := range parsetest.WebTexts() {
			blamed(t, h, text)
		}
	}
}

// The lines must be those that the families understand, or nothing is tested.
func TestHostileLinesAreUnderstood(t *testing.T) {
	for _, h := range parsetest.WebLines() {
		if h.Name == "apache without a client" {
			continue
		}
		p := webParser(t, Options{})
		var ev event.Event
		if !p.read(families[h.Family], []byte(h.Line("name")), &ev) || ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%s: got %v", h.Name, ev.Addr)
		}
	}
}

// An attempt that is told in a line of nginx's is found whatever it holds, so
// that nobody hides behind what he sends.
func TestNobodyHidesFromNginx(t *testing.T) {
	for _, h := range parsetest.WebLines() {
		if h.Name != "nginx, mismatch" && h.Name != "nginx, limit" && h.Name != "nginx, mail" && h.Name != "apache 2.2" {
			continue
		}
		for _, text := range parsetest.WebTexts() {
			p := webParser(t, Options{})
			var ev event.Event
			if p.read(families[h.Family], []byte(h.Line(text)), &ev); ev.Outcome != event.Failure || ev.Addr.String() != "192.0.2.7" {
				t.Errorf("%s: got %v %v\n%s", h.Name, ev.Outcome, ev.Addr, h.Line(text))
			}
		}
	}
}

func fuzzFamily(f *testing.F, names ...string) {
	for _, s := range parsetest.WebTexts() {
		f.Add(s)
	}
	var lines []parsetest.WebLine
	for _, h := range parsetest.WebLines() {
		for _, n := range names {
			if strings.HasPrefix(h.Name, n) {
				lines = append(lines, h)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, h := range lines {
			blamed(t, h, text)
		}
	})
}

func FuzzAccessLog(f *testing.F)   { fuzzFamily(f, "combined", "vhost", "Nginx Proxy") }
func FuzzNginxError(f *testing.F)  { fuzzFamily(f, "nginx") }
func FuzzApacheError(f *testing.F) { fuzzFamily(f, "apache") }
func FuzzProxyLogs(f *testing.F)   { fuzzFamily(f, "haproxy", "squid") }
func FuzzLighttpd(f *testing.F)    { fuzzFamily(f, "lighttpd", "suhosin") }
func FuzzJSONLog(f *testing.F)     { fuzzFamily(f, "JSON", "logfmt") }

// Any line at all: no panic, and no address that the line does not hold.
func FuzzBareWeb(f *testing.F) {
	for _, h := range parsetest.WebLines() {
		f.Add([]byte(h.Line("name")))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var ev event.Event
		webParser(t, Options{}).read(bareWeb, line, &ev)
		if ev.Addr.Is4In6() || ev.Addr.Zone() != "" {
			t.Errorf("%q: address %v", line, ev.Addr)
		}
	})
}
