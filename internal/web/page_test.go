package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/fleet"
	"stoplog/internal/httpd"
)

func TestOrders(t *testing.T) {
	for _, c := range []struct {
		path   string
		fields []string
		want   string
		to     string
	}{
		{"/block", []string{"target", "192.0.2.7"}, "block 192.0.2.7 0s  page:anna", "/look?addr=192.0.2.7"},
		{"/block", []string{"target", " 2001:db8::/64 ", "ttl", "3600", "reason", "asked by abuse desk"}, "block 2001:db8::/64 1h0m0s asked by abuse desk page:anna", "/look?addr=2001%3Adb8%3A%3A%2F64"},
		{"/unblock", []string{"target", "192.0.2.7"}, "unblock 192.0.2.7 0s  page:anna", "/look?addr=192.0.2.7"},
		{"/allow", []string{"target", "192.0.2.7", "reason", "bob"}, "allow 192.0.2.7 168h0m0s bob page:anna", "/look?addr=192.0.2.7"},
		{"/allow", []string{"target", "192.0.2.7", "ttl", "0"}, "allow 192.0.2.7 0s  page:anna", "/look?addr=192.0.2.7"},
		{"/disallow", []string{"target", "192.0.2.7"}, "disallow 192.0.2.7 0s  page:anna", "/look?addr=192.0.2.7"},
		{"/flag/set", []string{"target", "captcha"}, "set captcha 2h0m0s  page:anna", "/#flags"},
		{"/flag/clear", []string{"target", "captcha"}, "clear captcha 0s  page:anna", "/#flags"},
	} {
		d := &fake{}
		b := visit(t, d, nil)
		b.login()
		w := b.order(c.path, c.fields...)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != c.to {
			t.Errorf("%s: %d to %q, want %q", c.want, w.Code, w.Header().Get("Location"), c.to)
		}
		if got := d.given(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if page := b.send("GET", "/", nil).Body.String(); !strings.Contains(page, " done.") {
			t.Errorf("%s: the next page does not say what was done", c.want)
		}
		if page := b.send("GET", "/", nil).Body.String(); strings.Contains(page, " done.") {
			t.Errorf("%s: said twice", c.want)
		}
	}
}

// TestRefusedOrders keeps what was typed.
func TestRefusedOrders(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	d.err = control.BadOrder("192.0.2.7 is allowed")
	w := b.order("/block", "target", "192.0.2.7", "ttl", "3600", "reason", "loud")
	to := w.Header().Get("Location")
	if !strings.HasPrefix(to, "/look?") || !strings.Contains(to, "reason=loud") {
		t.Errorf("led to %q", to)
	}
	d.err = nil
	page := b.send("GET", to, nil).Body.String()
	for _, want := range []string{"Not done: 192.0.2.7 is allowed", `value="loud"`, `value="3600" selected`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, c := range [][]string{{"/block", "ttl", "7"}, {"/block", "ttl", "-600"}, {"/allow", "ttl", "1e9"}, {"/flag/set", "ttl", "0"}} {
		if w := b.order(c[0], "target", "x", c[1], c[2]); w.Code != http.StatusBadRequest {
			t.Errorf("%v: %d, want 400", c, w.Code)
		}
	}
	if len(d.given()) != 0 {
		t.Errorf("carried out %v", d.given())
	}
}

func TestSearch(t *testing.T) {
	b := visit(t, &fake{}, nil)
	b.login()
	for q, want := range map[string]string{
		"192.0.2.7": "", " [2001:db8::1] ": "", "192.0.2.0/28": "", "::ffff:192.0.2.1": "",
		"ssh": "/blocks?q=ssh", "192.0.2.": "/blocks?q=192.0.2.", "fe80::1%eth0": "/blocks?q=fe80%3A%3A1%25eth0", "host.example": "/blocks?q=host.example",
	} {
		w := b.send("GET", "/look?"+url.Values{"addr": {q}}.Encode(), nil)
		if got := w.Header().Get("Location"); got != want || want == "" && w.Code != 200 {
			t.Errorf("%q: %d to %q, want %q", q, w.Code, got, want)
		}
	}
}

func TestPaging(t *testing.T) {
	d := &fake{}
	for i := range 120 {
		d.found = append(d.found, blockOf(fmt.Sprintf("10.0.%d.0/28", i)))
	}
	b := visit(t, d, nil)
	b.login()
	for _, c := range []struct {
		query, first  string
		newer, older  bool
		rows, ofPages int
	}{
		{"", "10.0.0.0/28", false, true, 50, 3},
		{"?page=2", "10.0.50.0/28", true, true, 50, 3},
		{"?page=3", "10.0.100.0/28", true, false, 20, 3},
		{"?page=99", "", true, false, 0, 3},
		{"?page=-1", "10.0.0.0/28", false, true, 50, 3},
		{"?page=99999999999999999999", "10.0.0.0/28", false, true, 50, 3},
		{"?q=10.0.11", "10.0.11.0/28", false, false, 11, 1},
	} {
		page := b.send("GET", "/blocks"+c.query, nil).Body.String()
		if n := strings.Count(page, `<th scope="row">`); n != c.rows {
			t.Errorf("%q: %d rows, want %d", c.query, n, c.rows)
		}
		if !strings.Contains(page, fmt.Sprintf("of %d</span>", c.ofPages)) {
			t.Errorf("%q: not of %d pages", c.query, c.ofPages)
		}
		if strings.Contains(page, `rel="prev"`) != c.newer || strings.Contains(page, `rel="next"`) != c.older {
			t.Errorf("%q: the links to newer and older are not as wanted", c.query)
		}
		if i := strings.Index(page, "10.0."); c.first != "" && !strings.Contains(page[i:min(len(page), i+400)], c.first) && c.query != "?q=10.0.11" {
			t.Errorf("%q does not begin with %s", c.query, c.first)
		}
	}
}

func TestSilentDaemon(t *testing.T) {
	d := &fake{}
	b := visit(t, d, nil)
	b.login()
	d.err = errors.New("stoplog is stopping")
	for _, path := range []string{"/", "/history", "/charts", "/blocks", "/look?addr=192.0.2.1", "/allowed"} {
		w := b.send("GET", path, nil)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "stoplog is stopping") {
			t.Errorf("%s: %d\n%.200s", path, w.Code, w.Body)
		}
	}
}

func TestNoTokenYet(t *testing.T) {
	b := visit(t, &fake{}, func(o *Options) { o.TokenFile = filepath.Join(t.TempDir(), "none") })
	if page := b.send("GET", "/login", nil).Body.String(); !strings.Contains(page, "There is no token yet") {
		t.Error("how to make a token is not told")
	}
	if w := b.send("POST", "/login", url.Values{"token": {""}}); w.Code != http.StatusUnauthorized {
		t.Errorf("an empty token: %d", w.Code)
	}
	if err := os.WriteFile(b.site.tokens, []byte("anna nothex 2026-11-20T09:00:00Z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if page := b.send("GET", "/login", nil).Body.String(); !strings.Contains(page, "cannot be read") {
		t.Error("a broken file of tokens is not told")
	}
}

// TestServe runs the real server over TCP and ends it.
func TestServe(t *testing.T) {
	b := visit(t, &fake{}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, Options{Daemon: &fake{}, TokenFile: b.site.tokens, Log: b.site.log})
	}()
	resp, err := http.Get("http://" + l.Addr().String() + "/login")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("%s", resp.Status)
	}
	req, err := http.NewRequest("GET", "http://"+l.Addr().String()+"/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X", strings.Repeat("x", 64<<10))
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a head of 64 KiB: %s", resp.Status)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil at the end", err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
}

func TestSessionsEnd(t *testing.T) {
	now := time.Now()
	ss, err := newSessions("", now)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() string {
		id, err := ss.begin(httpd.Token{Name: "anna"}, now)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	found := func(id string, at time.Time) bool {
		s, err := ss.find(id, at)
		if err != nil {
			t.Error(err)
		}
		return s != nil
	}
	id := begin()
	for _, c := range []struct {
		name  string
		after time.Duration
		want  bool
	}{
		{"at once", 0, true},
		{"nearly idle", maxIdle, true},
		{"again", maxIdle + maxIdle, true},
		{"idle too long", 3*maxIdle + time.Second, false},
		{"never again", 0, false},
	} {
		if got := found(id, now.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	id = begin()
	for d := time.Duration(0); d <= maxAge; d += maxIdle {
		found(id, now.Add(d))
	}
	if found(id, now.Add(maxAge+time.Second)) {
		t.Error("a busy session outlives its age")
	}
}

// TestConfirm: what touches more than one prefix is asked about first.
func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		name, path, target string
		inside             int
		sure               string
		asks               bool
	}{
		{"one address", "/block", "192.0.2.7", 0, "", false},
		{"the usual prefix", "/block", "192.0.2.0/28", 0, "", false},
		{"a wide one", "/block", "192.0.2.0/24", 0, "", true},
		{"a wide one, confirmed", "/block", "192.0.2.0/24", 0, "0", false},
		{"a wide one of IPv6", "/allow", "2001:db8::/56", 0, "", true},
		{"the usual one of IPv6", "/allow", "2001:db8::/64", 0, "", false},
		{"one block", "/unblock", "192.0.2.0/24", 1, "", false},
		{"three blocks", "/unblock", "192.0.2.0/24", 3, "", true},
		{"three blocks, confirmed", "/unblock", "192.0.2.0/24", 3, "3", false},
		{"more than was confirmed", "/unblock", "192.0.2.0/24", 4, "3", true},
		{"nonsense", "/unblock", "192.0.2.0/24", 3, "yes", true},
		{"an allowance that lifts", "/allow", "192.0.2.0/28", 2, "", true},
	} {
		d := &fake{}
		for i := range c.inside {
			d.inside = append(d.inside, blockOf(fmt.Sprintf("192.0.2.%d/32", i)))
		}
		b := visit(t, d, nil)
		b.login()
		w := b.order(c.path, "target", c.target, "reason", "because", "sure", c.sure)
		if asked := w.Code == http.StatusOK; asked != c.asks || asked == (len(d.given()) > 0) {
			t.Errorf("%s: %d, carried out %v", c.name, w.Code, d.given())
		}
		if page := w.Body.String(); c.asks && (!strings.Contains(page, fmt.Sprintf(`name="sure" value="%d"`, c.inside)) || !strings.Contains(page, `value="because"`)) {
			t.Errorf("%s: the question does not carry the order:\n%s", c.name, page)
		}
	}
}

// TestInside: a prefix that is free itself does not hide what is blocked in it.
func TestInside(t *testing.T) {
	d := &fake{inside: []control.Block{blockOf("192.0.2.7/32")}}
	b := visit(t, d, nil)
	b.login()
	page := b.send("GET", "/look?addr=192.0.2.0/24", nil).Body.String()
	for _, want := range []string{"not blocked as a whole", "one prefix inside it is", "192.0.2.7/32", "Unblock 192.0.2.7/32", "nearby, in 192.0.2.0/24", "6 failures, 9 points", "name: x"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
	if strings.Contains(page, "verdict good") {
		t.Error("it looks free")
	}
	d.inside = nil
	if page := b.send("GET", "/look?addr=192.0.2.0/24", nil).Body.String(); !strings.Contains(page, "is not blocked, and nothing inside it is") {
		t.Errorf("a free prefix:\n%s", page)
	}
}

func TestHistoryPage(t *testing.T) {
	d := &fake{}
	for i := range 120 {
		d.history = append(d.history, control.AuditEntry{Time: time.Now(), What: "block", Prefix: fmt.Sprintf("10.0.%d.0/28", i)})
	}
	b := visit(t, d, nil)
	b.login()
	for _, c := range []struct {
		query        string
		rows, offset int
		newer, older bool
		search       string
	}{{"", 50, 0, false, true, ""}, {"?page=3&q=ssh", 20, 100, true, false, "ssh"}, {"?page=9", 0, 400, true, false, ""}, {"?page=0", 50, 0, false, true, ""}} {
		page := b.send("GET", "/history"+c.query, nil).Body.String()
		q := d.asked[len(d.asked)-1]
		if n := strings.Count(page, `<th scope="row">`); n != c.rows || q.Offset != c.offset || q.Search != c.search {
			t.Errorf("%q: %d rows of %+v", c.query, n, q)
		}
		if strings.Contains(page, `rel="prev"`) != c.newer || strings.Contains(page, `rel="next"`) != c.older {
			t.Errorf("%q: wrong links", c.query)
		}
	}
	asked := len(d.asked)
	b.edit = func(r *http.Request) { r.Header.Set("Stoplog-Refresh", "1") }
	if w := b.send("GET", "/history", nil); w.Code != http.StatusOK || len(d.asked) != asked || strings.Contains(w.Body.String(), "10.0.") {
		t.Error("a refresh read the whole trail")
	}
}

// TestRefreshKeepsTheNotice: what an order did is for the page that a person
// opens, not for the script.
func TestRefreshKeepsTheNotice(t *testing.T) {
	b := visit(t, &fake{}, nil)
	b.login()
	b.order("/allow", "target", "192.0.2.7")
	b.edit = func(r *http.Request) { r.Header.Set("Stoplog-Refresh", "1") }
	b.send("GET", "/blocks", nil)
	b.edit = nil
	if !strings.Contains(b.send("GET", "/", nil).Body.String(), " done.") {
		t.Error("a refresh took the notice")
	}
}

func TestNoSuchPage(t *testing.T) {
	b := visit(t, &fake{}, nil)
	for _, in := range []bool{false, true} {
		if in {
			b.login()
		}
		for path, want := range map[string]int{"/none": 404, "/style.css/x": 404, "/block": 405, "/logout": 405} {
			w := b.send("GET", path, nil)
			page := w.Body.String()
			if w.Code != want || !strings.Contains(page, "<!doctype html>") || strings.Contains(page, "Log out") != in || (want == 405) != (w.Header().Get("Allow") == "POST") {
				t.Errorf("%s: %d, Allow %q\n%s", path, w.Code, w.Header().Get("Allow"), page)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Hour: "0 s", 30 * time.Second: "30 s", 10 * time.Minute: "10 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 days", 7*24*time.Hour - time.Second: "7 days"} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.Local)
	for at, want := range map[time.Time]string{now.Add(-time.Hour): "08:00:00 ", now.AddDate(0, 0, -1): "Nov 21 09:00 ", now.AddDate(-1, 0, 0): "2025-11-22 09:00 "} {
		if got := short(at, now); got != want+at.Format("MST") {
			t.Errorf("short(%s) = %q, want %q and the zone", at, got, want)
		}
	}
	for in, want := range map[string]string{"plain é": "plain é", "a\tb\nc": `a\x09b\x0ac`, "\u202e": `\u202e`, "\xff": `\xff`, "<b>": "<b>", "\u0085": `\u0085`} {
		if got := show(in); got != want {
			t.Errorf("show(%q) = %q, want %q", in, got, want)
		}
	}
	for _, c := range []struct {
		level    float64
		capacity int
		want     int
	}{{3, 5, 60}, {9, 5, 100}, {1, 0, 0}} {
		if got := percent(c.level, c.capacity); got != c.want {
			t.Errorf("percent(%v, %d) = %d, want %d", c.level, c.capacity, got, c.want)
		}
	}
}

func TestChart(t *testing.T) {
	p := period{"4m", "4 minutes", "minute", time.Minute, 4, 1}
	ss := coloured([]control.TrendSeries{{Name: "a", Events: []uint32{0, 1, 75, 50}}, {Name: "b", Events: []uint32{0, 0, 25, 0}}}, 1, 4)
	from := time.Date(2026, 11, 22, 9, 0, 0, 0, time.Local)
	c := newChart("Events", p, from, ss, events)
	if c.Top != 100 || c.Now != 50 || c.All != 151 || len(c.Layers) != 2 || len(c.Hints) != 3 {
		t.Fatalf("%+v", c)
	}
	if want := "M250 100h248v-2h-248zM500 100h248v-75h-248zM750 100h248v-50h-248z"; c.Layers[0].Path != want {
		t.Errorf("the first layer is %s, want %s", c.Layers[0].Path, want)
	}
	if want := "M500 25h248v-25h-248z"; c.Layers[1].Path != want {
		t.Errorf("the second layer is %s, want %s, on top of the first", c.Layers[1].Path, want)
	}
	if want := "09:02: 100 (a 75, b 25)"; c.Hints[1].Text != want {
		t.Errorf("the tallest bar says %q, want %q", c.Hints[1].Text, want)
	}
	if want := "Events from 09:00 to 09:03: 151 in total, at most 100, at 09:02"; c.Said != want {
		t.Errorf("in words: %q, want %q", c.Said, want)
	}
	if c := newChart("x", p, from, nil, events); len(c.Layers) != 0 || c.Said == "" {
		t.Errorf("%+v", c)
	}
}

// TestColours: what has no colour of its own is added up, and nothing is lost.
func TestColours(t *testing.T) {
	for n := range 12 {
		var ss []control.TrendSeries
		for i := range n {
			ss = append(ss, control.TrendSeries{Name: fmt.Sprint(i), Events: []uint32{1, 2, 3, 4}, Breaches: []uint32{1, 0, 0, 0}, Blocks: []uint32{0, 0, 0, 1}})
		}
		out := coloured(ss, 2, 4)
		rows := rowsOf(out)
		var events uint64
		for _, r := range rows {
			events += r.Events
		}
		if len(out) != min(n, colours+1) || events != uint64(10*n) {
			t.Errorf("of %d series %d are drawn with %d events, want %d with %d", n, len(out), events, min(n, colours+1), 10*n)
		}
		if n > 0 && (len(out[0].Events) != 2 || out[0].Events[1] != 7) {
			t.Errorf("two bins in one bar: %v, want [3 7]", out[0].Events)
		}
		if n > colours+1 && out[colours].Name != "others" || n == colours+1 && out[colours].Name != "6" {
			t.Errorf("of %d series the last is %q", n, out[colours].Name)
		}
	}
}

func TestCharts(t *testing.T) {
	d := &fake{series: 20}
	b := visit(t, d, nil)
	b.login()
	for _, c := range []struct {
		query, unit   string
		bins          int
		ago           time.Duration // of the first bin
		before, after string
	}{
		{"", "minute", 60, 59 * time.Minute, "/charts?back=1&amp;by=rule&amp;span=1h", ""},
		{"?span=24h&by=service&back=2", "hour", 24, 71 * time.Hour, "/charts?back=3&amp;by=service&amp;span=24h", "/charts?back=1&amp;by=service&amp;span=24h"},
		{"?span=1h&back=22", "minute", 60, 1379 * time.Minute, "back=23", "back=21"},
		{"?span=1h&back=23", "minute", 60, 1439 * time.Minute, "", "back=22"},
		{"?span=7d", "hour", 168, 167 * time.Hour, "back=1", ""},
		{"?span=90d&back=3", "day", 90, 359 * 24 * time.Hour, "", "back=2"},
		{"?span=1y", "day", 364, 363 * 24 * time.Hour, "", ""},
		{"?span=<x>&by=y&back=-1", "minute", 60, 59 * time.Minute, "back=1", ""},
		{"?back=99999999999", "minute", 60, 59 * time.Minute, "back=1", ""},
	} {
		w := b.send("GET", "/charts"+c.query, nil)
		page := w.Body.String()
		q := d.trends[len(d.trends)-1]
		step := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[c.unit]
		if late := time.Since(q.From.Add(c.ago)); q.Unit != c.unit || q.Bins != c.bins || late < 0 || late > step+time.Minute {
			t.Errorf("%q asks for %+v, want %d bins of a %s from %s ago", c.query, q, c.bins, c.unit, c.ago)
		}
		for _, x := range []struct{ rel, want string }{{"prev", c.before}, {"next", c.after}} {
			has := strings.Contains(page, `rel="`+x.rel+`"`)
			if has != (x.want != "") || !strings.Contains(page, x.want) {
				t.Errorf("%q: the link %s is there: %v, want %q", c.query, x.rel, has, x.want)
			}
		}
		if n := strings.Count(page, `<th scope="row"`); n != colours+1 {
			t.Errorf("%q: a table of %d rows, want %d", c.query, n, colours+1)
		}
		if len(page) > 100_000 {
			t.Errorf("%q: a busy page takes %d bytes, want at most 100 kB", c.query, len(page))
		}
	}
	asked := len(d.trends)
	b.edit = func(r *http.Request) { r.Header.Set("Stoplog-Refresh", "1") }
	if w := b.send("GET", "/charts?span=90d", nil); w.Code != http.StatusOK || len(d.trends) != asked {
		t.Error("a refresh counts 90 days again")
	}
}

func TestPresent(t *testing.T) {
	there, absent := present([]control.SourceStatus{
		{Name: "a", State: "following"}, {Name: "b", State: "waiting", Why: "missing"}, {Name: "c", State: "waiting", Why: "no file matches"},
		{Name: "d", State: "waiting", Why: "unreadable: permission denied"}, {Name: "e", State: "waiting", Why: "missing", Lines: 7},
	})
	if len(there) != 3 || len(absent) != 2 || there[1].Name != "d" || there[2].Name != "e" {
		t.Errorf("there %v, absent %v: what was read or cannot be read is not absent", there, absent)
	}
}

// TestUndo: an order can be taken back once, soon, and only when the state
// before it can be made again.
func TestUndo(t *testing.T) {
	const target = "192.0.2.7"
	rule, limited := blockOf("192.0.2.0/28"), blockOf("192.0.2.0/28")
	limited.Limited = true
	exact := blockOf("192.0.2.7/32")
	exact.Rule, exact.Reason = "by hand", "asked"
	for _, c := range []struct {
		name, path string
		found      []control.Block
		want       []string // nil: no undo is offered
	}{
		{"block", "/block", nil, []string{"unblock 192.0.2.7 0s"}},
		{"block inside another", "/block", []control.Block{rule}, nil},
		{"unblock", "/unblock", []control.Block{rule}, []string{"block 192.0.2.0/28 1h0m0s undone unblock of rule ssh-login"}},
		{"unblock of one by hand", "/unblock", []control.Block{exact}, []string{"block 192.0.2.7/32 1h0m0s asked"}},
		{"unblock of ports", "/unblock", []control.Block{limited}, nil},
		{"unblock of nothing", "/unblock", nil, nil},
		{"allow", "/allow", nil, []string{"disallow 192.0.2.7 0s"}},
		{"allow that lifts", "/allow", []control.Block{exact}, []string{"disallow 192.0.2.7 0s", "block 192.0.2.7/32 1h0m0s asked"}},
		{"allow inside a block", "/allow", []control.Block{rule}, []string{"disallow 192.0.2.7 0s"}},
		{"disallow", "/disallow", nil, nil},
	} {
		d := &fake{found: c.found}
		b := visit(t, d, nil)
		b.login()
		to := b.order(c.path, "target", target).Header().Get("Location")
		m := undoField.FindStringSubmatch(b.send("GET", to, nil).Body.String())
		if (m != nil) != (c.want != nil) {
			t.Errorf("%s: an undo is offered: %v, want %v", c.name, m != nil, c.want != nil)
			continue
		}
		if m == nil {
			continue
		}
		b.order("/undo", "id", "another")
		if got := d.given(); len(got) != 1 {
			t.Errorf("%s: another form's id gave %q", c.name, got[1:])
		}
		b.order("/undo", "id", m[1])
		b.order("/undo", "id", m[1])
		got := d.given()[1:]
		for i := range got {
			got[i] = strings.TrimSpace(strings.TrimSuffix(got[i], "page:anna"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: undone by %q, want %q", c.name, got, c.want)
		}
	}
	b := visit(t, &fake{}, nil)
	b.login()
	b.order("/block", "target", target)
	m := undoField.FindStringSubmatch(b.send("GET", "/", nil).Body.String())
	for _, s := range b.site.sessions.by {
		s.undo.until = time.Now().Add(-time.Second)
	}
	b.order("/undo", "id", m[1])
	if page := b.send("GET", "/", nil).Body.String(); !strings.Contains(page, "too late to undo") {
		t.Error("an undo that comes too late is not refused")
	}
}

var undoField = regexp.MustCompile(`name="id" value="([^"]+)"`)

func TestFleetOnPage(t *testing.T) {
	d := &fake{text: "<i>"}
	b := visit(t, d, nil)
	b.login()
	if strings.Contains(b.send("GET", "/", nil).Body.String(), "s-fleet") {
		t.Error("a fleet is shown where there is none")
	}
	d.fleet = &fleet.Status{Node: "web1", Mode: "on", Connected: true, Since: time.Now(), Nodes: []fleet.Peer{{Name: "web2<i>", Keys: 7, Refused: 3, Why: "wrong signature", Differ: []string{"ssh-login"}}}}
	page := b.send("GET", "/", nil).Body.String()
	for _, want := range []string{"web1: connected since", "web2&lt;i&gt;", "other settings of ssh-login", "wrong signature"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	d.fleet.Connected, d.fleet.Error = false, "connection refused"
	if page := b.send("GET", "/", nil).Body.String(); !strings.Contains(page, "counting alone") || !strings.Contains(page, "connection refused") {
		t.Error("a lost engine is not told")
	}
}
