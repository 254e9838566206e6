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
)

// frame is what every page inside shows.
type frame struct {
	Title string
	Name  string // of the token
	CSRF  string
	Flash notice
	Query string // of the search box
	Now   time.Time
}

func (s *site) frame(who *session, title string) frame {
	return frame{Title: title, Name: who.token.Name, CSRF: who.csrf, Flash: s.sessions.said(who), Now: time.Now()}
}

// render writes a page as a whole, or none of it.
func (s *site) render(w http.ResponseWriter, code int, name string, v any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, v); err != nil {
		s.log.Error("page", "template", name, "problem", err.Error())
		http.Error(w, "This page cannot be shown; the daemon's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // a client that went away won't hear of it
}

// trouble is the page for a daemon that does not answer.
func (s *site) trouble(w http.ResponseWriter, who *session, err error) {
	v := struct {
		frame
		Why string
	}{s.frame(who, "No answer"), why(err)}
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
	Full   []control.Level
	// Absent are sources that wait for files that do not exist.
	Absent []control.SourceStatus
}

func (s *site) overview(ctx context.Context, who *session) (v liveView, err error) {
	v.CSRF, v.Now = who.csrf, time.Now()
	if v.Status, err = s.daemon.Status(ctx); err != nil {
		return v, err
	}
	v.Status.Sources, v.Absent = present(v.Status.Sources)
	l, err := s.daemon.Live(ctx)
	if err != nil {
		return v, err
	}
	v.Events = newChart("Events a minute", l.Minutes, func(m control.Minute) uint64 { return m.Events })
	v.Blocks = newChart("New blocks a minute", l.Minutes, func(m control.Minute) uint64 { return m.Blocks })
	v.Full = l.Fullest[:min(len(l.Fullest), 10)]
	v.Found, err = s.daemon.Find(ctx, control.BlockQuery{Limit: frontBlocks})
	return v, err
}

// present tells sources that are there from those that may never be: ready
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
		s.trouble(w, who, err)
		return
	}
	v := struct {
		frame
		Live  liveView
		Draft draft
		Times []choice
	}{s.frame(who, "Overview"), live, draftOf(r), flagTimes}
	if !v.Draft.OfFlag() {
		v.Draft = draft{TTL: "7200"}
	}
	s.render(w, http.StatusOK, "front.html", v)
}

// live is the moving part alone, for the refresh.
func (s *site) live(w http.ResponseWriter, r *http.Request, who *session) {
	v, err := s.overview(r.Context(), who)
	if err != nil {
		http.Error(w, why(err), http.StatusServiceUnavailable)
		return
	}
	s.render(w, http.StatusOK, "live", v)
}

// blocks lists what is blocked, a page at a time.
func (s *site) blocks(w http.ResponseWriter, r *http.Request, who *session) {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || page < 1 || page > maxPage {
		page = 1
	}
	q := trimmed(r, "q")
	found, err := s.daemon.Find(r.Context(), control.BlockQuery{Search: q, Offset: (page - 1) * pageBlocks, Limit: pageBlocks})
	if err != nil {
		s.trouble(w, who, err)
		return
	}
	v := struct {
		frame
		Found         control.BlockPage
		Page, Pages   int
		Before, After string // links
	}{frame: s.frame(who, "Blocks"), Found: found, Page: page, Pages: max(1, (found.Matches+pageBlocks-1)/pageBlocks)}
	v.Query = q
	link := func(n int) string {
		return "/blocks?" + url.Values{"q": {q}, "page": {strconv.Itoa(n)}}.Encode()
	}
	if page > 1 {
		v.Before = link(min(page-1, v.Pages))
	}
	if page < v.Pages {
		v.After = link(page + 1)
	}
	s.render(w, http.StatusOK, "blocks.html", v)
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

// look tells all of one address or prefix and offers what can be done. What
// is no address is searched for among the blocks.
func (s *site) look(w http.ResponseWriter, r *http.Request, who *session) {
	text := trimmed(r, "addr")
	p, ok := readTarget(text)
	if !ok {
		http.Redirect(w, r, "/blocks?"+url.Values{"q": {text}}.Encode(), http.StatusSeeOther)
		return
	}
	x, err := s.daemon.Explain(r.Context(), p.Addr().String())
	if err != nil {
		s.trouble(w, who, err)
		return
	}
	v := struct {
		frame
		Target     string
		Single     bool
		X          control.Explanation
		Draft      draft
		BlockTimes []choice
		AllowTimes []choice
	}{frame: s.frame(who, shortly(p)), Target: shortly(p), Single: p.IsSingleIP(), X: x, Draft: draftOf(r), BlockTimes: blockTimes, AllowTimes: allowTimes}
	v.Query = v.Target
	if v.Draft.OfFlag() {
		v.Draft = draft{}
	}
	s.render(w, http.StatusOK, "look.html", v)
}

func (s *site) allowed(w http.ResponseWriter, r *http.Request, who *session) {
	as, err := s.daemon.Allowed(r.Context())
	if err != nil {
		s.trouble(w, who, err)
		return
	}
	const most = 1000
	v := struct {
		frame
		Entries []control.AllowEntry
		More    int
	}{s.frame(who, "Allowed"), as[:min(len(as), most)], max(0, len(as)-most)}
	s.render(w, http.StatusOK, "allowed.html", v)
}
