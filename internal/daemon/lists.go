package daemon

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
	"unique"

	"stoplog/internal/export"
	"stoplog/internal/feed"
	"stoplog/internal/firewall"
	"stoplog/internal/httpd"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// exportEvery is how often files of exports are brought up to date.
const exportEvery = time.Second

// show keeps the list for walls elsewhere as the ledger has it.
func (d *daemon) show(cs []ledger.Change) {
	if !d.shows() {
		return
	}
	for _, c := range cs {
		if c.Op == ledger.Lift {
			d.lists.Remove(c.Block.Prefix)
		} else {
			d.lists.Set(d.listed(c.Block))
		}
	}
}

// shows reports whether somebody reads the list: without a feed, a check or an
// export it is not kept, for it takes as much memory as the blocks do.
func (d *daemon) shows() bool {
	return d.set.Listen.Feed.Addr != "" || d.set.Listen.Check.Addr != "" || len(d.set.Exports) > 0
}

// showAll makes the list again: at the start and after a reload.
func (d *daemon) showAll(now time.Time) {
	var es []export.Entry
	if d.shows() {
		es = make([]export.Entry, 0, d.ledger.Stats().Blocks)
		d.ledger.Each(now, func(b *ledger.Block) { es = append(es, d.listed(*b)) })
	}
	d.lists.Replace(es)
	d.showPolicy(now)
}

// limitOf is what a block closes when it closes less than everything.
func limitOf(b ledger.Block, set *rules.Set) (l export.Limit) {
	e := entryOf(b, set)
	if len(e.Ports) > 0 {
		l.Ports = unique.Make(firewall.FormatPorts(e.Ports)).Value() // many blocks, few texts
	}
	if e.Action == firewall.Slow {
		l.Rate = set.Firewall.SlowRate
	}
	return l
}

func (d *daemon) listed(b ledger.Block) export.Entry {
	return export.Entry{Prefix: b.Prefix, Until: b.Until, Rule: b.Rule, Count: b.Count, Points: b.Points, Limit: limitOf(b, d.set)}
}

// guardOf is what a list is for, as the rules say.
func guardOf(g rules.Guarded) export.Guard {
	out := export.Guard{Any: g.Any}
	for _, p := range g.Ports {
		out.Ports = append(out.Ports, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
	}
	return out
}

// showPolicy passes allowed prefixes and raised flags to the list.
func (d *daemon) showPolicy(now time.Time) {
	if err := d.lists.SetAllow(d.ledger.AllowedPrefixes(now)); err != nil {
		d.note("the allowlist of exports: " + err.Error())
	}
	var fs []feed.Flag
	for _, f := range d.ledger.Flags(now) {
		fs = append(fs, feed.Flag{Name: f.Name, Until: f.Until})
	}
	d.lists.SetFlags(fs)
}

// listServer is a feed or a check.
type listServer interface {
	Serve(ctx context.Context, l net.Listener) error
}

// serveFeed offers the list at l.
func (d *daemon) serveFeed(ctx context.Context, l rules.Listener) {
	d.keepServing(ctx, "feed", l, func(problem func(error)) (listServer, error) {
		f, err := feed.New(&d.lists, feed.Options{Guard: guardOf(l.Ports), Clients: l.Clients, TokenFile: l.TokenFile, Problem: problem})
		d.feedNow.Store(f)
		return f, err
	})
}

// serveCheck answers proxies at c.
func (d *daemon) serveCheck(ctx context.Context, c rules.Check) {
	d.keepServing(ctx, "check", c.Listener, func(problem func(error)) (listServer, error) {
		h, err := feed.NewCheck(&d.lists, feed.CheckOptions{
			Header: c.Header, Trusted: c.Trusted, Clients: c.Clients, TokenFile: c.TokenFile, Problem: problem, Status: c.Status,
			Guard: guardOf(c.Ports), PortHeader: c.PortHeader,
		})
		d.checkNow.Store(h)
		return h, err
	})
}

// listeners returns the use of the feed and the check, one sentence each.
func (d *daemon) listeners() (ds []string) {
	if f := d.feedNow.Load(); f != nil {
		c := f.Counts()
		s := fmt.Sprintf("feed: %d lists sent, %d unchanged, %d refused, %d clients too slow, %d connections rejected", c.Served, c.Unchanged, c.Refused, c.Slow, c.TurnedAway)
		if n := d.lists.LeftOut(f.Guard()); n > 0 {
			s += "; in formats without ports, " + export.LeftOut(n)
		}
		ds = append(ds, s)
	}
	if h := d.checkNow.Load(); h != nil {
		c := h.Counts()
		s := fmt.Sprintf("check: %d passed, %d refused, %d rate-limited, %d allowed, %d without a usable address, %d from untrusted peers, %d connections rejected",
			c.Passed, c.Refused, c.Slowed, c.Allowed, c.Unknown, c.Untrusted, c.TurnedAway)
		if n := d.lists.LeftOut(h.Guard()); n > 0 {
			s += fmt.Sprintf("; %d blocks cover other ports or limit the rate (listen.check.ports)", n)
		}
		ds = append(ds, s)
	}
	return ds
}

// keepServing keeps a listener open until ctx ends. What fails is reported and
// tried again: it must not end the watch.
func (d *daemon) keepServing(ctx context.Context, what string, l rules.Listener, server func(problem func(error)) (listServer, error)) {
	defer d.well(what)
	for ctx.Err() == nil {
		err := d.serveOnce(ctx, what, l, server)
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

func (d *daemon) serveOnce(ctx context.Context, what string, l rules.Listener, server func(problem func(error)) (listServer, error)) error {
	s, err := server(d.tokenProblem(what))
	if err != nil {
		return err
	}
	at, err := httpd.Listen(l.Addr, 0o666) // who may reach the directory may ask
	if err != nil {
		return err
	}
	d.log.Info(what, "listening", at.Addr().String())
	d.well(what)
	return s.Serve(ctx, at)
}

// tokenProblem shows in status that the tokens of a listener cannot be read,
// and so nobody is let in, until they can.
func (d *daemon) tokenProblem(what string) func(error) {
	return func(err error) {
		if err != nil {
			d.fails(what, what+": all requests are refused: "+err.Error())
			return
		}
		d.well(what)
	}
}

// writeExports keeps files current until ctx ends.
func (d *daemon) writeExports(ctx context.Context, files []rules.Export) {
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	again := make([]bool, len(files)) // it failed, or a cap left some out
	defer func() {
		for _, f := range files {
			d.well(f.Format + " " + f.File)
		}
	}()
	var version uint64
	for {
		es, v := d.lists.Entries()
		for i, f := range files {
			format, err := export.Find(f.Format)
			if err == nil && v == version && !format.Counts && !again[i] {
				continue
			}
			said := ""
			if err == nil {
				said, again[i], err = d.writeExport(f, es)
			}
			switch what := f.Format + " " + f.File; {
			case err != nil:
				again[i] = true
				d.fails(what, err.Error())
			case said != "":
				d.warns(what, said)
			default:
				d.well(what)
			}
		}
		version = v
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// writeExport says what is not in the file, and whether that changes as time
// goes by.
func (d *daemon) writeExport(f rules.Export, es []export.Entry) (said string, moves bool, err error) {
	done, err := export.ToFile(f.File, f.Format, es, export.Options{Allow: d.lists.AllowList(), Now: time.Now(), Guard: guardOf(f.Ports)})
	if err != nil {
		return "", false, err
	}
	var missing []string
	if done.Limited > 0 {
		missing = append(missing, export.LeftOut(done.Limited))
	}
	if done.Left > 0 {
		missing = append(missing, fmt.Sprintf("%d prefixes are left out: the format allows %d", done.Left, done.Len))
	}
	if missing == nil {
		return "", false, nil
	}
	return "export to " + f.File + ": " + strings.Join(missing, "; "), done.Left > 0, nil
}
