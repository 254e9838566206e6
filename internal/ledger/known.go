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

// login vouches for events of since ≤ at < last + lasts.
type login struct {
	service     string
	user        [16]byte // beginning of the SHA-256 of the name
	since, last int64
}

func userSum(user []byte) [16]byte {
	sum := sha256.Sum256(user)
	return [16]byte(sum[:16])
}

// add remembers a login; false when it was known-good already.
func (k *known) add(service string, user []byte, addr netip.Addr, at int64) bool {
	if k.lasts == 0 || !addr.IsValid() {
		return true
	}
	a, u := addr.As16(), userSum(user)
	i := slices.IndexFunc(k.by[a], func(l login) bool { return l.service == service && l.user == u })
	if i < 0 {
		k.insert(a, login{service, u, at, at})
		return true
	}
	l := &k.by[a][i]
	fresh := at >= l.last+k.lasts
	if fresh {
		l.since = at
	}
	l.since, l.last = min(l.since, at), max(l.last, at)
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
	slices.Sort(lasts)
	before := k.n
	k.prune(lasts[k.max/16])
	k.evicted += uint64(before - k.n)
}

// prune forgets the logins of that instant and before.
func (k *known) prune(last int64) {
	for a, ls := range k.by {
		was := len(ls)
		ls = slices.DeleteFunc(ls, func(l login) bool { return l.last <= last })
		k.n -= was - len(ls)
		if k.by[a] = ls; len(ls) == 0 {
			delete(k.by, a)
		}
	}
}

// good reports whether some login vouches for addr at the instant at: of the
// service, or of any if that is "", and of the user unless that is nil.
func (k *known) good(addr netip.Addr, service string, user []byte, at int64) bool {
	if k.n == 0 {
		return false
	}
	a := addr.As16()
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

// addrs lists the addresses that some login vouches for at now, those of the
// latest logins first, at most so many.
func (k *known) addrs(now int64, most int) []netip.Addr {
	type seen struct {
		addr netip.Addr
		last int64
	}
	var all []seen
	for a, ls := range k.by {
		last := slices.MaxFunc(ls, func(x, y login) int { return cmp.Compare(x.last, y.last) }).last
		if now < last+k.lasts {
			all = append(all, seen{netip.AddrFrom16(a).Unmap(), last})
		}
	}
	slices.SortFunc(all, func(x, y seen) int { return cmp.Or(cmp.Compare(y.last, x.last), x.addr.Compare(y.addr)) })
	out := make([]netip.Addr, 0, min(len(all), most))
	for _, s := range all[:min(len(all), most)] {
		out = append(out, s.addr)
	}
	return out
}
