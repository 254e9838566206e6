package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const pageRules = `
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 1h}
listen: {page: {addr: "%s"}}
rules:
  - name: ssh-login
    match: {service: sshd, outcome: failure}
    bucket: {capacity: 5, leak: 1m}
`

// shots is where screenshots go, for people to look at; "" = nowhere.
var shots = os.Getenv("STOPLOG_SCREENSHOTS")

// pageRun is a stoplog with a page and somebody's token.
type pageRun struct {
	*plainRun
	auth, url, token string
}

func newPage(t *testing.T) *pageRun {
	t.Helper()
	p := &pageRun{}
	addr := freeAddr(t)
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p.plainRun, p.auth, p.url = newPlain(t, fmt.Sprintf(pageRules, auth, addr)), auth, "http://"+addr
	p.start(t)
	p.out.waitFor(t, "msg=page", "listening")
	p.out.waitFor(t, "caught up")
	p.token = strings.TrimSpace(lastLine(p.ask(t, "token", "add", "anna", "--config", p.config, "--state", filepath.Join(p.dir, "state"))))
	return p
}

func lastLine(s string) string {
	ls := strings.Split(strings.TrimSpace(s), "\n")
	return ls[len(ls)-1]
}

// fails writes six failures from addr, whose users are hostile text.
func (p *pageRun) fails(t *testing.T, addr string) {
	t.Helper()
	f, err := os.OpenFile(p.auth, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 6 {
		fmt.Fprintf(f, "%s host sshd[%d]: Failed password for invalid user <img src=x onerror=alert(%d)> from %s port 4000 ssh2\n",
			time.Now().Format(time.RFC3339), 100+i, i, addr)
	}
	p.out.waitFor(t, "msg=block", "prefix="+strings.TrimSuffix(addr, "7")+"0/28")
}

// tab is one browser window with cookies of its own, which notes all that the
// page must never do.
type tab struct {
	ctx context.Context
	url string

	mu    sync.Mutex
	wrong []string
}

// browser starts a Chromium and returns what opens tabs.
func browser(t *testing.T) context.Context {
	t.Helper()
	need(t, "chromium")
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(t.TempDir()))
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), flags...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	return ctx
}

// step is one thing that a browser does.
type step = chromedp.Action[chromedp.Void]

func open(t *testing.T, browser context.Context, url string, look ...step) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{ctx: ctx, url: url}
	if err := chromedp.Listen(ctx, b.watch); err != nil {
		t.Fatal(err)
	}
	b.ctx, cancel = context.WithTimeout(ctx, 2*patience)
	t.Cleanup(cancel)
	b.do(t, look...)
	return b
}

// dark asks for the dark look.
func dark(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	return chromedp.Void{}, err
}

// watch notes requests to elsewhere, script errors, dialogs and violations of
// the policy.
func (b *tab) watch(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.url+"/") && !strings.HasPrefix(u, "data:,") {
			b.wrong = append(b.wrong, "asked for "+u)
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "a script failed: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		// Refused logins and missing pages are answered with their status,
		// which Chromium logs.
		expected := strings.Contains(e.Entry.Text, "status of 401") || strings.Contains(e.Entry.Text, "status of 404") && strings.HasSuffix(e.Entry.URL, "/none")
		if e.Entry.Level == log.EntryLevelError && !expected {
			b.wrong = append(b.wrong, "the browser complains: "+e.Entry.Text)
		}
	}
}

func (b *tab) do(t *testing.T, steps ...step) {
	t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		t.Fatalf("%v\nthe page says:\n%.3000s", err, b.text())
	}
}

// text is what the page says now, for messages.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), patience/30)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// ask evaluates an expression on the page.
func ask[T any](t *testing.T, b *tab, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%.80s: %v", expression, err)
	}
	return v
}

// see waits until the page's text holds words.
func (b *tab) see(t *testing.T, words string) {
	t.Helper()
	b.wait(t, `document.body.innerText.includes(`+quote(words)+`)`)
}

func quote(s string) string {
	q, _ := json.Marshal(s) // a string has no error
	return string(q)
}

// wait waits until an expression is true of the page that is shown.
func (b *tab) wait(t *testing.T, expression string) {
	t.Helper()
	begin := time.Now()
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("!!(document.body && ("+expression+"))", chromedp.WithPollingTimeout(patience/2)))
		if err == nil {
			return
		}
		// Another page came while this one was looked at.
		if !strings.Contains(err.Error(), "(-32000)") || time.Since(begin) > patience/2 {
			t.Fatalf("waiting for %s: %v\nthe page says:\n%.3000s", expression, err, b.text())
		}
	}
}

// press clicks a button and waits for the page that it leads to.
func (b *tab) press(t *testing.T, selector, then string) {
	t.Helper()
	b.do(t, chromedp.Click(chromedp.CSS(selector)))
	b.see(t, then)
}

func (b *tab) logIn(t *testing.T, token string) {
	t.Helper()
	// By the keyboard alone: the field has the focus already.
	b.do(t, chromedp.Navigate(b.url), chromedp.WaitVisible(chromedp.CSS("#token:focus")), chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Enter))
	b.see(t, "Newest blocks")
}

func (b *tab) search(t *testing.T, text string) {
	t.Helper()
	ask[string](t, b, `document.getElementById("addr").value = ""`)
	b.do(t, chromedp.SendKeys(chromedp.CSS("#addr"), text+kb.Enter))
	b.wait(t, `document.querySelector("h1").innerText === `+quote(text)+` && document.querySelector("#levels")`)
}

// contrast finds text that is harder to read than WCAG 2.2 AA allows (1.4.3):
// 4.5, or 3 for large text.
const contrast = `(() => {
  const lum = c => { const f = c.map(v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2] };
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c } return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255] };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.closest(".unseen, script, style, svg") || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
    const s = getComputedStyle(e), a = lum(rgb(s.color)), b = lum(ground(e)), size = parseFloat(s.fontSize);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.push(e.tagName + " " + e.textContent.trim().slice(0, 30) + " " + ratio.toFixed(2));
  }
  return bad;
})()`

// sound checks what must hold of every page in every look.
func (b *tab) sound(t *testing.T, name string) {
	t.Helper()
	pale := ask[[]string](t, b, contrast)
	wide := ask[bool](t, b, `document.documentElement.scrollWidth > document.documentElement.clientWidth`)
	nameless := ask[[]string](t, b, `[...document.querySelectorAll("input:not([type=hidden]), select, button, a")].filter(e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.ariaLabel).map(e => e.outerHTML)`)
	if len(pale) > 0 {
		t.Errorf("%s: too little contrast: %q", name, pale)
	}
	if wide {
		over := ask[[]string](t, b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.outerHTML.slice(0, 120) + " " + e.getBoundingClientRect().right).slice(0, 6)`)
		t.Errorf("%s: it must be scrolled sideways: %q", name, over)
	}
	if len(nameless) > 0 {
		t.Errorf("%s: controls without a name: %q", name, nameless)
	}
	if shots != "" {
		png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(shots, name+".png"), string(png), 0o644)
	}
}

// TestPage does by the page what a colleague does, in a real browser.
func TestPage(t *testing.T) {
	br := browser(t)
	p := newPage(t)
	p.fails(t, "192.0.2.7")
	for i, look := range []struct {
		name string
		as   []step
	}{
		{"desktop", []step{chromedp.EmulateViewport(1280, 900)}},
		{"wide", []step{chromedp.EmulateViewport(1440, 900), dark}},
		{"phone", []step{chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch), dark}},
		{"narrow", []step{chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile, chromedp.EmulateTouch)}},
	} {
		b := open(t, br, p.url, look.as...)
		b.do(t, chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#token")))
		b.sound(t, look.name+"-login")
		b.logIn(t, p.token)
		b.see(t, "192.0.2.0/28")
		b.sound(t, look.name+"-overview")
		p.work(t, b, look.name, fmt.Sprintf("203.0.113.%d", 16*i+9))
		b.mu.Lock()
		for _, w := range b.wrong {
			t.Errorf("%s: %s", look.name, w)
		}
		b.mu.Unlock()
	}
}

// work searches, blocks, unblocks and allows addr, and looks what came of it.
func (p *pageRun) work(t *testing.T, b *tab, look, addr string) {
	t.Helper()
	b.search(t, "192.0.2.7")
	b.see(t, "<img src=x onerror=alert(5)>") // the line, as text
	b.sound(t, look+"-why")
	b.search(t, addr)
	b.see(t, addr+" is not blocked")
	b.do(t, chromedp.SetValue(chromedp.CSS("#blockfor"), "3600"), chromedp.SendKeys(chromedp.CSS("#blockwhy"), "asked by "+look))
	b.press(t, `form[action="/block"] button`, "Blocked "+addr+"/32 for 1h.")
	if l := p.ask(t, "list", "--json"); !strings.Contains(l, addr+"/32") || !strings.Contains(l, "page:anna") || !strings.Contains(l, "asked by "+look) {
		t.Errorf("%s: not blocked by page:anna:\n%s", look, l)
	}
	b.sound(t, look+"-blocked")
	b.press(t, `form[action="/unblock"] button`, "Lifted 1 block")
	if l := p.ask(t, "list", "--json"); strings.Contains(l, addr) {
		t.Errorf("%s: still blocked:\n%s", look, l)
	}
	b.do(t, chromedp.SendKeys(chromedp.CSS("#allowwhy"), "our "+look))
	b.press(t, `form[action="/allow"] button`, "Allowed "+addr+"/32 for 7d.")
	if l := p.ask(t, "allow", "list"); !strings.Contains(l, addr) || !strings.Contains(l, time.Now().AddDate(0, 0, 7).Format("2006-01-02")) {
		t.Errorf("%s: not allowed for a week:\n%s", look, l)
	}
	b.press(t, `form[action="/disallow"] button`, "no longer allowed")
	b.do(t, chromedp.Navigate(b.url+"/"), chromedp.SendKeys(chromedp.CSS("#flag"), "captcha"))
	b.press(t, `form[action="/flag/set"] button`, "Flag captcha is raised for 2h.")
	if l := p.ask(t, "flag", "list"); !strings.Contains(l, "page:anna") {
		t.Errorf("%s: the flag is not page:anna's:\n%s", look, l)
	}
	b.press(t, `form[action="/flag/clear"] button`, "Flag captcha is cleared.")
	b.do(t, chromedp.Navigate(b.url+"/none"))
	b.see(t, "There is no page at this address")
	b.do(t, chromedp.Navigate(b.url+"/look?addr=192.0.2.0/24"))
	b.see(t, "192.0.2.0/24 is not blocked as a whole, but one prefix inside it is")
	b.sound(t, look+"-inside")
	b.do(t, chromedp.Click(chromedp.CSS(`form[action="/block"] button`)))
	b.see(t, "This blocks every address in 192.0.2.0/24.")
	b.sound(t, look+"-confirm")
	for _, path := range []string{"blocks", "allowed", "history"} {
		b.do(t, chromedp.Navigate(b.url+"/"+path), chromedp.WaitVisible(chromedp.CSS("main table")))
		b.sound(t, look+"-"+path)
	}
	if h := p.ask(t, "history", addr); strings.Count(h, "page:anna") != 4 {
		t.Errorf("%s: the audit trail tells of %d of 4 orders:\n%s", look, strings.Count(h, "page:anna"), h)
	}
}

// TestPageLives: every page follows by itself, also while it is used, says when
// nobody answers, and goes on after a restart.
func TestPageLives(t *testing.T) {
	br := browser(t)
	p := newPage(t)
	b := open(t, br, p.url)
	b.logIn(t, p.token)
	b.do(t, chromedp.KeyEvent(kb.Tab))
	if first := ask[string](t, b, `document.activeElement.className`); first != "skip" {
		t.Errorf("the first stop of the keyboard is %q, want the link over the head", first)
	}
	p.fails(t, "198.51.100.7")
	b.see(t, "198.51.100.0/28")
	const button = `document.querySelector("[aria-label='Unblock 198.51.100.0/28']")`
	ask[bool](t, b, button+`.focus() || true`)
	p.fails(t, "203.0.113.7")
	b.see(t, "203.0.113.0/28")
	b.wait(t, `document.activeElement === `+button)
	b.do(t, chromedp.Navigate(b.url+"/blocks"))
	b.see(t, "2 blocked")
	p.fails(t, "192.0.2.7")
	b.see(t, "3 blocked")
	b.see(t, "192.0.2.0/28")

	other := open(t, br, p.url)
	other.logIn(t, p.token)
	other.wait(t, `document.querySelector("[data-state]").textContent === "OK"`)
	b.search(t, "198.51.100.7")
	clock := ask[string](t, b, `document.getElementById("pulse").dataset.clock`)
	b.do(t, chromedp.SendKeys(chromedp.CSS("#allowwhy"), "the new office"))
	p.kill()
	for _, x := range []*tab{b, other} {
		x.see(t, "No answer since ")
		x.wait(t, `document.title.startsWith("No answer")`)
		if shots != "" {
			x.sound(t, "noanswer"+ask[string](t, x, `location.pathname.slice(1)`))
		}
	}
	if since := ask[string](t, b, `document.getElementById("noanswer").textContent`); !strings.HasPrefix(since, "No answer since ") || len(since) < len("No answer since "+clock) {
		t.Errorf("the page says %q, want the time of the last answer, at or after %s", since, clock)
	}
	if well := ask[bool](t, other, `document.querySelector(".state").innerText.includes("OK")`); well {
		t.Error("nobody answers, and the state is OK")
	}
	p.start(t)
	p.out.waitFor(t, "msg=page", "listening")
	b.wait(t, `document.getElementById("noanswer").hidden`)
	other.wait(t, `document.querySelector("[data-state]").textContent === "OK"`)
	if reason := ask[string](t, b, `document.getElementById("allowwhy").value`); reason != "the new office" {
		t.Errorf("the reason became %q over the restart", reason)
	}
	b.press(t, `form[action="/allow"] button`, "Allowed 198.51.100.7/32 for 7d.")

	// A login that ended loses nothing that was typed.
	b.do(t, chromedp.SendKeys(chromedp.CSS("#blockwhy"), "it came back"))
	p.ask(t, "token", "remove", "anna", "--config", p.config, "--state", filepath.Join(p.dir, "state"))
	p.token = strings.TrimSpace(lastLine(p.ask(t, "token", "add", "anna", "--config", p.config, "--state", filepath.Join(p.dir, "state"))))
	b.press(t, `form[action="/block"] button`, "Your input is kept: Block 198.51.100.7, reason “it came back”")
	b.do(t, chromedp.SendKeys(chromedp.CSS("#token"), p.token+kb.Enter))
	b.see(t, "Your input was not sent: Block 198.51.100.7")
	if reason := ask[string](t, b, `document.getElementById("blockwhy").value`); reason != "it came back" {
		t.Errorf("the reason came back as %q", reason)
	}
}

// TestTenBlocksOnAPhone: the list of blocks is for a glance.
func TestTenBlocksOnAPhone(t *testing.T) {
	br := browser(t)
	p := newPage(t)
	for i := range 12 {
		p.ask(t, "block", fmt.Sprintf("203.0.113.%d", 16*i+1), "--ttl", "1h", "--reason", "a reason of some length that must not take a line each")
	}
	b := open(t, br, p.url, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	b.logIn(t, p.token)
	const whole = `[...document.querySelectorAll(".blocks tbody tr")].filter(r => r.getBoundingClientRect().bottom <= innerHeight).length`
	if n := ask[int](t, b, whole); n < 10 {
		t.Errorf("the overview shows %d blocks on one screen, want 10", n)
	}
	b.sound(t, "ten-overview")
	b.do(t, chromedp.Navigate(b.url+"/blocks"), chromedp.WaitVisible(chromedp.CSS(".blocks")))
	if n := ask[int](t, b, whole); n < 10 {
		t.Errorf("the list shows %d blocks on one screen, want 10", n)
	}
	b.sound(t, "ten-blocks")
}
