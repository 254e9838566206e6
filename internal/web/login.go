package web

import (
	"fmt"
	"net/http"
	"time"

	"stoplog/internal/httpd"
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
	ts, err := httpd.ReadTokens(s.tokens)
	switch {
	case err != nil:
		s.complain(err)
		v.Why = "Login is not possible: the tokens cannot be read. See the daemon's log."
	case len(ts) == 0:
		v.NoToken = true
	}
	s.render(w, code, "login.html", v)
}

func (s *site) login(w http.ResponseWriter, r *http.Request) {
	d, now := draftOf(r), time.Now()
	ts, _ := httpd.ReadTokens(s.tokens) // askToLogIn reports what is wrong with it
	t, ok := httpd.FindToken(ts, trimmed(r, "token"))
	if !ok {
		if wait := s.wrong.Wrong(r, now); wait > 0 {
			httpd.TooMany(w, wait)
			s.askToLogIn(w, http.StatusTooManyRequests, fmt.Sprintf("Too many wrong tokens from your address. Wait %s before you try again.", span(wait+time.Second)), d)
			return
		}
		s.log.Warn("page: login refused", "addr", r.RemoteAddr)
		s.askToLogIn(w, http.StatusUnauthorized, "Wrong token.", d)
		return
	}
	if c, err := r.Cookie(cookieName(r)); err == nil {
		s.complain(s.sessions.end(c.Value)) // an id from before the login is never kept
	}
	id, err := s.sessions.begin(t, now)
	s.complain(err)
	http.SetCookie(w, cookie(r, id, 0))
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
			s.complain(s.sessions.end(c.Value))
		}
	}
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
