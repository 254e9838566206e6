package web

import (
	"context"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/httpd"
)

//go:embed assets
var assets embed.FS

// site answers requests. It may be used from several goroutines.
type site struct {
	daemon   control.Daemon
	tokens   string // the file
	clients  *httpd.Peers
	hosts    []string
	log      *slog.Logger
	pages    *template.Template
	sessions *sessions
	wrong    *httpd.Guesses
}

func newSite(o Options) (*site, error) {
	pages, err := template.New("").Funcs(words()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, err
	}
	clients, err := httpd.NewPeers(o.Clients)
	if err != nil {
		return nil, err
	}
	held, err := newSessions(o.SessionFile, time.Now())
	if err != nil {
		o.Log.Warn("page: everybody must log in again", "problem", err.Error())
	}
	return &site{
		daemon: o.Daemon, tokens: o.TokenFile, clients: clients, hosts: o.Hosts, log: o.Log, pages: pages,
		sessions: held, wrong: httpd.NewGuesses(),
	}, nil
}

func (s *site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /style.css", asset("style.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /script.js", asset("script.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /login", s.showLogin)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /{$}", s.inside(s.front))
	mux.HandleFunc("GET /blocks", s.inside(s.blocks))
	mux.HandleFunc("GET /charts", s.inside(s.charts))
	mux.HandleFunc("GET /history", s.inside(s.history))
	mux.HandleFunc("GET /look", s.inside(s.look))
	mux.HandleFunc("GET /allowed", s.inside(s.allowed))
	mux.HandleFunc("POST /block", s.order("block", s.daemon.Block))
	mux.HandleFunc("POST /unblock", s.order("unblock", s.daemon.Unblock))
	mux.HandleFunc("POST /allow", s.order("allow", s.daemon.Allow))
	mux.HandleFunc("POST /disallow", s.order("disallow", s.daemon.Disallow))
	mux.HandleFunc("POST /undo", s.undo)
	mux.HandleFunc("POST /flag/set", s.flagOrder("flag/set", s.daemon.SetFlag))
	mux.HandleFunc("POST /flag/clear", s.flagOrder("flag/clear", s.daemon.ClearFlag))
	mux.HandleFunc("/", s.notFound(mux))
	return s.guard(mux)
}

func asset(name, kind string) http.HandlerFunc {
	data, err := assets.ReadFile("assets/" + name)
	return func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // a client that went away won't hear of it
	}
}

// refreshing reports whether the page's script asks, for a page that is open
// already.
func refreshing(r *http.Request) bool { return r.Header.Get("Stoplog-Refresh") != "" }

// inside passes on requests of those who have logged in; others get the login.
func (s *site) inside(do func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := s.session(r)
		if who == nil {
			if refreshing(r) {
				http.Error(w, "log in again", http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "/login", http.StatusSeeOther)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		do(w, r.WithContext(ctx), who)
	}
}

// session is the login that a request belongs to, nil for none.
func (s *site) session(r *http.Request) *session {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	who, err := s.sessions.find(c.Value, time.Now())
	s.complain(err)
	if who == nil {
		return nil
	}
	ts, err := httpd.ReadTokens(s.tokens)
	if err != nil {
		s.complain(err)
		return nil
	}
	for _, t := range ts {
		if t.Name == who.token.Name && t.Hash == who.token.Hash && t.Made.Equal(who.token.Made) {
			return who
		}
	}
	s.complain(s.sessions.end(c.Value)) // its token was removed
	return nil
}

// complain logs what went wrong, if anything did.
func (s *site) complain(err error) {
	if err != nil {
		s.log.Warn("page", "problem", err.Error())
	}
}

// notFound answers requests for pages that do not exist, or that are only
// forms' targets.
func (s *site) notFound(mux *http.ServeMux) http.HandlerFunc {
	methods := []string{http.MethodGet, http.MethodPost}
	return func(w http.ResponseWriter, r *http.Request) {
		v := missing{Code: http.StatusNotFound}
		for _, m := range methods {
			other := r.Clone(r.Context())
			if other.Method = m; r.Method == m {
				continue
			}
			if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
				v.Code = http.StatusMethodNotAllowed
				w.Header().Add("Allow", m)
			}
		}
		if who := s.session(r); who != nil {
			v.frame, v.In = s.frame(r, who, "No such page"), true
			v.Refresh = "/" // this address has no news
		}
		v.Title = "No such page"
		s.render(w, v.Code, "missing.html", v)
	}
}

type missing struct {
	frame
	Code int
	In   bool // somebody has logged in
}
