package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/httpd"
)

// TestForeignOrdersAreRefused: no other site, name or network can order
// anything, though the browser sends the cookie along.
func TestForeignOrdersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*http.Request)
		want int
	}{
		{"the page itself", func(*http.Request) {}, http.StatusSeeOther},
		{"another site's form", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		{"another port's form", func(r *http.Request) { r.Header.Set("Origin", "http://localhost:9") }, http.StatusForbidden},
		{"a sandboxed frame", func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		{"no origin at all", func(r *http.Request) { r.Header.Del("Origin"); r.Header.Del("Sec-Fetch-Site") }, http.StatusForbidden},
		{"a sibling site", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		{"a cross-site fetch", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"a rebound name", func(r *http.Request) {
			r.Host = "evil.example:8080"
			r.Header.Set("Origin", "http://evil.example:8080")
		}, http.StatusMisdirectedRequest},
		{"a name with our address in it", func(r *http.Request) {
			r.Host = "127.0.0.1.evil.example"
			r.Header.Set("Origin", "http://127.0.0.1.evil.example")
		}, http.StatusMisdirectedRequest},
		{"no host", func(r *http.Request) { r.Host = "" }, http.StatusMisdirectedRequest},
		{"another method", func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
		{"an order by its address", func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
	} {
		d := &fake{}
		b := visit(t, d, nil)
		b.login()
		b.edit = c.edit
		w := b.order("/block", "target", "192.0.2.7")
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d\n%.200s", c.name, w.Code, c.want, w.Body)
		}
		if done := len(d.given()) > 0; done != (c.want == http.StatusSeeOther) {
			t.Errorf("%s: carried out: %v", c.name, d.given())
		}
	}
}

func TestHosts(t *testing.T) {
	b := visit(t, &fake{}, func(o *Options) { o.Hosts = []string{"stoplog.example.net"} })
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1:1": 200, "[::1]:8080": 200, "192.0.2.1": 200, "stoplog.example.net": 200, "Stoplog.Example.Net.:443": 200,
		"example.net": 421, "x.stoplog.example.net": 421, "localhost.evil.example": 421, "127.0.0.1.nip.io": 421, "": 421, "2130706433": 421,
	} {
		b.edit = func(r *http.Request) { r.Host = host }
		if w := b.send("GET", "/login", nil); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}

func TestClients(t *testing.T) {
	b := visit(t, &fake{}, func(o *Options) { o.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} })
	for addr, want := range map[string]int{
		"192.0.2.9:80": 200, "[::ffff:192.0.2.9]:80": 200, "198.51.100.1:80": 403, "[2001:db8::1]:80": 403, "127.0.0.1:80": 403, "@": 200, // a unix socket's mode decided
	} {
		b.edit = func(r *http.Request) {
			if r.RemoteAddr = addr; addr == "@" {
				*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{}))
			}
		}
		if w := b.send("GET", "/login", nil); w.Code != want {
			t.Errorf("from %s: %d, want %d", addr, w.Code, want)
		}
	}
	b.edit = func(r *http.Request) { r.RemoteAddr = "198.51.100.1:80"; r.Header.Set("X-Forwarded-For", "192.0.2.9") }
	if w := b.send("GET", "/login", nil); w.Code != 403 {
		t.Errorf("a client named itself: %d, want 403", w.Code)
	}
}

// TestHeaders holds on every answer, refusals included.
func TestHeaders(t *testing.T) {
	b := visit(t, &fake{}, nil)
	b.login()
	for _, path := range []string{"/", "/login", "/style.css", "/script.js", "/none", "/blocks", "/look?addr=192.0.2.1", "/history", "/allowed"} {
		for _, host := range []string{"localhost:8080", "evil.example"} {
			b.edit = func(r *http.Request) { r.Host = host }
			h := b.send("GET", path, nil).Header()
			csp := h.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "style-src 'self'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
				if !strings.Contains(csp, want) {
					t.Errorf("%s: no %s in %q", path, want, csp)
				}
			}
			if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
				t.Errorf("%s: %q lets too much through", path, csp)
			}
			for k, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"} {
				if got := h.Get(k); got != want {
					t.Errorf("%s of %s: %s is %q, want %q", path, host, k, got, want)
				}
			}
		}
	}
}

func TestNothingWithoutLogin(t *testing.T) {
	d := &fake{found: []control.Block{blockOf("192.0.2.0/28")}}
	b := visit(t, d, nil)
	for _, cookie := range []string{"", "wrong", strings.Repeat("x", 4000)} {
		b.cookie = cookie
		for path, want := range map[string]int{"/": 303, "/blocks": 303, "/look?addr=192.0.2.1": 303, "/allowed": 303, "/history": 303, "/none": 404} {
			w := b.send("GET", path, nil)
			if w.Code != want || strings.Contains(w.Body.String(), "192.0.2.") {
				t.Errorf("%s with cookie %.10q: %d, want %d\n%.200s", path, cookie, w.Code, want, w.Body)
			}
		}
		for _, path := range []string{"/block", "/unblock", "/allow", "/disallow", "/flag/set", "/flag/clear"} {
			if w := b.order(path, "target", "192.0.2.7"); w.Code != http.StatusUnauthorized {
				t.Errorf("POST %s with cookie %.10q: %d, want 401", path, cookie, w.Code)
			}
		}
		b.edit = func(r *http.Request) { r.Header.Set("Stoplog-Refresh", "1") }
		if w := b.send("GET", "/blocks", nil); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "192.0.2.") {
			t.Errorf("a refresh with cookie %.10q: %d, want 401", cookie, w.Code)
		}
		b.edit = nil
	}
	if len(d.given()) != 0 {
		t.Errorf("carried out: %v", d.given())
	}
}

func TestFormsOfOthers(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	right, mine := b.csrf, b.cookie
	b.login() // another session
	if b.csrf == right {
		t.Fatal("two sessions share a form's token")
	}
	for _, c := range []struct{ name, csrf string }{{"none", ""}, {"another session's", right}, {"nearly", b.csrf[:len(b.csrf)-1]}, {"the cookie", mine}} {
		b.csrf = c.csrf
		w := b.order("/block", "target", "192.0.2.7", "reason", "because")
		if w.Code != http.StatusForbidden || len(d.given()) != 0 {
			t.Errorf("%s: %d, carried out %v", c.name, w.Code, d.given())
		}
		if !strings.Contains(w.Body.String(), "reason=because") {
			t.Errorf("%s: what was typed is lost", c.name)
		}
	}
	b.send("POST", "/logout", url.Values{"csrf": {"wrong"}})
	if w := b.send("GET", "/", nil); w.Code != 200 {
		t.Errorf("another site logged us out: %d", w.Code)
	}
	// The token in the address, where logs and others' pages see it, is none.
	b.csrf = ""
	if w := b.send("POST", "/block?csrf="+right+"&target=192.0.2.7", nil); w.Code != http.StatusForbidden {
		t.Errorf("a form's token in the address: %d", w.Code)
	}
}

func TestCookie(t *testing.T) {
	b := visit(t, &fake{}, nil)
	for _, c := range []struct {
		name   string
		edit   func(*http.Request)
		cookie string
		secure bool
	}{
		{"plain", nil, "stoplog", false},
		{"behind TLS", func(r *http.Request) {
			r.Header.Set("X-Forwarded-Proto", "https")
			r.Header.Set("Origin", "https://localhost:8080")
		}, "__Host-stoplog", true},
	} {
		b.edit = c.edit
		cs := b.send("POST", "/login", url.Values{"token": {b.secret}}).Result().Cookies()
		if len(cs) != 1 {
			t.Fatalf("%s: %d cookies", c.name, len(cs))
		}
		k := cs[0]
		if k.Name != c.cookie || !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Secure != c.secure || k.Path != "/" || k.Domain != "" || k.MaxAge != 0 {
			t.Errorf("%s: %s", c.name, k)
		}
		if len(k.Value) < 40 {
			t.Errorf("%s: the id has %d characters", c.name, len(k.Value))
		}
	}
}

// TestLoginFixation: an id that was planted before the login is none after it.
func TestLoginFixation(t *testing.T) {
	b := visit(t, &fake{}, nil)
	b.login()
	old := b.cookie
	b.login()
	if b.cookie == old {
		t.Error("a login kept the id from before it")
	}
	b.cookie = old
	if w := b.send("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("the id from before the login still lets in: %d", w.Code)
	}
}

func TestLoginIsLimited(t *testing.T) {
	b := visit(t, &fake{}, nil)
	for i := range 5 {
		if w := b.send("POST", "/login", url.Values{"token": {"wrong"}}); w.Code != http.StatusUnauthorized {
			t.Fatalf("try %d: %d, want 401", i+1, w.Code)
		}
	}
	w := b.send("POST", "/login", url.Values{"token": {"wrong"}})
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("after %d wrong tokens: %d, Retry-After %q", 5, w.Code, w.Header().Get("Retry-After"))
	}
	if n := strings.Count(b.log.String(), "login refused"); n != 5 {
		t.Errorf("%d refusals are logged, want %d", n, 5)
	}
	if strings.Contains(b.log.String(), "wrong") {
		t.Error("what was typed is logged")
	}
	for _, from := range []string{"127.0.0.1:4000", "198.51.100.7:1"} {
		b.edit = func(r *http.Request) { r.RemoteAddr = from }
		if w := b.send("POST", "/login", url.Values{"token": {b.secret}}); w.Code != http.StatusSeeOther {
			t.Errorf("the right token from %s: %d", from, w.Code)
		}
	}
	b.edit = func(r *http.Request) { r.RemoteAddr = "127.0.0.9:1" } // the same /28
	if w := b.send("POST", "/login", url.Values{"token": {"wrong"}}); w.Code != http.StatusUnauthorized {
		t.Errorf("a neighbour's first: %d", w.Code)
	}
}

func TestRemovedTokenEndsItsSessions(t *testing.T) {
	b := visit(t, &fake{}, nil)
	b.login()
	if was, err := httpd.RemoveToken(b.site.tokens, "anna"); err != nil || !was {
		t.Fatal(was, err)
	}
	if w := b.send("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a removed token still lets in: %d", w.Code)
	}
	if _, err := httpd.AddToken(b.site.tokens, "anna", time.Now()); err != nil {
		t.Fatal(err)
	}
	if w := b.send("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a new token of that name let an old session in: %d", w.Code)
	}
}

// restart makes a new site on the same files.
func (b *browser) restart() {
	b.t.Helper()
	again, err := newSite(b.opt)
	if err != nil {
		b.t.Fatal(err)
	}
	b.site, b.h = again, again.handler()
}

// TestRestart: a login survives a restart, and so does a form that was open.
func TestRestart(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	b.restart()
	if w := b.order("/allow", "target", "192.0.2.7"); w.Code != http.StatusSeeOther || len(d.given()) != 1 {
		t.Errorf("after a restart: %d, carried out %v", w.Code, d.given())
	}
	file, err := os.ReadFile(b.opt.SessionFile)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(b.opt.SessionFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	for name, secret := range map[string]string{"cookie": b.cookie, "form's token": b.csrf, "token": b.secret} {
		if strings.Contains(string(file), secret) {
			t.Errorf("the file of sessions holds the %s", name)
		}
	}
	b.send("POST", "/logout", url.Values{"csrf": {b.csrf}})
	b.restart()
	if w := b.send("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("a login that was ended came back with a restart: %d", w.Code)
	}
	b.login()
	if _, err := httpd.RemoveToken(b.site.tokens, "anna"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if w := b.send("GET", "/", nil); w.Code != http.StatusSeeOther {
		t.Errorf("the login of a removed token came back with a restart: %d", w.Code)
	}
}

// TestSessionFile: what stands in the file is bounded and checked, and a bad
// one costs the logins alone.
func TestSessionFile(t *testing.T) {
	now := time.Now()
	file := filepath.Join(t.TempDir(), "page-sessions")
	ss, err := newSessions(file, now)
	if err != nil {
		t.Fatal(err)
	}
	id, err := ss.begin(httpd.Token{Name: "anna"}, now)
	if err != nil {
		t.Fatal(err)
	}
	for range maxSessions + 20 {
		if _, err := ss.begin(httpd.Token{Name: "bob"}, now.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	again := func(at time.Time) *sessions {
		t.Helper()
		ss, err := newSessions(file, at)
		if err != nil {
			t.Error(err)
		}
		return ss
	}
	if ss := again(now); len(ss.by) != maxSessions {
		t.Errorf("%d sessions came back, want %d", len(ss.by), maxSessions)
	} else if s, _ := ss.find(id, now); s != nil {
		t.Error("the one that was idle longest is kept")
	}
	if ss := again(now.Add(maxIdle + time.Minute)); len(ss.by) != 0 {
		t.Errorf("%d sessions came back after they were idle too long", len(ss.by))
	}
	id, _ = ss.begin(httpd.Token{Name: "eve"}, now)
	for d := time.Duration(0); d <= maxAge; d += maxIdle {
		if s, err := ss.find(id, now.Add(d)); s == nil || err != nil {
			t.Fatalf("after %s: %v, %v", d, s, err)
		}
		ss = again(now.Add(d)) // the use of a session is in the file
	}
	if s, _ := again(now.Add(maxAge+time.Second)).find(id, now.Add(maxAge+time.Second)); s != nil {
		t.Error("a session outlives its age over restarts")
	}
	for name, text := range map[string]string{
		"torn": `[{"id":`, "another shape": `{"id":1}`, "a short hash": `[{"id":"00","token":"00"}]`, "too large": strings.Repeat(" ", maxSessionFile+1) + "[]",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ss, err := newSessions(file, now)
		if err == nil || len(ss.by) != 0 {
			t.Errorf("%s: %d sessions, %v", name, len(ss.by), err)
		}
		if _, err := ss.begin(httpd.Token{}, now); err != nil {
			t.Errorf("%s: nobody can log in: %v", name, err)
		}
	}
}

// TestLostLogin: a form that was sent after the login ended loses nothing.
func TestLostLogin(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	if err := os.Remove(b.opt.SessionFile); err != nil {
		t.Fatal(err)
	}
	b.restart()
	w := b.order("/allow", "target", "192.0.2.7", "ttl", "86400", "reason", `the new office & "co"`)
	page := w.Body.String()
	if w.Code != http.StatusUnauthorized || !strings.Contains(page, "Your session has ended") || len(d.given()) != 0 {
		t.Fatalf("%d, carried out %v\n%s", w.Code, d.given(), page)
	}
	form := url.Values{"token": {b.secret}}
	for _, f := range []string{"do", "target", "ttl", "reason"} {
		if !strings.Contains(page, `name="`+f+`"`) {
			t.Errorf("the login's form lacks %s", f)
		}
	}
	form.Set("do", "allow")
	form.Set("target", "192.0.2.7")
	form.Set("ttl", "86400")
	form.Set("reason", `the new office & "co"`)
	w = b.send("POST", "/login", form)
	to := w.Header().Get("Location")
	b.cookie = w.Result().Cookies()[0].Value
	page = b.send("GET", to, nil).Body.String()
	for _, want := range []string{"was not sent", `value="the new office &amp; &#34;co&#34;"`, `value="86400" selected`} {
		if !strings.Contains(page, want) {
			t.Errorf("after the login at %s: no %q", to, want)
		}
	}
	if len(d.given()) != 0 {
		t.Errorf("a login alone carried out %v", d.given())
	}
}

// TestHostileText: what a log says is text, wherever it is shown.
func TestHostileText(t *testing.T) {
	const evil = "\x1b[31m<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e\u2028\x00\xff{{.}}"
	bl := blockOf("192.0.2.0/28")
	bl.Rule, bl.Reason, bl.By, bl.Evidence = "rule"+evil, evil, evil, []string{evil}
	d := &fake{text: evil, found: []control.Block{bl}, allowed: []control.AllowEntry{{Prefix: evil, Origin: evil, Reason: evil, By: evil}, {Prefix: "192.0.2.1", Origin: "by hand"}}}
	d.flags = []control.FlagEntry{{Name: "x" + evil, Until: time.Now().Add(time.Hour), By: evil, ReadBy: []string{evil}}}
	d.history = []control.AuditEntry{{Time: time.Now(), What: evil, Prefix: evil, Rule: evil, Reason: evil, By: evil, TTL: evil}}
	d.inside = []control.Block{bl, bl}
	b := visit(t, d, nil)
	b.login()
	q := url.Values{"q": {evil}, "do": {"allow"}, "reason": {evil}, "ttl": {evil}, "target": {evil}, "addr": {"192.0.2.1"}}.Encode()
	for _, path := range []string{"/", "/history", "/history?q=rule" + url.QueryEscape(evil), "/none" + url.PathEscape(evil), "/blocks", "/blocks?q=rule" + url.QueryEscape(evil), "/look?" + q, "/allowed", "/?do=flag/set&target=" + url.QueryEscape(evil)} {
		w := b.send("GET", path, nil)
		page := w.Body.String()
		if w.Code != 200 && !strings.HasPrefix(path, "/none") {
			t.Errorf("%s: %d", path, w.Code)
		}
		for _, bad := range []string{"<script>alert", "<img", "\x1b", "\u202e", "\u2028", "\x00", "\xff", `"'>`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: %q reached the page", path, bad)
			}
		}
		if strings.HasPrefix(path, "/look") || path == "/history" {
			if !strings.Contains(page, `\x1b[31m&lt;script&gt;`) || !strings.Contains(page, `\u202e`) {
				t.Errorf("%s: the text is not shown as it is", path)
			}
		}
	}
	if page := b.order("/block", "target", "192.0.2.0/24", "reason", evil).Body.String(); !strings.Contains(page, "Confirm") || strings.Contains(page, "<img") {
		t.Errorf("the question before an order:\n%s", page)
	}
	b.cookie = ""
	w := b.order("/block", "target", evil, "reason", evil)
	if strings.Contains(w.Body.String(), "<script>alert") || strings.Contains(w.Body.String(), "<img") {
		t.Error("a kept order is markup on the login page")
	}
}

func TestBounds(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	if w := b.order("/block", "target", "192.0.2.7", "reason", strings.Repeat("x", maxForm)); w.Code != http.StatusBadRequest || len(d.given()) != 0 {
		t.Errorf("a form over the bound: %d, carried out %v", w.Code, d.given())
	}
	b.order("/block", "target", "192.0.2.7", "reason", strings.Repeat("é", 2000))
	if g := d.given(); len(g) != 1 || len(g[0]) > maxField+100 {
		t.Errorf("a long reason: %d orders", len(g))
	}
	for i := range maxSessions + 20 {
		if _, err := b.site.sessions.begin(httpd.Token{}, time.Now().Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if b.send("GET", "/", nil).Code != http.StatusSeeOther {
		t.Error("the session that was idle longest is kept")
	}
	if n := len(b.site.sessions.by); n != maxSessions {
		t.Errorf("%d sessions are kept, want %d", n, maxSessions)
	}
}
