package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
)

// maxLogins bounds the logins remembered of one address.
const maxLogins = 64

// known remembers which user logged in to which service from which address.
type known struct {
	by      map[[16]byte][]login
	n, max  int
	lasts   int64 // how long a login vouches, ns; 0 = never
	evicted uint64
	// maybe has a bit for each address in by, and for some that are not: most
	// events are of strangers, and one bit tells.
	maybe [1 << 10]uint64
}

// bit is the place of an address in maybe.
func bit(a [16]byte) (word, mask uint64) {
	h := binary.LittleEndian.Uint64(a[:8]) ^ binary.BigEndian.Uint64(a[8:])
	h *= 0x9e3779b97f4a7c15
	return h >> 54, 1 << (h >> 48 & 63)
}

// see notes that a is in by.
func (k *known) see(a [16]byte) {
	word, mask := bit(a)
	k.maybe[word] |= mask
}

// login vouches for events of since ≤ at < last + lasts: they have more room.
// Only what no local user can have forged lets an address through a lockdown or
// a block of its neighbours; proven is when such a line came last, 0 if none did.
type login struct {
	service     string
	user        [16]byte // beginning of the SHA-256 of the name
	since, last int64
	proven      int64
}

func userSum(user []byte) [16]byte {
	sum := sha256.Sum256(user)
	return [16]byte(sum[:16])
}

// network is the key of what addr shares with its household: the /64 of an IPv6
// address, whose other half changes every day, and an IPv4 address itself.
func network(addr netip.Addr) [16]byte {
	a := addr.As16()
	if !addr.Unmap().Is4() {
		clear(a[8:])
	}
	return a
}

// add remembers a login, of the address and of its network; false when it was
// known-good already.
func (k *known) add(service string, user []byte, addr netip.Addr, at int64, verified bool) bool {
	if k.lasts == 0 || !addr.IsValid() {
		return true
	}
	var proven int64
	if verified {
		proven = at
	}
	a, u := network(addr), userSum(user)
	if exact := addr.As16(); exact != a {
		k.enter(exact, u, service, at, proven)
	}
	return k.enter(a, u, service, at, proven)
}

func (k *known) enter(a, u [16]byte, service string, at, proven int64) (fresh bool) {
	i := slices.IndexFunc(k.by[a], func(l login) bool { return l.service == service && l.user == u })
	if i < 0 {
		k.insert(a, login{service, u, at, at, proven})
		return true
	}
	l := &k.by[a][i]
	if fresh = at >= l.last+k.lasts; fresh {
		l.since = at
	}
	l.since, l.last, l.proven = min(l.since, at), max(l.last, at), max(l.proven, proven)
	return fresh
}

func (k *known) insert(a [16]byte, l login) {
	if k.n >= k.max {
		k.shed()
	}
	ls := k.by[a]
	if len(ls) >= maxLogins {
		oldest := 0
		for i := range ls {
			if ls[i].last < ls[oldest].last {
				oldest = i
			}
		}
		ls[oldest] = l
		k.evicted++
		return
	}
	k.by[a] = append(ls, l)
	k.see(a)
	k.n++
}

// shed forgets the sixteenth of the logins that are longest ago.
func (k *known) shed() {
	lasts := make([]int64, 0, k.n)
	for _, ls := range k.by {
		for _, l := range ls {
			lasts = append(lasts, l.last)
		}
	}
	before := k.n
	k.prune(nth(lasts, k.max/16))
	k.evicted += uint64(before - k.n)
}

// prune forgets the logins of that instant and before.
func (k *known) prune(last int64) {
	over := func(l login) bool { return l.last <= last }
	for a, ls := range k.by {
		if !slices.ContainsFunc(ls, over) {
			continue
		}
		was := len(ls)
		ls = slices.DeleteFunc(ls, over)
		k.n -= was - len(ls)
		if k.by[a] = ls; len(ls) == 0 {
			delete(k.by, a)
		}
	}
}

// good reports whether some login vouches for addr at the instant at: of the
// service, or of any if that is "", and of the user unless that is nil. An IPv6
// address is as good as the others of its /64.
func (k *known) good(addr netip.Addr, service string, user []byte, at int64) bool {
	if k.n == 0 {
		return false
	}
	a := network(addr)
	if word, mask := bit(a); k.maybe[word]&mask == 0 {
		return false
	}
	ls := k.by[a]
	if len(ls) == 0 {
		return false
	}
	var u [16]byte
	if user != nil {
		u = userSum(user)
	}
	return slices.ContainsFunc(ls, func(l login) bool {
		return (service == "" || l.service == service) && (user == nil || l.user == u) && l.since <= at && at < l.last+k.lasts
	})
}

// addrs lists the addresses from which a proven login to one of the services, or
// to any if there are none, came less than lasts before now: the latest first, at
// most so many.
func (k *known) addrs(services []string, now int64, most int) []netip.Addr {
	type seen struct {
		addr netip.Addr
		last int64
	}
	var all []seen
	for a, ls := range k.by {
		addr := netip.AddrFrom16(a).Unmap()
		if !addr.Is4() && binary.BigEndian.Uint64(a[8:]) == 0 {
			continue // a network: no host has that address
		}
		var last int64
		for _, l := range ls {
			if len(services) == 0 || slices.Contains(services, l.service) {
				last = max(last, l.proven)
			}
		}
		if last != 0 && now < last+k.lasts {
			all = append(all, seen{addr, last})
		}
	}
	slices.SortFunc(all, func(x, y seen) int { return cmp.Or(cmp.Compare(y.last, x.last), x.addr.Compare(y.addr)) })
	out := make([]netip.Addr, 0, min(len(all), most))
	for _, s := range all[:min(len(all), most)] {
		out = append(out, s.addr)
	}
	return out
}
