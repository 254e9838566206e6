package daemon

import (
	"encoding/json"
	"runtime/debug"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
)

// Names of the parts of a snapshot.
const (
	partPositions = "positions"
	partEngine    = "engine"
	partSessions  = "sessions"
	partGuards    = "guards"
	partTrends    = "trends"
)

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
	if b := rec.Parts[partGuards]; b != nil {
		if err := d.machine.UnmarshalGuards(b); err != nil {
			d.note("state: guards: " + err.Error())
		}
	}
	if b := rec.Parts[partTrends]; b != nil {
		if err := d.trends.Restore(b); err != nil {
			d.note("state: " + err.Error())
		}
	}
	for _, p := range rec.Forget {
		d.engine.Forget(p)
	}
	d.lostState = rec.Lost
	d.savedAt = rec.SavedAt
	rec.Parts = nil
	if d.ledger.Stats().Blocks >= manyBlocks {
		debug.FreeOSMemory() // the file, before the walls are compared
	}
	if !rec.SavedAt.IsZero() {
		d.log.Info("state restored", "saved", rec.SavedAt.UTC().Format(time.RFC3339), "blocks", d.ledger.Stats().Blocks, "pending", rec.Pending)
	}
}

// adopt takes over what the walls held when the state was lost.
func (d *daemon) adopt(found []firewall.Entry, now time.Time) {
	bs := make([]ledger.Block, len(found))
	for i, e := range found {
		bs[i] = ledger.Block{Prefix: e.Prefix, Until: e.Until, Action: e.Action.String()}
		for _, p := range e.Ports {
			bs[i].Ports = append(bs[i].Ports, detect.Ports{Proto: p.Proto, From: p.From, To: p.To})
		}
	}
	n, err := d.ledger.Found(bs, now)
	if err != nil {
		d.note(err.Error())
	}
	if n > 0 {
		d.note(detect.Quantity(n, "block") + " found in the firewall but not in the state: adopted")
		d.showAll(now)
		d.save(now)
	}
}

func (d *daemon) saveIfDirty(now time.Time) {
	if d.dirty || d.saveErr != nil {
		d.save(now)
	}
}

// save writes one consistent snapshot: everything in it is of this instant.
func (d *daemon) save(now time.Time) {
	d.tally(now)
	positions, err := json.Marshal(d.positions)
	if err == nil {
		var sessions, guards []byte
		if sessions, err = d.machine.Sessions.MarshalBinary(); err == nil {
			guards, err = d.machine.MarshalGuards()
		}
		if err == nil {
			err = d.ledger.Save(now, map[string][]byte{
				partPositions: positions,
				partEngine:    d.engine.AppendBinary(nil),
				partSessions:  sessions,
				partGuards:    guards,
				partTrends:    d.trends.AppendBinary(nil),
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
	d.giveBack()
}

// manyBlocks is from how many on what a snapshot or a comparison leaves behind
// is worth the collection of garbage.
const manyBlocks = 20_000

// giveBack returns to the system what a snapshot of many blocks took. It does not
// wait for that.
func (d *daemon) giveBack() {
	if d.ledger.Stats().Blocks < manyBlocks || !d.giving.CompareAndSwap(false, true) {
		return
	}
	go func() {
		debug.FreeOSMemory()
		d.giving.Store(false)
	}()
}
