package detect

import (
	"net/netip"

	"stoplog/internal/bucket"
)

// maxQuiet bounds how many keys are remembered as having spoken.
const maxQuiet = 16384

// quietID is a key of one level; levels are told apart by their meaning, so
// that the memory holds over a reload.
type quietID struct {
	meaning string
	key     bucket.Key
}

// quiet remembers until when a level says nothing more of a key.
type quiet struct{ until map[quietID]int64 }

func newQuiet() quiet { return quiet{map[quietID]int64{}} }

func quietKey(l *level, k bucket.Key) quietID { return quietID{l.meaning, k} }

// on reports whether the level is silent about the key at the instant at.
func (q *quiet) on(id quietID, at int64) bool { return at < q.until[id] }

// start begins a silence; false when one is on. When too many are remembered,
// those that are over go, and then all: saying something twice is better than
// not at all.
func (q *quiet) start(id quietID, at, length int64) bool {
	if q.on(id, at) {
		return false
	}
	if len(q.until) >= maxQuiet {
		q.sweep(at)
	}
	if len(q.until) >= maxQuiet {
		clear(q.until)
	}
	q.until[id] = at + length
	return true
}

func (q *quiet) sweep(at int64) {
	for id, until := range q.until {
		if until <= at {
			delete(q.until, id)
		}
	}
}

// forget ends the silences about prefixes within p.
func (q *quiet) forget(p netip.Prefix) {
	for id := range q.until {
		if kp, ok := id.key.Prefix(); ok && kp.Bits() >= p.Bits() && p.Contains(kp.Addr()) {
			delete(q.until, id)
		}
	}
}
