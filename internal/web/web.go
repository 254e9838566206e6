// Package web is the administrator's page: server-rendered HTML on a listener
// of its own, by which a colleague who knows no shell sees what happens and
// changes it. Nothing is loaded from elsewhere; without scripts all works but
// the live refresh.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"

	"stoplog/internal/control"
)

// Options are what the page needs. The caller keeps nothing of it.
type Options struct {
	Daemon control.Daemon
	// TokenFile holds the tokens that let in (see ReadTokens). It is read at
	// each request, so that a token taken away ends its sessions at once.
	TokenFile string
	// Clients may ask; none: anybody who reaches the listener. Peers of a unix
	// socket are let through by its mode, not by this.
	Clients []netip.Prefix
	// Hosts are names that the page is reached by, in small letters, beside
	// localhost and any address.
	Hosts []string
	Log   *slog.Logger
}

// Bounds of the listener.
const (
	maxConns   = 64
	maxHeader  = 16 << 10
	maxForm    = 16 << 10
	askTimeout = 10 * time.Second
	goodbye    = time.Second
)

// Serve answers on l until ctx ends, then returns nil; it closes l. It speaks
// plain HTTP: for more than the machine itself, put a proxy with TLS before
// it and name it in Hosts.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s, err := newSite(o)
	if err != nil {
		l.Close()
		return err
	}
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		if srv.Shutdown(bye) != nil {
			srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page on %s: %w", l.Addr(), err)
	}
	return nil
}
