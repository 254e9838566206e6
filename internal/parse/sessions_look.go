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
	for _, h := range s.looks {
		if v := s.index.places[s.index.home(h)]; v != 0 {
			x |= s.conns[uint32(v)-1].key
		}
	}
	s.seen |= x
	s.looks = s.looks[:0]
}
