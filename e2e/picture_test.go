package e2e

import (
	"context"
	"fmt"
	"html"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/trend"
)

// pictures is where hack/picture wants the pictures of the documentation; "" =
// nowhere.
var pictures = os.Getenv("STOPLOG_PICTURES")

const pictureRules = `
use: []
sources: [{file: %s, service: sshd}]
protect: {own: false, ssh_peers: false}
block: {ttl: 1h}
listen: {page: {addr: "%s"}}
rules:
  - {name: ssh-login, about: failed logins of SSH, match: {service: sshd, outcome: failure}, weight: {unknown_user: 3}, bucket: {capacity: 5, leak: 1m}}
  - {name: mail-login, match: {service: postfix, outcome: failure}, bucket: {capacity: 5, leak: 1m}}
  - {name: web-scan, match: {service: nginx, outcome: failure}, bucket: {capacity: 20, leak: 10s}}
  - {name: wordpress, match: {service: wordpress, outcome: failure}, bucket: {capacity: 5, leak: 2m}}
`

// year is what a server may have counted in a year: the same at each call.
func year(now time.Time) *trend.Trend {
	var t trend.Trend
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, r := range []struct {
		rule, service string
		most          uint32 // events a minute
	}{{"ssh-login", "sshd", 40}, {"web-scan", "nginx", 25}, {"mail-login", "postfix", 9}, {"wordpress", "wordpress", 4}} {
		count := func(at time.Time, times uint32) {
			n := rnd.Uint32N(r.most) * times
			if rnd.IntN(20) == 0 {
				n *= 5
			}
			c := trend.Count{Events: n, Breaches: n / 12, Blocks: n / 15}
			t.Add(at, trend.Series{Kind: trend.Rule, Name: r.rule}, c)
			t.Add(at, trend.Series{Kind: trend.Service, Name: r.service}, c)
			t.Add(at, trend.Series{}, c)
		}
		for h := 365 * 24; h > 24; h-- {
			count(now.Add(-time.Duration(h)*time.Hour), 30)
		}
		for m := 24 * 60; m >= 0; m-- {
			count(now.Add(-time.Duration(m)*time.Minute), 1)
		}
	}
	return &t
}

// seed writes a state of that year and of some blocks.
func seed(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l, _, err := ledger.Open(dir, now, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.RecoveryDone(now)
	for i := range 14 {
		at := now.Add(-time.Duration(14-i) * 3 * time.Minute)
		rule, service, what := "ssh-login", "sshd", "Failed password for invalid user admin from %s port 4000 ssh2"
		if i%4 == 1 {
			rule, service, what = "mail-login", "postfix", "warning: unknown[%s]: SASL LOGIN authentication failed"
		}
		addr := netip.AddrFrom4([4]byte{203, 0, 113, byte(i*16 + 7)})
		var lines []string
		for j := range 6 {
			lines = append(lines, fmt.Sprintf("%s server %s[%d]: "+what, at.Add(time.Duration(j-6)*7*time.Second).Format("Jan _2 15:04:05"), service, 4000+j, addr))
		}
		p, err := addr.Prefix(28)
		if err != nil {
			t.Fatal(err)
		}
		l.Breach(&detect.Breach{
			At: at.UnixNano(), Rule: rule, Key: p.String(), Prefix: p, Addr: addr, Service: service, Count: 6, Points: 6, Unit: "failure", TTL: time.Duration(i%5+1) * 2 * time.Hour,
			Evidence: lines, Answers: []detect.Answer{{Kind: detect.Block}}, Source: "/var/log/auth.log", Line: int64(1200 + i),
		}, at)
	}
	if err := l.Save(now, map[string][]byte{"trends": year(now).AppendBinary(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // the program runs as nobody
		for _, path := range append([]string{filepath.Dir(dir), dir}, glob(t, filepath.Join(dir, "*"))...) {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBusyPage looks at pages full of a year's counts, in all widths and both
// colours, and draws the pictures of the documentation.
func TestBusyPage(t *testing.T) {
	br := browser(t)
	p := &pageRun{}
	addr := freeAddr(t)
	auth := put(t, filepath.Join(scratch(t), "auth.log"), "", 0o644)
	p.plainRun, p.auth, p.url = newPlain(t, fmt.Sprintf(pictureRules, auth, addr)), auth, "http://"+addr
	seed(t, filepath.Join(p.dir, "state", "dry-run"))
	p.start(t)
	p.out.waitFor(t, "msg=page", "listening")
	p.out.waitFor(t, "caught up")
	p.token = strings.TrimSpace(lastLine(p.ask(t, "token", "add", "anna", "--config", p.config, "--state", filepath.Join(p.dir, "state"))))
	p.fails(t, "192.0.2.7")
	if pictures != "" {
		p.terminal(t, br)
	}
	for _, width := range []int64{390, 768, 1440, 2560} {
		for _, theme := range []string{"light", "dark"} {
			look := []step{chromedp.EmulateViewport(width, max(844, width*9/16))}
			if theme == "dark" {
				look = append(look, dark)
			}
			b := open(t, br, p.url, look...)
			b.logIn(t, p.token)
			name := fmt.Sprintf("busy-%d-%s-", width, theme)
			b.sound(t, name+"overview")
			if pictures != "" && width == 1440 {
				picture(t, b, "page-"+theme)
			}
			for _, x := range []struct{ path, name string }{{"/charts", "charts-1h"}, {"/charts?span=7d&by=service", "charts-7d"}, {"/charts?span=90d", "charts-90d"}, {"/look?addr=192.0.2.7", "look"}, {"/blocks", "blocks"}, {"/history", "history"}} {
				b.do(t, chromedp.Navigate(b.url+x.path), chromedp.WaitVisible(chromedp.CSS("main h1")))
				b.sound(t, name+x.name)
			}
			b.mu.Lock()
			for _, w := range b.wrong {
				t.Errorf("%s: %s", name, w)
			}
			b.mu.Unlock()
		}
	}
}

// terminal draws what commands print as a terminal shows it.
func (p *pageRun) terminal(t *testing.T, br context.Context) {
	t.Helper()
	var text strings.Builder
	for _, args := range [][]string{{"list", "--rule", "mail-login"}, {"explain", "203.0.113.199"}} {
		fmt.Fprintf(&text, "$ stoplog %s\n%s\n", strings.Join(args, " "), p.ask(t, args...))
	}
	page := "<body style='margin:0;background:#101418;color:#e8ecf0'><pre style='margin:0;padding:24px;font:14px/1.4 monospace;white-space:pre-wrap'>" + html.EscapeString(text.String())
	b := open(t, br, "data:", chromedp.EmulateViewport(1200, 500), chromedp.Navigate("data:text/html;charset=utf-8,"+url.PathEscape(page)))
	picture(t, b, "terminal")
}

func picture(t *testing.T, b *tab, name string) {
	t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(pictures, name+".png"), string(png), 0o644)
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
