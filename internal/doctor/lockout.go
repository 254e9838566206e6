package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stoplog/internal/control"
)

// lockOut looks at everybody who is logged in from elsewhere: could they be
// locked out, or are they already?
func (d *doctor) lockOut(ctx context.Context) {
	peers := d.peers()
	if len(peers) == 0 {
		d.advise(Note, "lock-out", "nobody is logged in from elsewhere: who you are then is not known", "allow the addresses that you administer from", "stoplog allow add ADDRESS --ttl 30d")
		return
	}
	blocks, allowed := d.standing(ctx)
	for _, a := range peers {
		d.peer(a, blocks, allowed)
	}
}

// peers are the addresses of the session that asks and of all others.
func (d *doctor) peers() (as []netip.Addr) {
	if f := strings.Fields(d.SSH); len(f) > 0 {
		if a, err := netip.ParseAddr(f[0]); err == nil {
			as = append(as, a.Unmap().WithZone(""))
		}
	}
	f := d.Protect
	if f.Root == "" {
		f.Root = d.Root
	}
	for _, p := range f.Find(false, true) {
		as = append(as, p.Addr)
	}
	as = slices.DeleteFunc(as, func(a netip.Addr) bool { return a.IsLoopback() })
	slices.SortFunc(as, netip.Addr.Compare)
	return slices.Compact(as)
}

// standing asks the daemon; without one, the rules alone are known.
func (d *doctor) standing(ctx context.Context) ([]control.Block, []control.AllowEntry) {
	var allowed []control.AllowEntry
	if d.status != nil {
		blocks, errB := d.Daemon.List(ctx)
		listed, errA := d.Daemon.Allowed(ctx)
		if errA == nil && errB == nil {
			return blocks, listed
		}
		d.say(Note, "lock-out", "the daemon did not say what is blocked and allowed")
	}
	if d.Set != nil {
		listed, _ := d.Set.Allow.Read()
		for _, p := range listed {
			allowed = append(allowed, control.AllowEntry{Prefix: p.String(), Origin: "rules"})
		}
	}
	return nil, allowed
}

func (d *doctor) peer(a netip.Addr, blocks []control.Block, allowed []control.AllowEntry) {
	safe := ""
	for _, e := range allowed {
		if within(a, e.Prefix) && !strings.HasPrefix(e.Origin, "protected: ssh peer") {
			safe = fmt.Sprintf("%s is allowed by %s (%s)", a, e.Prefix, e.Origin)
		}
	}
	add := fmt.Sprintf("stoplog allow add %s --ttl 7d", a)
	if i := slices.IndexFunc(blocks, func(b control.Block) bool { return within(a, b.Prefix) }); i >= 0 && safe == "" {
		b := blocks[i]
		d.advise(Broken, "lock-out", fmt.Sprintf("%s, from where somebody is logged in, lies in the blocked %s (%s)", a, b.Prefix, b.Rule), "lift the block and allow the address", "stoplog unblock "+b.Prefix+" && "+add)
		return
	}
	switch {
	case safe != "":
		d.say(OK, "lock-out", safe)
	case d.Set != nil && !d.Set.Protect.SSHPeers:
		d.advise(Warning, "lock-out", fmt.Sprintf("%s is not on the allowlist, and protect.ssh_peers is off: a neighbour's failures, or your own, can lock you out now", a), "allow it", add)
	default:
		d.advise(Note, "lock-out", fmt.Sprintf("%s is safe while it is logged in, and not on the allowlist", a), "allow it, to be safe also afterwards", add)
	}
}

// within reports whether the address lies in the prefix, written as an
// address or with a length.
func within(a netip.Addr, s string) bool {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Contains(a)
	}
	x, err := netip.ParseAddr(s)
	return err == nil && x == a
}
