package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// policy is the Content-Security-Policy: all that the page needs is its own,
// and no script or style stands in the HTML. connect-src is for the refresh.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard refuses what did not come from the page itself or from whom it is
// for, before anything is looked at.
func (s *site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		// Not no-referrer: with it browsers send "Origin: null" with our own
		// forms (Fetch, "append a request Origin header"). Others learn nothing
		// from this one either.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if code, why := s.refuse(r); code != 0 {
			s.log.Debug("page: refused", "why", why, "addr", r.RemoteAddr)
			http.Error(w, why, code)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// refuse returns why a request is not answered; 0: it is.
func (s *site) refuse(r *http.Request) (code int, why string) {
	switch {
	case s.clients != nil && !s.clients.HoldsPeer(r):
		return http.StatusForbidden, "Your address is not allowed here."
	case !s.ourName(r.Host):
		return http.StatusMisdirectedRequest, "This page is not configured for the host name in your address bar. Use the IP address, or add the name to listen.page.hosts."
	case r.Method != http.MethodGet && r.Method != http.MethodHead && !sameOrigin(r):
		return http.StatusForbidden, "This request did not come from the page itself. Nothing was changed."
	}
	return 0, ""
}

// ourName reports whether a Host header names this page. An attacker's name
// can be made to lead here (DNS rebinding), an address cannot.
func (s *site) ourName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	return slices.Contains(s.hosts, host)
}

// sameOrigin reports whether the browser says that a request comes from a
// page of ours. One that says nothing at all is not believed.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "http" || u.Scheme == "https")
}
