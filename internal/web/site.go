package web

import (
	"context"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"stoplog/internal/control"
)

//go:embed assets
var assets embed.FS

// site answers requests. It may be used from several goroutines.
type site struct {
	daemon   control.Daemon
	tokens   string // the file
	clients  []netip.Prefix
	hosts    []string
	log      *slog.Logger
	pages    *template.Template
	sessions *sessions
	attempts *attempts
}

func newSite(o Options) (*site, error) {
	pages, err := template.New("").Funcs(words()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, err
	}
	return &site{
		daemon: o.Daemon, tokens: o.TokenFile, clients: o.Clients, hosts: o.Hosts, log: o.Log, pages: pages,
		sessions: newSessions(), attempts: newAttempts(),
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
	mux.HandleFunc("GET /live", s.inside(s.live))
	mux.HandleFunc("GET /blocks", s.inside(s.blocks))
	mux.HandleFunc("GET /look", s.inside(s.look))
	mux.HandleFunc("GET /allowed", s.inside(s.allowed))
	mux.HandleFunc("POST /block", s.order("block", s.daemon.Block))
	mux.HandleFunc("POST /unblock", s.order("unblock", s.daemon.Unblock))
	mux.HandleFunc("POST /allow", s.order("allow", s.daemon.Allow))
	mux.HandleFunc("POST /disallow", s.order("disallow", s.daemon.Disallow))
	mux.HandleFunc("POST /flag/set", s.flagOrder("flag/set", s.daemon.SetFlag))
	mux.HandleFunc("POST /flag/clear", s.flagOrder("flag/clear", s.daemon.ClearFlag))
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

// inside lets through who has logged in; others are asked to.
func (s *site) inside(do func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := s.session(r)
		if who == nil {
			if r.URL.Path == "/live" {
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

// session is who asks, nil when nobody who has logged in.
func (s *site) session(r *http.Request) *session {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	who := s.sessions.find(c.Value, time.Now())
	if who == nil {
		return nil
	}
	ts, err := ReadTokens(s.tokens)
	if err != nil {
		s.log.Warn("page", "problem", err.Error())
		return nil
	}
	for _, t := range ts {
		if t == who.token {
			return who
		}
	}
	s.sessions.end(c.Value) // its token was taken away
	return nil
}
