package web

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/fleet"
	"stoplog/internal/httpd"
)

// fake is a daemon in memory that remembers its orders.
type fake struct {
	control.Daemon // the rest is not called

	mu      sync.Mutex
	found   []control.Block
	allowed []control.AllowEntry
	flags   []control.FlagEntry
	orders  []string // "block 192.0.2.7/32 1h0m0s because page:anna"
	err     error
	text    string // put wherever text of a log can be
	inside  []control.Block
	history []control.AuditEntry
	asked   []control.HistoryQuery
	fleet   *fleet.Status
	series  int // of Trend
	trends  []control.TrendQuery
}

func (f *fake) gave(what, target string, ttl time.Duration, reason, by string) (control.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return control.Answer{}, f.err
	}
	f.orders = append(f.orders, strings.Join([]string{what, target, ttl.String(), reason, by}, " "))
	return control.Answer{Lines: []string{what + " of " + target + " done"}}, nil
}

func (f *fake) given() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.orders)
}

func (f *fake) Status(context.Context) (control.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return control.Status{
		State: "degraded", Started: time.Now().Add(-time.Hour), Trouble: []string{"trouble " + f.text}, Notes: []string{"note " + f.text}, Lines: 10, Events: 7,
		Sources:   []control.SourceStatus{{Name: "/var/log/auth.log" + f.text, State: "following", Why: f.text, LagByte: 5, SkewMs: 90000}},
		Backends:  []control.WallStatus{{Name: "nftables", State: "ok", Why: "why " + f.text}},
		RuleStats: []control.RuleStatus{{Name: "ssh-login" + f.text, Matched: 7, Breaches: 1, Mode: "observe"}},
		Flags:     f.flags, Fleet: f.fleet,
	}, f.err
}

func (f *fake) Live(context.Context) (control.Live, error) {
	l := control.Live{Fullest: []control.Level{{Rule: "ssh-login", Key: "user=" + f.text, Level: 4, Capacity: 5}}}
	for i := range 60 {
		l.Minutes = append(l.Minutes, control.Minute{At: time.Unix(int64(i)*60, 0), Events: uint64(i), Blocks: uint64(i % 3)})
	}
	return l, f.err
}

func (f *fake) Trend(_ context.Context, q control.TrendQuery) (control.Trend, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trends = append(f.trends, q)
	t := control.Trend{Unit: q.Unit, From: q.From, Bins: q.Bins, Kept: map[string]int{"minute": 1440, "hour": 960, "day": 400}[q.Unit]}
	for i := range max(1, f.series) {
		s := control.TrendSeries{Name: fmt.Sprint("series-", i, f.text), Events: make([]uint32, q.Bins), Breaches: make([]uint32, q.Bins), Blocks: make([]uint32, q.Bins)}
		for j := range q.Bins {
			s.Events[j], s.Breaches[j], s.Blocks[j] = uint32(100000+i*j), uint32(1000+i*j), uint32(10+i*j)
		}
		t.Rules, t.Services = append(t.Rules, s), append(t.Services, s)
	}
	return t, f.err
}

func (f *fake) Find(_ context.Context, q control.BlockQuery) (control.BlockPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := control.BlockPage{Total: len(f.found)}
	for _, b := range f.found {
		if q.Search == "" || strings.Contains(b.Prefix+b.Rule, q.Search) {
			p.Blocks = append(p.Blocks, b)
		}
	}
	p.Matches = len(p.Blocks)
	from := min(q.Offset, len(p.Blocks))
	p.Blocks = p.Blocks[from:min(from+q.Limit, len(p.Blocks))]
	return p, f.err
}

func (f *fake) Explain(_ context.Context, addr string) (control.Explanation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return control.Explanation{
		Addr: addr, Blocked: f.found[:min(1, len(f.found))], Inside: f.inside, InsideTotal: len(f.inside), Near: f.inside, NearTotal: len(f.inside) + 1, NearNet: "192.0.2.0/24",
		Rules: []control.RuleText{{Name: "ssh-login" + f.text, About: f.text, Where: f.text, Text: "name: x\n" + f.text}}, KnownGood: []string{"a login " + f.text}, Allowed: f.allowed,
		Levels:  []control.Level{{Rule: "ssh-login", Key: "192.0.2.0/28", Level: 3, Capacity: 5}},
		History: []control.AuditEntry{{Time: time.Now(), What: "block" + f.text, Prefix: "192.0.2.0/28", Rule: f.text, Reason: f.text, By: f.text, Count: 6, Points: 9, Evidence: []string{"line " + f.text}}},
	}, f.err
}

func (f *fake) History(_ context.Context, q control.HistoryQuery) ([]control.AuditEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
	from := min(q.Offset, len(f.history))
	return f.history[from:min(from+q.Limit, len(f.history))], f.err
}

func (f *fake) Allowed(context.Context) ([]control.AllowEntry, error) { return f.allowed, f.err }

func (f *fake) Block(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("block", o.Target, o.TTL, o.Reason, o.By)
}
func (f *fake) Unblock(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("unblock", o.Target, o.TTL, o.Reason, o.By)
}
func (f *fake) Allow(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("allow", o.Target, o.TTL, o.Reason, o.By)
}
func (f *fake) Disallow(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("disallow", o.Target, o.TTL, o.Reason, o.By)
}
func (f *fake) SetFlag(_ context.Context, o control.FlagOrder) (control.Answer, error) {
	return f.gave("set", o.Name, o.For, "", o.By)
}
func (f *fake) ClearFlag(_ context.Context, o control.FlagOrder) (control.Answer, error) {
	return f.gave("clear", o.Name, 0, "", o.By)
}

func (f *fake) FleetOrder(_ context.Context, o fleet.Order) (control.Answer, error) {
	return f.gave("fleet", o.Flag, 0, o.Reason, o.By)
}

func blockOf(prefix string) control.Block {
	return control.Block{Prefix: prefix, Rule: "ssh-login", Count: 6, Since: time.Now(), Until: time.Now().Add(time.Hour)}
}

// browser asks a site as a browser does; cookies are kept by hand.
type browser struct {
	t      testing.TB
	site   *site
	opt    Options
	h      http.Handler
	cookie string
	csrf   string
	log    *bytes.Buffer
	secret string
	edit   func(*http.Request) // changes each request before it is sent
}

// visit makes a site with one token, of anna, and a browser that looks at it.
func visit(t testing.TB, d control.Daemon, change func(*Options)) *browser {
	t.Helper()
	b := &browser{t: t, log: &bytes.Buffer{}}
	dir := t.TempDir()
	o := Options{Daemon: d, TokenFile: filepath.Join(dir, "tokens"), SessionFile: filepath.Join(dir, "page-sessions"), Log: slog.New(slog.NewTextHandler(b.log, nil))}
	var err error
	if b.secret, err = httpd.AddToken(o.TokenFile, "anna", time.Now()); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	b.opt = o
	if b.site, err = newSite(o); err != nil {
		t.Fatal(err)
	}
	b.h = b.site.handler()
	return b
}

// send sends a request of the page's own origin, unless edit says otherwise.
func (b *browser) send(method, path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:4000"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://localhost:8080")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if b.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "stoplog", Value: b.cookie})
	}
	if b.edit != nil {
		b.edit(r)
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	return w
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// login logs in and takes the form's token from the front page.
func (b *browser) login() {
	b.t.Helper()
	w := b.send("POST", "/login", url.Values{"token": {b.secret}})
	if w.Code != http.StatusSeeOther {
		b.t.Fatalf("login: %d\n%s", w.Code, w.Body)
	}
	b.cookie = w.Result().Cookies()[0].Value
	m := csrfField.FindStringSubmatch(b.send("GET", "/", nil).Body.String())
	if m == nil {
		b.t.Fatal("no form on the front page has a token")
	}
	b.csrf = m[1]
}

// order posts a form as the page made it.
func (b *browser) order(path string, fields ...string) *httptest.ResponseRecorder {
	b.t.Helper()
	form := url.Values{"csrf": {b.csrf}}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return b.send("POST", path, form)
}
