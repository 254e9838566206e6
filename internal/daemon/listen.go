package daemon

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"stoplog/internal/httpd"
	"stoplog/internal/rules"
	"stoplog/internal/web"
)

// TokensName is the page's file of tokens in the state folder, unless the
// rules name another.
const TokensName = "tokens"

// sessionsName is the page's file of logins in the state folder.
const sessionsName = "page-sessions"

// keepPage shows the page where the rules say, until ctx ends; its unix socket
// may be opened by our group, which a proxy joins. It listens
// without rights: a port below 1024 needs a proxy or a socket before it. What
// fails is told and tried again: it must not end the watch.
func (d *daemon) keepPage(ctx context.Context, at rules.Listener) {
	const what = "the page"
	defer d.well(what)
	for ctx.Err() == nil {
		l, err := httpd.Listen(at.Addr, 0o660)
		if err == nil {
			d.log.Info("page", "listening", l.Addr().String())
			d.well(what)
			if !onlyHere(l.Addr()) {
				d.warns(what, what+" speaks plain HTTP on "+l.Addr().String()+", reachable from other machines: tokens are sent unencrypted; put a proxy with TLS in front")
			}
			err = web.Serve(ctx, l, web.Options{
				Daemon: d.api, Clients: at.Clients, Hosts: at.Hosts, Log: d.log,
				SessionFile: filepath.Join(d.opt.StateDir, sessionsName),
				TokenFile:   cmp.Or(at.TokenFile, filepath.Join(cmp.Or(d.opt.TokensDir, d.opt.StateDir), TokensName)),
			})
		}
		if err == nil {
			return
		}
		d.fails(what, what+": "+err.Error())
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
		}
	}
}

// onlyHere reports whether a listener is reached from this machine alone.
func onlyHere(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err != nil || ap.Addr().IsLoopback()
}
