package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/httpd"
)

// FuzzRequests sends whatever to a site where somebody has logged in: nothing
// is ordered without the form's token, nothing fails, and what comes back is
// text that is what it seems.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/look?addr=192.0.2.1&do=allow&reason=%1b%5b31m", "", "localhost")
	f.Add("GET", "/blocks?q=%ff%00&page=-1", "", "127.0.0.1:80")
	f.Add("GET", "/?do=flag/set&target=%22%3E%3Cscript%3E&ttl=x", "", "[::1]")
	f.Add("POST", "/block", "target=192.0.2.7&csrf=x&reason=%3Cb%3E", "localhost")
	f.Add("POST", "/login", "token=%00&do=block&target=%22", "localhost")
	f.Add("POST", "/flag/set", "target=a;b=%zz&ttl=600", "evil.example")
	d := &fake{found: []control.Block{blockOf("192.0.2.0/28")}}
	b := visit(f, d, func(o *Options) { o.SessionFile = "" })
	ts, err := httpd.ReadTokens(b.site.tokens)
	if err != nil || len(ts) != 1 {
		f.Fatal(ts, err)
	}
	f.Fuzz(func(t *testing.T, method, target, body, host string) {
		cookie, _ := b.site.sessions.begin(ts[0], time.Now())
		r, err := http.NewRequest(method, "http://x"+target, strings.NewReader(body))
		if err != nil {
			return // no request that a server would see
		}
		r.RequestURI, r.Host, r.RemoteAddr = target, host, "127.0.0.1:9"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+host)
		r.AddCookie(&http.Cookie{Name: "stoplog", Value: cookie})
		w := httptest.NewRecorder()
		b.h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%s %q: %d\n%s", method, target, w.Code, w.Body)
		}
		if g := d.given(); len(g) > 0 {
			t.Errorf("%s %q %q ordered %q without the form's token", method, target, body, g)
			d.orders = nil
		}
		if page := w.Body.String(); strings.ContainsAny(page, "\x00\x1b\u202e\u2028") {
			t.Errorf("%s %q: marks that cannot be seen reached the page:\n%q", method, target, page)
		}
		if l := w.Header().Get("Location"); l != "" && (!strings.HasPrefix(l, "/") || strings.HasPrefix(l, "//")) {
			t.Errorf("%s %q led to %q", method, target, l)
		}
	})
}
