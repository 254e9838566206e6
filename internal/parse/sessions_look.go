package parse

import "stoplog/internal/source"

// maxLooks bounds the looks between two calls of Fetch.
const maxLooks = 256

// Look notes that ev, an event of origin, is joined soon, and Fetch has what
// Join then needs in the processor's cache: over many events the waits for
// memory overlap. Neither changes what is remembered.
func (s *Sessions) Look(ev *Event, origin *source.Origin) {
	if len(s.looks) >= maxLooks || s.index.n == 0 {
		return
	}
	if ev.Conn != 0 {
		s.looks = append(s.looks, hashOf(s.key(ev.Conn, ev, origin)))
	}
	if ev.Outcome == Failure && ev.Addr.IsValid() {
		s.looks = append(s.looks, hashOf(s.key(s.talkOf(ev), ev, origin)))
	}
}

// Fetch is for what was noted since it was called last. Its loops ask nothing
// of what they have just fetched, or each turn would wait.
func (s *Sessions) Fetch() {
	x := uint64(0)
	for _, h := range s.looks {
		x |= s.index.places[s.index.home(h)]
	}
	x |= s.fetchOldest(len(s.looks))
	s.links = s.links[:0]
	for _, h := range s.looks {
		if v := s.index.places[s.index.home(h)]; v != 0 {
			c := &s.conns[uint32(v)-1]
			s.links = append(s.links, c.prev, c.next)
		}
	}
	for _, i := range s.links {
		if i >= 0 {
			x |= s.conns[i].key
		}
	}
	s.seen |= x
	s.looks = s.looks[:0]
}

// fetchOldest looks at the places of the n connections that make room next.
func (s *Sessions) fetchOldest(n int) (x uint64) {
	if len(s.conns) < s.max {
		return 0
	}
	for i := s.first; i >= 0 && n > 0; n-- {
		x |= s.index.places[s.index.home(hashOf(s.conns[i].key))]
		i = s.conns[i].next
	}
	return x
}
