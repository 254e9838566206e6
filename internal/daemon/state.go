package daemon

import (
	"encoding/json"
	"errors"
	"time"

	"stoplog/internal/ledger"
	"stoplog/internal/protect"
)

// errStopping answers what is asked of a daemon that is about to end.
var errStopping = errors.New("stoplog is stopping")

// Names of the parts of a snapshot.
const (
	partPositions = "positions"
	partEngine    = "engine"
	partSessions  = "sessions"
)

func protectFinder() protect.Finder { return protect.Finder{} }

// restore puts back what the snapshot held. What cannot be read is said and
// left out: blocks are the ledger's and stand in any case.
func (d *daemon) restore(rec *ledger.Recovered) {
	for _, n := range rec.Notes {
		d.note(n)
	}
	if b := rec.Parts[partPositions]; b != nil {
		if err := json.Unmarshal(b, &d.positions); err != nil {
			d.note("state: positions: " + err.Error())
		}
	}
	if b := rec.Parts[partEngine]; b != nil {
		if err := d.engine.Restore(b); err != nil {
			d.note("state: buckets: " + err.Error())
		}
	}
	if b := rec.Parts[partSessions]; b != nil {
		if err := d.machine.Sessions.UnmarshalBinary(b); err != nil {
			d.note("state: sessions: " + err.Error())
		}
	}
	for _, p := range rec.Forget {
		d.engine.Forget(p)
	}
	d.savedAt = rec.SavedAt
	if !rec.SavedAt.IsZero() {
		d.log.Info("state restored", "saved", rec.SavedAt.UTC().Format(time.RFC3339), "blocks", d.ledger.Stats().Blocks, "pending", rec.Pending)
	}
}

func (d *daemon) saveIfDirty(now time.Time) {
	if d.dirty || d.saveErr != nil {
		d.save(now)
	}
}

// save writes one consistent snapshot: everything in it is of this instant.
func (d *daemon) save(now time.Time) {
	positions, err := json.Marshal(d.positions)
	if err == nil {
		var sessions []byte
		if sessions, err = d.machine.Sessions.MarshalBinary(); err == nil {
			err = d.ledger.Save(now, map[string][]byte{
				partPositions: positions,
				partEngine:    d.engine.AppendBinary(nil),
				partSessions:  sessions,
			})
		}
	}
	if err != nil {
		if d.saveErr == nil {
			d.log.Error("saving the state", "problem", err.Error())
		}
		d.saveErr = err
		return
	}
	if d.saveErr != nil {
		d.log.Info("saving the state works again")
	}
	d.saveErr, d.dirty, d.savedAt = nil, false, now
}
