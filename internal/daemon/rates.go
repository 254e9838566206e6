package daemon

import (
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
)

// rateMinutes is how far back the rates reach.
const rateMinutes = 60

// rates counts what happened in each of the last minutes, in a ring.
type rates struct {
	ring [rateMinutes]minute
}

type minute struct {
	no                    int64 // Unix minute that it counts; the place is reused an hour later
	lines, events, blocks uint64
}

// at returns the place of now's minute, emptied when it held an older one.
func (r *rates) at(now time.Time) *minute {
	no := now.Unix() / 60
	m := &r.ring[no%rateMinutes]
	if m.no != no {
		*m = minute{no: no}
	}
	return m
}

func (r *rates) read(now time.Time, lines int, events uint64) {
	m := r.at(now)
	m.lines += uint64(lines)
	m.events += events
}

// blocked counts prefixes that were free before.
func (r *rates) blocked(now time.Time, cs []ledger.Change) {
	for _, c := range cs {
		if c.Op == ledger.Set && c.New {
			r.at(now).blocks++
		}
	}
}

// last gives the last hour, the oldest minute first; quiet ones are zeros.
func (r *rates) last(now time.Time) []control.Minute {
	out := make([]control.Minute, rateMinutes)
	no := now.Unix()/60 - rateMinutes + 1
	for i := range out {
		out[i].At = time.Unix(no*60, 0).UTC()
		if m := &r.ring[no%rateMinutes]; m.no == no {
			out[i].Lines, out[i].Events, out[i].Blocks = m.lines, m.events, m.blocks
		}
		no++
	}
	return out
}
