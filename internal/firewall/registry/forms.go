package registry

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/held"
)

// forms makes a wall that only knows prefixes hold the IPv6 forms of an IPv4
// client too: a block or an allowance of an IPv4 prefix goes to it with the
// matching NAT64 and 6to4 prefixes, and comes back as one. Teredo addresses
// cannot be written as prefixes; such a wall does not hold them. NFTables does
// the same itself, in less memory, and holds Teredo clients too.
type forms struct{ firewall.Backend }

// formsOf is how many prefixes one IPv4 prefix becomes.
const formsOf = 3

// withForms wraps what makes a wall.
func withForms(make func(firewall.Options) (firewall.Backend, error)) func(firewall.Options) (firewall.Backend, error) {
	return func(o firewall.Options) (firewall.Backend, error) {
		o, err := o.WithDefaults()
		if err != nil {
			return nil, err
		}
		o.MaxRules *= formsOf // so that the cap is of blocks
		b, err := make(o)
		if err != nil {
			return nil, err
		}
		return forms{b}, nil
	}
}

// Setup implements Backend.
func (f forms) Setup(ctx context.Context, p firewall.Policy) error {
	p.Allow = base.WithForms(p.Allow)
	known := slices.Clone(p.Lockdown.Known)
	for _, a := range p.Lockdown.Known {
		// Of a 6to4 network only the first address can be named as one.
		for _, q := range addr.Forms(netip.PrefixFrom(a, a.BitLen())) {
			known = append(known, q.Addr())
		}
	}
	p.Lockdown.Known = known
	return f.Backend.Setup(ctx, p)
}

// Block implements Backend.
func (f forms) Block(ctx context.Context, es []firewall.Entry) error {
	out := slices.Clone(es)
	for _, e := range es {
		for _, p := range addr.Forms(e.Prefix) {
			form := e
			form.Prefix = p
			out = append(out, form)
		}
	}
	return f.Backend.Block(ctx, out)
}

// Unblock implements Backend.
func (f forms) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return f.Backend.Unblock(ctx, base.WithForms(ps))
}

// List implements Backend. A block of which a form is missing is not held; a
// form without its block is listed as it is, so that it is removed.
func (f forms) List(ctx context.Context, emit func(firewall.Entry)) error {
	var all held.Listing
	err := f.Backend.List(ctx, all.Add)
	if err != nil && !errors.Is(err, firewall.ErrBroken) {
		return err
	}
	all.Each(func(e firewall.Entry) {
		if of, is := addr.Form(e.Prefix); is && all.Holds(of) {
			return
		}
		if !slices.ContainsFunc(addr.Forms(e.Prefix), func(p netip.Prefix) bool { return !all.Holds(p) }) {
			emit(e)
		}
	})
	return err
}

// Check, Expire and Notes are those of the wall, if it has them.
func (f forms) Check(ctx context.Context) error  { return firewall.Multi{f.Backend}.Check(ctx) }
func (f forms) Expire(ctx context.Context) error { return firewall.Multi{f.Backend}.Expire(ctx) }
func (f forms) Notes() []string {
	if n, ok := f.Backend.(firewall.Noter); ok {
		return n.Notes()
	}
	return nil
}

func (f forms) Probe(ctx context.Context) error { return probe(ctx, f.Backend) }
