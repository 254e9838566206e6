package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stoplog/internal/control"
)

// lockOut checks whether peers of open sessions are blocked or could be.
func (d *doctor) lockOut(ctx context.Context) {
	peers := d.peers()
	if len(peers) == 0 {
		d.advise(Note, "lock-out", "no remote SSH session is open, so your address is unknown", "allow the addresses from which you administer this machine", "stoplog allow add ADDRESS --ttl 30d")
		return
	}
	blocks, allowed := d.standing(ctx)
	for _, a := range peers {
		d.peer(a, blocks, allowed)
	}
}

// peers are the addresses of this session and of all others.
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

// standing asks the daemon for blocks and allowlist. Without a daemon it returns
// the allowlist of the rules.
func (d *doctor) standing(ctx context.Context) ([]control.Block, []control.AllowEntry) {
	var allowed []control.AllowEntry
	if d.status != nil {
		blocks, errB := d.Daemon.List(ctx)
		listed, errA := d.Daemon.Allowed(ctx)
		if errA == nil && errB == nil {
			return blocks, listed
		}
		d.say(Note, "lock-out", "the daemon did not answer which addresses are blocked and allowed")
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
		d.advise(Broken, "lock-out", fmt.Sprintf("%s has an open session, but is in the blocked prefix %s (%s)", a, b.Prefix, b.Rule), "lift the block and allow the address", "stoplog unblock "+b.Prefix+" && "+add)
		return
	}
	switch {
	case safe != "":
		d.say(OK, "lock-out", safe)
	case d.Set != nil && !d.Set.Protect.SSHPeers:
		d.advise(Warning, "lock-out", fmt.Sprintf("%s is not on the allowlist, and protect.ssh_peers is off: failed logins of yours or of a neighbouring address can lock you out", a), "allow it", add)
	default:
		d.advise(Note, "lock-out", fmt.Sprintf("%s is protected while its session is open, but is not on the allowlist", a), "allow it to protect it permanently", add)
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
