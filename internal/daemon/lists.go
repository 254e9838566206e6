package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/feed"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// exportEvery is how often files of exports are brought up to date.
const exportEvery = time.Second

// show keeps the list for walls elsewhere as the ledger has it.
func (d *daemon) show(cs []ledger.Change) {
	for _, c := range cs {
		if c.Op == ledger.Lift || d.limited(c.Block) {
			d.lists.Remove(c.Block.Prefix)
		} else {
			d.lists.Set(listed(c.Block))
		}
	}
}

// showAll begins the list anew: at the start and after a reload.
func (d *daemon) showAll(now time.Time) {
	bs := d.ledger.List(now)
	es := make([]export.Entry, 0, len(bs))
	for _, b := range bs {
		if !d.limited(b) {
			es = append(es, listed(b))
		}
	}
	d.lists.Replace(es)
	d.showPolicy(now)
}

// limited reports whether a block closes some ports only, or slows down: whoever
// reads a list could only shut out altogether, which nobody asked for.
func (d *daemon) limited(b ledger.Block) bool {
	e := entryOf(b, d.set)
	return len(e.Ports) > 0 || e.Action == firewall.Slow
}

func listed(b ledger.Block) export.Entry {
	return export.Entry{Prefix: b.Prefix, Until: b.Until, Rule: b.Rule, Count: b.Count}
}

// showPolicy tells the list who is allowed and which flags are up.
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

// serveFeed offers the list at l.
func (d *daemon) serveFeed(ctx context.Context, l rules.Listener) {
	d.keepServing(ctx, "feed", l, func(token string) (http.Handler, error) {
		f, err := feed.New(&d.lists, feed.Options{Clients: l.Clients, Token: token})
		d.feedNow.Store(f)
		return f, err
	})
}

// serveCheck answers proxies at c.
func (d *daemon) serveCheck(ctx context.Context, c rules.Check) {
	d.keepServing(ctx, "check", c.Listener, func(token string) (http.Handler, error) {
		h, err := feed.NewCheck(&d.lists, feed.CheckOptions{Header: c.Header, Trusted: c.Trusted, Clients: c.Clients, Token: token, Status: c.Status})
		d.checkNow.Store(h)
		return h, err
	})
}

// doors says how the feed and the check are used, a sentence each.
func (d *daemon) doors() (ds []string) {
	if f := d.feedNow.Load(); f != nil {
		c := f.Counts()
		ds = append(ds, fmt.Sprintf("feed: %d lists sent, %d unchanged, %d refused, %d readers too slow, %d turned away", c.Served, c.Unchanged, c.Refused, c.Slow, c.TurnedAway))
	}
	if h := d.checkNow.Load(); h != nil {
		c := h.Counts()
		ds = append(ds, fmt.Sprintf("check: %d passed, %d refused, %d allowed, %d without a readable address, %d from peers not trusted, %d turned away",
			c.Passed, c.Refused, c.Allowed, c.Unknown, c.Untrusted, c.TurnedAway))
	}
	return ds
}

// keepServing keeps a listener open until ctx ends. What fails is told and
// tried again: it must not end the watch.
func (d *daemon) keepServing(ctx context.Context, what string, l rules.Listener, handler func(token string) (http.Handler, error)) {
	defer d.well(what)
	for ctx.Err() == nil {
		err := d.serveOnce(ctx, what, l, handler)
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

func (d *daemon) serveOnce(ctx context.Context, what string, l rules.Listener, handler func(token string) (http.Handler, error)) error {
	token, err := readToken(l.TokenFile)
	if err != nil {
		return err
	}
	h, err := handler(token)
	if err != nil {
		return err
	}
	at, err := feed.Listen(l.Addr)
	if err != nil {
		return err
	}
	d.log.Info(what, "listening", at.Addr().String())
	d.well(what)
	return feed.Serve(ctx, at, h)
}

// readToken reads the first line of a file, "" when there is none to read.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s: its first line is empty where a token is wanted", path)
	}
	return line, nil
}

// writeExports keeps files current until ctx ends.
func (d *daemon) writeExports(ctx context.Context, files []rules.Export) {
	tick := time.NewTicker(exportEvery)
	defer tick.Stop()
	last := make([]string, len(files)) // what was said of each
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
			if err == nil && v == version && !format.Counts && last[i] == "" {
				continue
			}
			said := ""
			if err == nil {
				said, err = d.writeExport(f, es)
			}
			switch what := f.Format + " " + f.File; {
			case err != nil:
				said = err.Error()
				d.fails(what, said)
			case said != "":
				d.warns(what, said)
			default:
				d.well(what)
			}
			last[i] = said
		}
		version = v
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (d *daemon) writeExport(f rules.Export, es []export.Entry) (said string, err error) {
	done, err := export.ToFile(f.File, f.Format, es, export.Options{Allow: d.lists.AllowList(), Now: time.Now()})
	if err != nil {
		return "", err
	}
	if done.Left > 0 {
		return fmt.Sprintf("export to %s: %d prefixes were left out, over the format's %d", f.File, done.Left, done.Len), nil
	}
	return "", nil
}
