package api

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/control"
	"stoplog/internal/ledger"
)

const (
	// maxInside bounds the blocks and allowances that an explanation lists.
	maxInside  = 100
	maxHistory = 20
	// nearBits4 and nearBits6 are the networks whose blocks are shown beside
	// what was asked about: what one customer or site is commonly given.
	nearBits4 = 24
	nearBits6 = 48
)

func (x *API) Explain(ctx context.Context, text string) (control.Explanation, error) {
	p, err := target(text)
	if err != nil {
		return control.Explanation{}, err
	}
	var e control.Explanation
	if err = x.loop.Ask(ctx, func(s State) { e = x.explain(s, p, time.Now()) }); err != nil {
		return e, err
	}
	e.History, err = x.history(ledger.Query{Prefix: addr.OfPrefix(p), Max: maxHistory})
	return e, err
}

func (x *API) explain(s State, p netip.Prefix, now time.Time) control.Explanation {
	e := control.Explanation{Addr: p.Addr().String()}
	if !p.IsSingleIP() {
		e.Prefix = p.String()
	}
	client := addr.OfPrefix(p)
	if client != p {
		e.Advice = append(e.Advice, fmt.Sprintf("It belongs to the IPv4 client %s, and is counted and blocked as that address.", shown(client)))
	}
	x.explainBlocks(s, &e, client, now)
	for _, entry := range s.allowed(now) {
		a, err := target(entry.Prefix)
		switch {
		case err != nil:
		case covers(a, p) || covers(a, client):
			e.Allowed = append(e.Allowed, entry)
		case covers(client, a) && len(e.AllowedInside) < maxInside:
			e.AllowedInside = append(e.AllowedInside, entry)
		}
	}
	if p.IsSingleIP() {
		for _, k := range s.Ledger.KnownLogins(p.Addr(), now) {
			e.KnownGood = append(e.KnownGood, fmt.Sprintf("login to %s, last %s", k.Service, k.Last.UTC().Format(time.RFC3339)))
		}
	}
	for _, l := range s.Engine.Levels(p.Addr(), now.UnixNano()) {
		if covers(l.Prefix, client) {
			e.Levels = append(e.Levels, control.Level{Rule: l.Rule, Key: l.Key, Level: float64(l.Level), Capacity: l.Capacity})
		}
	}
	s.explainFleet(&e, client, now)
	s.explainRules(&e)
	e.Advice = append(e.Advice, advice(e, shown(p))...)
	return e
}

// covers reports whether all of q is in p.
func covers(p, q netip.Prefix) bool { return p.Bits() <= q.Bits() && p.Contains(q.Addr()) }

// shown is a prefix as a person writes it: a single address has no length.
func shown(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// explainBlocks finds what is blocked around, inside and beside p.
func (x *API) explainBlocks(s State, e *control.Explanation, p netip.Prefix, now time.Time) {
	for _, b := range s.Ledger.Covering(p.Addr(), now) {
		if b.Prefix.Bits() > p.Bits() {
			continue // inside
		}
		if slices.ContainsFunc(b.Except, func(q netip.Prefix) bool { return covers(q, p) }) {
			e.Advice = append(e.Advice, fmt.Sprintf("It passes inside the block of %s: somebody logged in from it lately.", b.Prefix))
			continue
		}
		e.Blocked = append(e.Blocked, x.shown(s, b))
	}
	if !p.IsSingleIP() {
		inside, n, _ := s.Ledger.Newest(now, func(b *ledger.Block) bool { return b.Prefix != p && covers(p, b.Prefix) }, 0, maxInside)
		e.Inside, e.InsideTotal = x.allShown(s, inside), n
	}
	bits := nearBits4
	if p.Addr().Is6() {
		bits = nearBits6
	}
	if p.Bits() <= bits {
		return
	}
	network := netip.PrefixFrom(p.Addr(), bits).Masked()
	near, n, _ := s.Ledger.Newest(now, func(b *ledger.Block) bool { return covers(network, b.Prefix) && !b.Prefix.Overlaps(p) }, 0, maxInside)
	if e.Near, e.NearTotal = x.allShown(s, near), n; n > 0 {
		e.NearNet = network.String()
	}
}

func (x *API) allShown(s State, bs []ledger.Block) []control.Block {
	out := make([]control.Block, len(bs))
	for i, b := range bs {
		out[i] = x.shown(s, b)
	}
	return out
}

// explainRules adds the rules that block or have counted what is explained.
func (s State) explainRules(e *control.Explanation) {
	var names []string
	for _, b := range slices.Concat(e.Blocked, e.Inside) {
		names = append(names, b.Rule)
	}
	for _, l := range e.Levels {
		if l.Level > 0 {
			names = append(names, l.Rule)
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		r := s.Rules.Find(name)
		if r == nil || seen[name] {
			continue
		}
		seen[name] = true
		t := control.RuleText{Name: name, About: r.About, Text: r.Text}
		if r.Line > 0 {
			t.Where = fmt.Sprintf("%s:%d", r.File, r.Line)
		}
		e.Rules = append(e.Rules, t)
	}
}

// explainFleet adds what other nodes say about p.
func (s State) explainFleet(e *control.Explanation, p netip.Prefix, now time.Time) {
	if s.Fleet == nil {
		return
	}
	for _, x := range s.Fleet.About(p, now.UnixNano()) {
		var by []string
		for _, s := range x.Shares {
			by = append(by, fmt.Sprintf("%s %d", s.Node, s.Points))
		}
		e.Fleet = append(e.Fleet, fmt.Sprintf("%s %s: %d of more than %d points: %s", x.Shared.Rule, x.Prefix, x.Points, x.Shared.Capacity, strings.Join(by, ", ")))
	}
}

// advice says what would change what was explained.
func advice(e control.Explanation, what string) (out []string) {
	switch {
	case len(e.Allowed) > 0:
		return []string{"It is allowed: it is never counted and never blocked."}
	case len(e.Blocked) > 0:
		last := e.Blocked[0].Until
		for _, b := range e.Blocked {
			if b.Until.After(last) {
				last = b.Until
			}
		}
		out = append(out, fmt.Sprintf("The block ends at %s. To end it now: stoplog unblock %s", last.Local().Format("2006-01-02 15:04:05 MST"), what),
			fmt.Sprintf("To allow it: stoplog allow add %s --ttl 7d", what))
	}
	if n := len(e.AllowedInside); n > 0 {
		var ps []string
		for _, a := range e.AllowedInside[:min(n, 5)] {
			ps = append(ps, a.Prefix)
		}
		if n > 5 {
			ps = append(ps, "…")
		}
		out = append(out, "Allowed inside it, and never held back: "+strings.Join(ps, ", "))
	}
	return out
}
