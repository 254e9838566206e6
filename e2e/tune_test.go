package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// axe is a copy of axe-core's axe.min.js, which hack/test-deps fetches where npm
// is installed: more rules on accessibility than sound knows.
const axe = "/opt/stoplog-test/axe.min.js"

// tuneLog is days of slow attackers, and of people whose names are hostile text.
func tuneLog(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	begin := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	for m := range 6 * 24 * 12 {
		at := begin.Add(time.Duration(m) * 5 * time.Minute)
		line := func(s int, what, from string) {
			fmt.Fprintf(&b, "%s h sshd[%d]: %s from %s port 4000 ssh2\n", at.Add(time.Duration(s)*time.Second).Format(time.RFC3339), 20*m+s, what, from)
		}
		honest := fmt.Sprintf("203.0.%d.7", m%30)
		for i := range m % 4 {
			line(i, "Failed password for <img src=x onerror=alert(1)>", honest)
		}
		line(9, "Accepted password for <img src=x onerror=alert(1)>", honest)
		for i := range 6 {
			line(10+i, "Failed password for root", fmt.Sprintf("198.18.%d.1", i))
		}
	}
	return put(t, filepath.Join(dir, "auth.log"), b.String(), 0o644)
}

// TestTunePage opens the report in a real browser, wide and narrow, light and
// dark: nothing runs, nothing is fetched, all can be read.
func TestTunePage(t *testing.T) {
	br := browser(t)
	dir := scratch(t)
	log := tuneLog(t, dir)
	rules := put(t, filepath.Join(dir, "rules.yaml"), "use: []\nrules:\n  - {name: slow, match: {service: sshd, outcome: failure}, bucket: {capacity: 5, leak: 1m}}\n", 0o644)
	page := filepath.Join(dir, "report.html")
	out, err := exec.Command(binary, "tune", "--config", rules, "--settings", "60", "--html", page, log).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script, noAxe := os.ReadFile(axe)
	for _, look := range []struct {
		name string
		as   []step
	}{
		{"tune-1440-light", []step{chromedp.EmulateViewport(1440, 900)}},
		{"tune-1440-dark", []step{chromedp.EmulateViewport(1440, 900), dark}},
		{"tune-390-light", []step{chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)}},
		{"tune-390-dark", []step{chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch), dark}},
	} {
		b := open(t, br, "file://"+dir, look.as...)
		b.do(t, chromedp.Navigate("file://"+page))
		b.see(t, "A better setting was found")
		b.see(t, "<img src=x onerror=alert(1)>") // a line, as text
		b.sound(t, look.name)
		if n := ask[int](t, b, `document.querySelectorAll("figure svg").length`); n != 5 {
			t.Errorf("%s: got %d figures, want 5", look.name, n)
		}
		if n := ask[int](t, b, `document.querySelectorAll("ol.near > li").length`); n != 10 {
			t.Errorf("%s: got %d honest sources, want 10", look.name, n)
		}
		outside := ask[[]string](t, b, `[...document.querySelectorAll("svg text")].filter(e => { const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1 }).map(e => e.textContent)`)
		small := ask[float64](t, b, `Math.min(...[...document.querySelectorAll("svg text")].map(e => parseFloat(getComputedStyle(e).fontSize) * Math.hypot(e.getScreenCTM().a, e.getScreenCTM().b)))`)
		if len(outside) > 0 || small < 8 {
			t.Errorf("%s: labels outside of their figure: %q; the smallest has %.1f pixels", look.name, outside, small)
		}
		if noAxe == nil {
			ask[bool](t, b, string(script)+"; true")
			ask[bool](t, b, `axe.run().then(r => { window.found = r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 80) + " " + n.failureSummary).join("; ")); window.passed = r.passes.length }); true`)
			b.wait(t, "window.found")
			if found := ask[[]string](t, b, "window.found"); len(found) > 0 || ask[int](t, b, "window.passed") < 10 {
				t.Errorf("%s: axe-core found %q", look.name, found)
			}
		}
		b.mu.Lock()
		for _, w := range b.wrong {
			t.Errorf("%s: %s", look.name, w)
		}
		b.mu.Unlock()
	}
	if noAxe != nil {
		t.Logf("without axe-core: %v", noAxe)
	}
}
