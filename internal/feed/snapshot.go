package feed

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go4.org/netipx"

	"stoplog/internal/addr"
	"stoplog/internal/export"
)

// View is what the handlers ask. Its methods may be called from several
// goroutines and do not block.
type View interface {
	// Lookup reports whether a block that counts holds addr now, and when the
	// last of those that do ends; the zero time means never.
	Lookup(addr netip.Addr, counts func(export.Limit) bool) (until time.Time, blocked bool)
	// Allowed reports whether the allowlist holds addr: it wins over blocks.
	Allowed(addr netip.Addr) bool
	// Entries are all blocks, and a number that differs whenever they or the
	// allowlist do. The caller must not change them.
	Entries() ([]export.Entry, uint64)
	// AllowList is the allowlist. The caller must not change it.
	AllowList() []netip.Prefix
	// Flags are the names of the raised flags.
	Flags() []string
}

// Flag is a raised flag.
type Flag struct {
	Name  string
	Until time.Time
}

// Snapshot is a View that is kept current change by change. The zero Snapshot
// is empty and ready. It may be used from several goroutines; a change waits
// at most as long as the copying of the list takes.
type Snapshot struct {
	policy atomic.Pointer[policy]
	flags  atomic.Pointer[[]Flag]

	mu      sync.RWMutex // guards the rest
	version uint64
	index   map[netip.Prefix]int // into blocks
	blocks  []export.Entry       // in no order
	by4     lengths
	by6     lengths
	limits  map[export.Limit]int // blocks of each limit; none of the zero one
	copied  []export.Entry       // blocks, as Entries returned them last
	current bool                 // copied is the same as blocks
}

type policy struct {
	list []netip.Prefix
	set  *netipx.IPSet
}

// lengths counts the prefixes of each length of one family.
type lengths struct {
	count [129]int
	used  []int // lengths that are not zero
}

func (l *lengths) add(bits, n int) {
	was := l.count[bits]
	l.count[bits] += n
	if (was == 0) != (l.count[bits] == 0) {
		l.used = l.used[:0]
		for b, n := range l.count {
			if n > 0 {
				l.used = append(l.used, b)
			}
		}
	}
}

func (s *Snapshot) lengths(a netip.Addr) *lengths {
	if a.Is4() {
		return &s.by4
	}
	return &s.by6
}

// Set adds blocks or replaces those of the same prefix. Prefixes that are not
// valid are left out.
func (s *Snapshot) Set(es ...export.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range es {
		if e.Prefix = masked(e.Prefix); e.Prefix.IsValid() {
			s.put(e)
		}
	}
}

// Replace sets all blocks at once.
func (s *Snapshot) Replace(es []export.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.blocks = make(map[netip.Prefix]int, len(es)), make([]export.Entry, 0, len(es))
	s.by4, s.by6, s.limits = lengths{}, lengths{}, nil
	s.changed()
	for _, e := range es {
		if e.Prefix = masked(e.Prefix); e.Prefix.IsValid() {
			s.put(e)
		}
	}
}

// Remove takes blocks of exactly these prefixes out. The absent is no error.
// Blocks that ended are seen by nobody, but take memory until then.
func (s *Snapshot) Remove(ps ...netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range ps {
		p = masked(p)
		if i, there := s.index[p]; there {
			s.drop(p, i)
		}
	}
}

func (s *Snapshot) put(e export.Entry) {
	if i, there := s.index[e.Prefix]; there {
		if s.blocks[i] != e {
			s.limit(s.blocks[i].Limit, -1)
			s.limit(e.Limit, 1)
			s.blocks[i] = e
			s.changed()
		}
		return
	}
	if s.index == nil {
		s.index = map[netip.Prefix]int{}
	}
	s.index[e.Prefix] = len(s.blocks)
	s.blocks = append(s.blocks, e)
	s.limit(e.Limit, 1)
	s.lengths(e.Prefix.Addr()).add(e.Prefix.Bits(), 1)
	s.changed()
}

func (s *Snapshot) drop(p netip.Prefix, i int) {
	s.limit(s.blocks[i].Limit, -1)
	last := len(s.blocks) - 1
	s.blocks[i] = s.blocks[last]
	s.index[s.blocks[i].Prefix] = i
	s.blocks[last] = export.Entry{}
	s.blocks = s.blocks[:last]
	delete(s.index, p)
	s.lengths(p.Addr()).add(p.Bits(), -1)
	s.changed()
}

func (s *Snapshot) limit(l export.Limit, n int) {
	if l == (export.Limit{}) {
		return
	}
	if s.limits == nil {
		s.limits = map[export.Limit]int{}
	}
	if s.limits[l] += n; s.limits[l] == 0 {
		delete(s.limits, l)
	}
}

// LeftOut is how many blocks a list or check for g leaves out, because they
// close other ports only or slow down.
func (s *Snapshot) LeftOut(g export.Guard) (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for l, blocks := range s.limits {
		if !g.Closes(l) {
			n += blocks
		}
	}
	return n
}

func (s *Snapshot) changed() {
	s.version++
	s.copied, s.current = nil, false
}

// SetAllow replaces the allowlist. One that has invalid prefixes is an error,
// and the old one stays.
func (s *Snapshot) SetAllow(ps []netip.Prefix) error {
	var b netipx.IPSetBuilder
	list := make([]netip.Prefix, 0, len(ps))
	for _, p := range ps {
		p = masked(p)
		b.AddPrefix(p)
		list = append(list, p)
	}
	set, err := b.IPSet()
	if err != nil {
		return fmt.Errorf("allowlist: %w", err)
	}
	s.policy.Store(&policy{list, set})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return nil
}

// SetFlags replaces the raised flags. Each lowers by itself at its Until.
func (s *Snapshot) SetFlags(fs []Flag) {
	fs = slices.Clone(fs)
	s.flags.Store(&fs)
}

// Lookup implements View: one look into a map for each length in use. An IPv6
// address that stands for an IPv4 client is looked up as that client.
func (s *Snapshot) Lookup(from netip.Addr, counts func(export.Limit) bool) (until time.Time, blocked bool) {
	a, now := addr.Of(from), time.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, bits := range s.lengths(a).used {
		p, err := a.Prefix(bits)
		if err != nil {
			return until, blocked // not an address
		}
		i, there := s.index[p]
		if !there || !counts(s.blocks[i].Limit) {
			continue
		}
		switch end := s.blocks[i].Until; {
		case end.IsZero():
			return end, true
		case end.After(now) && end.After(until):
			until, blocked = end, true
		}
	}
	return until, blocked
}

// Allowed implements View.
func (s *Snapshot) Allowed(from netip.Addr) bool {
	p := s.policy.Load()
	return p != nil && (p.set.Contains(from.Unmap()) || p.set.Contains(addr.Of(from)))
}

// AllowList implements View.
func (s *Snapshot) AllowList() []netip.Prefix {
	if p := s.policy.Load(); p != nil {
		return p.list
	}
	return nil
}

// Entries implements View. It holds changes up for one copy of the list, once
// after each change.
func (s *Snapshot) Entries() ([]export.Entry, uint64) {
	s.mu.RLock()
	es, v := s.copied, s.version
	current := s.current
	if !current {
		es = slices.Clone(s.blocks)
	}
	s.mu.RUnlock()
	if current {
		return es, v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == v {
		s.copied, s.current = es, true
	}
	return es, v
}

// Flags implements View.
func (s *Snapshot) Flags() []string {
	fs := s.flags.Load()
	if fs == nil || len(*fs) == 0 {
		return nil
	}
	now := time.Now()
	var names []string
	for _, f := range *fs {
		if f.Until.After(now) {
			names = append(names, f.Name)
		}
	}
	return names
}

// masked clears what is beyond the length, and the mapping of IPv4 into IPv6.
func masked(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
