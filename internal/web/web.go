// Package web is the administrator's page: server-rendered HTML on a listener
// of its own, by which a colleague who knows no shell sees what happens and
// changes it. Nothing is loaded from elsewhere; without scripts all works but
// the live refresh.
package web

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/httpd"
)

// Options are what the page needs. The caller keeps nothing of it.
type Options struct {
	Daemon control.Daemon
	// TokenFile holds the tokens that let in (see httpd.ReadTokens). It is read at
	// each request, so that a token taken away ends its sessions at once.
	TokenFile string
	// SessionFile keeps the logins over a restart; "" keeps them in memory alone.
	SessionFile string
	// Clients may ask; none: anybody who reaches the listener. Peers of a unix
	// socket are let through by its mode, not by this.
	Clients []netip.Prefix
	// Hosts are names that the page is reached by, in small letters, beside
	// localhost and any address.
	Hosts []string
	Log   *slog.Logger
}

// Bounds of the listener. A browser opens six connections at once, and a proxy
// before the page is one host.
const (
	maxForm    = 16 << 10
	askTimeout = 10 * time.Second
)

var limits = httpd.Limits{Conns: 256, PerHost: 64, Header: 16 << 10, Write: 30 * time.Second, Idle: time.Minute, Goodbye: time.Second}

// Serve answers on l until ctx ends, then returns nil; it closes l. It speaks
// plain HTTP: for more than the machine itself, put a proxy with TLS before
// it and name it in Hosts.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := newSite(o)
	if err != nil {
		l.Close()
		return err
	}
	return httpd.Server{Handler: s.handler(), Limits: limits, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}.Serve(ctx, l)
}
