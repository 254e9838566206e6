package web

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// cookieName is of the session's cookie. Behind a proxy with TLS the name
// binds it to that (RFC 6265bis, "__Host-").
func cookieName(r *http.Request) string {
	if secure(r) {
		return "__Host-stoplog"
	}
	return "stoplog"
}

// secure reports whether the browser speaks TLS, to us or to a proxy that
// says so. Who lies here spoils only their own cookie.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode}
}

// loginView is what the login page shows.
type loginView struct {
	Title   string
	Why     string // what went wrong
	Draft   draft
	NoToken bool // the file holds none: how to make one is told
}

func (s *site) showLogin(w http.ResponseWriter, r *http.Request) {
	if s.session(r) != nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	s.askToLogIn(w, http.StatusOK, "", draft{})
}

func (s *site) askToLogIn(w http.ResponseWriter, code int, why string, d draft) {
	v := loginView{Title: "Log in", Why: why, Draft: d}
	ts, err := ReadTokens(s.tokens)
	switch {
	case err != nil:
		s.log.Warn("page", "problem", err.Error())
		v.Why = "Nobody can log in: the tokens cannot be read. The daemon's log says why."
	case len(ts) == 0:
		v.NoToken = true
	}
	s.render(w, code, "login.html", v)
}

func (s *site) login(w http.ResponseWriter, r *http.Request) {
	d, now := draftOf(r), time.Now()
	addr, _ := peer(r)
	place := placeOf(addr)
	if wait := s.attempts.wait(place, now); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		s.askToLogIn(w, http.StatusTooManyRequests, fmt.Sprintf("Too many wrong tokens from your network. Wait %s, then try again.", span(wait+time.Second)), d)
		return
	}
	ts, _ := ReadTokens(s.tokens) // what is wrong with it, askToLogIn tells
	t, ok := match(ts, trimmed(r, "token"))
	if !ok {
		s.attempts.wrong(place, now)
		s.log.Warn("page: login refused", "addr", r.RemoteAddr)
		s.askToLogIn(w, http.StatusUnauthorized, "This token is not right.", d)
		return
	}
	if c, err := r.Cookie(cookieName(r)); err == nil {
		s.sessions.end(c.Value) // an id from before the login is never kept
	}
	http.SetCookie(w, cookie(r, s.sessions.begin(t, now), 0))
	s.log.Info("page: login", "name", t.Name, "addr", r.RemoteAddr)
	http.Redirect(w, r, d.URL(), http.StatusSeeOther)
}

func (s *site) logout(w http.ResponseWriter, r *http.Request) {
	if who := s.session(r); who != nil {
		if !rightForm(r, who) {
			s.stale(w, r, who)
			return
		}
		if c, err := r.Cookie(cookieName(r)); err == nil {
			s.sessions.end(c.Value)
		}
	}
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
