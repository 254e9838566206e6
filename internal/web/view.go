package web

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/control"
)

const (
	frontBlocks = 10
	pageBlocks  = 50
	maxPage     = 1 << 20
	maxAllowed  = 1000
)

// frame is what every page inside shows.
type frame struct {
	Title string
	Name  string // of the token
	CSRF  string
	Flash notice
	Query string // of the search box
	Path  string // of this page, for the navigation
	// Refresh is the address that the script asks for the page's news.
	Refresh string
	Now     time.Time
}

func (s *site) frame(r *http.Request, who *session, title string) frame {
	f := frame{Title: title, Name: who.token.Name, CSRF: who.csrf, Path: r.URL.Path, Refresh: "/", Now: time.Now()}
	if r.Method == http.MethodGet {
		f.Refresh = r.URL.RequestURI()
	}
	if !refreshing(r) {
		f.Flash = s.sessions.said(who)
	}
	return f
}

// render writes a page as a whole, or none of it.
func (s *site) render(w http.ResponseWriter, code int, name string, v any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, v); err != nil {
		s.log.Error("page", "template", name, "problem", err.Error())
		http.Error(w, "This page cannot be shown. See the daemon's log.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a client that went away won't hear of it
}

// trouble is the page for a daemon that does not answer.
func (s *site) trouble(w http.ResponseWriter, r *http.Request, who *session, err error) {
	v := struct {
		frame
		Why string
	}{s.frame(r, who, "No answer"), why(err)}
	s.render(w, http.StatusServiceUnavailable, "trouble.html", v)
}

// liveView is what moves on the front page.
type liveView struct {
	CSRF   string
	Now    time.Time
	Status control.Status
	Events chart
	Blocks chart
	Found  control.BlockPage
	Close  []control.Level // the fullest buckets of those not blocked
	// Absent are sources that wait for files that do not exist, Idle rules that
	// have matched nothing.
	Absent []control.SourceStatus
	Busy   []control.RuleStatus
	Idle   []control.RuleStatus
}

func (s *site) overview(ctx context.Context, who *session) (v liveView, err error) {
	v.CSRF, v.Now = who.csrf, time.Now()
	if v.Status, err = s.daemon.Status(ctx); err != nil {
		return v, err
	}
	v.Status.Sources, v.Absent = present(v.Status.Sources)
	for _, r := range v.Status.RuleStats {
		if r.Matched == 0 && r.Breaches == 0 {
			v.Idle = append(v.Idle, r)
		} else {
			v.Busy = append(v.Busy, r)
		}
	}
	l, err := s.daemon.Live(ctx)
	if err != nil {
		return v, err
	}
	p := periods[0]
	from := p.from(v.Now, 0)
	t, err := s.daemon.Trend(ctx, control.TrendQuery{Unit: p.unit, From: from, Bins: p.bins})
	if err != nil {
		return v, err
	}
	v.Events = newChart("Events per minute, by service", p, from, coloured(t.Services, p.group, p.bins), events)
	v.Blocks = newChart("New blocks per minute, by rule", p, from, coloured(t.Rules, p.group, p.bins), blocks)
	v.Close = l.Fullest[:min(len(l.Fullest), 10)]
	v.Found, err = s.daemon.Find(ctx, control.BlockQuery{Limit: frontBlocks})
	return v, err
}

// present separates sources that exist from those that may never: ready
// rules look for the logs of many programs.
func present(all []control.SourceStatus) (there, absent []control.SourceStatus) {
	for _, x := range all {
		if x.State == "waiting" && (x.Why == "missing" || x.Why == "no file matches") && x.Lines == 0 {
			absent = append(absent, x)
		} else {
			there = append(there, x)
		}
	}
	return there, absent
}

func (s *site) front(w http.ResponseWriter, r *http.Request, who *session) {
	live, err := s.overview(r.Context(), who)
	if err != nil {
		s.trouble(w, r, who, err)
		return
	}
	v := struct {
		frame
		Live  liveView
		Draft draft
		Times []choice
	}{s.frame(r, who, "Overview"), live, draftOf(r), flagTimes}
	if !v.Draft.OfFlag() {
		v.Draft = draft{TTL: "7200"}
	}
	s.render(w, http.StatusOK, "front.html", v)
}

// pages are the numbers and links of a list that is shown a page at a time.
type pages struct {
	Page          int
	Before, After string // links
}

func pageOf(r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || n < 1 || n > maxPage {
		return 1
	}
	return n
}

// turn makes the links of page n; last is the last one with anything on it.
func turn(path, q string, n, last int) pages {
	link := func(n int) string {
		return path + "?" + url.Values{"q": {q}, "page": {strconv.Itoa(n)}}.Encode()
	}
	p := pages{Page: n}
	if n > 1 {
		p.Before = link(min(n-1, last))
	}
	if n < last {
		p.After = link(n + 1)
	}
	return p
}

// blocks lists what is blocked, a page at a time.
func (s *site) blocks(w http.ResponseWriter, r *http.Request, who *session) {
	page, q := pageOf(r), trimmed(r, "q")
	found, err := s.daemon.Find(r.Context(), control.BlockQuery{Search: q, Offset: (page - 1) * pageBlocks, Limit: pageBlocks})
	if err != nil {
		s.trouble(w, r, who, err)
		return
	}
	last := max(1, (found.Matches+pageBlocks-1)/pageBlocks)
	v := struct {
		frame
		pages
		Found control.BlockPage
		Pages int
	}{s.frame(r, who, "Blocks"), turn("/blocks", q, page, last), found, last}
	v.Query = q
	s.render(w, http.StatusOK, "blocks.html", v)
}

// history shows the audit trail, a page at a time.
func (s *site) history(w http.ResponseWriter, r *http.Request, who *session) {
	page, q := pageOf(r), trimmed(r, "q")
	v := struct {
		frame
		pages
		Entries []control.AuditEntry
		Still   bool // the list is left as it is: reading the trail is dear
	}{frame: s.frame(r, who, "History"), Still: refreshing(r)}
	v.Query = q
	if !v.Still {
		es, err := s.daemon.History(r.Context(), control.HistoryQuery{Search: q, Offset: (page - 1) * pageBlocks, Limit: pageBlocks + 1})
		if err != nil {
			s.trouble(w, r, who, err)
			return
		}
		last := page
		if len(es) > pageBlocks {
			es, last = es[:pageBlocks], page+1
		}
		v.Entries, v.pages = es, turn("/history", q, page, last)
	}
	s.render(w, http.StatusOK, "history.html", v)
}

// readTarget reads an address or a prefix as a person types it.
func readTarget(s string) (netip.Prefix, bool) {
	s = strings.Trim(strings.TrimSpace(s), "[]")
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

// shortly is a prefix as a person writes it: single addresses without length.
func shortly(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func lookURL(target string) string { return "/look?" + url.Values{"addr": {target}}.Encode() }

// look shows all that is known of one address or prefix and offers what can
// be done. Text that is no address is searched for among the blocks.
func (s *site) look(w http.ResponseWriter, r *http.Request, who *session) {
	text := trimmed(r, "addr")
	p, ok := readTarget(text)
	if !ok {
		http.Redirect(w, r, "/blocks?"+url.Values{"q": {text}}.Encode(), http.StatusSeeOther)
		return
	}
	x, err := s.daemon.Explain(r.Context(), p.String())
	if err != nil {
		s.trouble(w, r, who, err)
		return
	}
	v := struct {
		frame
		Target     string
		Single     bool
		X          control.Explanation
		Levels     []control.Level // that are not empty
		Empty      int
		Lifts      []control.Block // what an unblock would end
		Draft      draft
		BlockTimes []choice
		AllowTimes []choice
	}{frame: s.frame(r, who, shortly(p)), Target: shortly(p), Single: p.IsSingleIP(), X: x, Draft: draftOf(r), BlockTimes: blockTimes, AllowTimes: allowTimes}
	v.Query = v.Target
	for _, l := range x.Levels {
		if l.Level > 0 {
			v.Levels = append(v.Levels, l)
		}
	}
	v.Empty = len(x.Levels) - len(v.Levels)
	v.Lifts = append(v.Lifts, x.Blocked...)
	v.Lifts = append(v.Lifts, x.Inside...)
	if v.Draft.OfFlag() {
		v.Draft = draft{}
	}
	s.render(w, http.StatusOK, "look.html", v)
}

func (s *site) allowed(w http.ResponseWriter, r *http.Request, who *session) {
	as, err := s.daemon.Allowed(r.Context())
	if err != nil {
		s.trouble(w, r, who, err)
		return
	}
	v := struct {
		frame
		Entries []control.AllowEntry
		More    int
		Draft   draft
		Times   []choice
	}{s.frame(r, who, "Allowed"), as[:min(len(as), maxAllowed)], max(0, len(as)-maxAllowed), draftOf(r), allowTimes}
	if v.Draft.Do != "allow" {
		v.Draft = draft{TTL: "604800"}
	}
	s.render(w, http.StatusOK, "allowed.html", v)
}
