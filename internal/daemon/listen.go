package daemon

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/rules"
	"stoplog/internal/web"
)

// TokensName is the page's file of tokens in the state folder, unless the
// rules name another.
const TokensName = "tokens"

// keepPage shows the page where the rules say, until ctx ends. It listens
// without rights: a port below 1024 needs a proxy or a socket before it. What
// fails is told and tried again: it must not end the watch.
func (d *daemon) keepPage(ctx context.Context, at rules.Listener) {
	const what = "the page"
	defer d.well(what)
	for ctx.Err() == nil {
		l, err := listenAt(at.Addr)
		if err == nil {
			d.log.Info("page", "listening", l.Addr().String())
			d.well(what)
			if !onlyHere(l.Addr()) {
				d.warns(what, what+" speaks plain HTTP on "+l.Addr().String()+", beyond this machine: tokens can be read on the way; put a proxy with TLS before it")
			}
			err = web.Serve(ctx, l, web.Options{
				Daemon: &door{d}, Clients: at.Clients, Hosts: at.Hosts, Log: d.log,
				TokenFile: cmp.Or(at.TokenFile, filepath.Join(d.opt.StateDir, TokensName)),
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

// listenAt listens on host:port or the absolute path of a unix socket, which
// our group may open: a proxy joins it.
func listenAt(addr string) (net.Listener, error) {
	if strings.HasPrefix(addr, "/") {
		return control.Listen(addr, os.Getgid())
	}
	return net.Listen("tcp", addr)
}

// onlyHere reports whether a listener is reached from this machine alone.
func onlyHere(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err != nil || ap.Addr().IsLoopback()
}
