package ledger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// Open loads the state in dir, which must exist; dir "" keeps everything in
// memory, as a replay does. What is damaged is set aside (renamed .corrupt)
// and noted, never fatal. The error is of options that cannot work, or of a
// dir that is none. Until RecoveryDone the ledger is recovering: the caller
// restores its parts, empties the buckets of Forget, gives the walls List,
// and reads on from the saved positions.
func Open(dir string, now time.Time, o Options) (*Ledger, *Recovered, error) {
	o, err := o.filled()
	if err != nil {
		return nil, nil, err
	}
	l, rec := newLedger(o), &Recovered{}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return nil, nil, err
		} else if !info.IsDir() {
			return nil, nil, fmt.Errorf("%s is not a directory", dir)
		}
		l, rec = load(newStore(dir, o), o, now)
	}
	l.out = nil
	l.liftAllowed(now)
	l.deny(now)
	l.store.health("flags", l.flags.writeAll(now.UnixNano()))
	l.expireBlocks(now.UnixNano())
	l.out, l.stats = nil, Stats{Evicted: l.stats.Evicted}
	rec.Pending = len(l.waiting)
	return l, rec, nil
}

// load makes a ledger of what a directory holds.
func load(s *store, o Options, now time.Time) (*Ledger, *Recovered) {
	rec := &Recovered{}
	snap, notes := s.load()
	rec.Notes = notes
	damaged := len(notes) > 0
	l, after := newLedger(o), uint64(0)
	if snap != nil {
		if err := l.decode(snap.parts[own], now.UnixNano()); err != nil {
			rec.Notes = append(rec.Notes, s.setAside("state", err))
			l, snap, damaged = newLedger(o), nil, true
		}
	}
	if snap != nil {
		after = snap.seq
		delete(snap.parts, own)
		rec.Parts, rec.SavedAt = snap.parts, snap.at
	}
	l.store = s
	es, notes := s.entries(after)
	rec.Notes = append(rec.Notes, notes...)
	rec.Lost = snap == nil && (damaged || len(es) == 0)
	told := s.audit.last()
	for _, e := range es {
		l.redo(e, rec, now.UnixNano())
		if e.Seq > told { // killed between the journal and the trail
			s.health("audit", s.audit.write(e))
		}
	}
	s.seq = max(s.seq, told)
	return l, rec
}

// Save writes a snapshot: the ledger's state and the caller's parts, which
// must be of the same instant. It waits for the disk. On an error the former
// snapshot and the journal still hold everything; call Save again later. The
// name "" is the ledger's own.
func (l *Ledger) Save(now time.Time, parts map[string][]byte) error {
	if l.store == nil {
		return nil
	}
	if _, taken := parts[own]; taken {
		return errors.New("saving the state: a part has no name")
	}
	all := maps.Clone(parts)
	if all == nil {
		all = map[string][]byte{}
	}
	var err error
	if all[own], err = l.encode(nil); err == nil {
		err = l.store.save(&snapshot{at: now, parts: all})
	}
	if err != nil {
		err = fmt.Errorf("saving the state: %w", err)
	} else {
		l.store.health("journal", nil)
	}
	l.store.health("state", err)
	return err
}

// append writes an entry down.
func (l *Ledger) append(e *entry, sync bool) error {
	if err := l.store.write(e, sync); err != nil {
		return fmt.Errorf("done, but not saved: %w", err)
	}
	return nil
}

// Health tells in one line each what does not work, such as a full disk.
func (l *Ledger) Health() []string {
	if l.store == nil {
		return nil
	}
	var out []string
	for _, part := range slices.Sorted(maps.Keys(l.store.ill)) {
		out = append(out, clean(l.store.ill[part], 500))
	}
	if n := len(l.store.lost) + l.store.dropped; n > 0 {
		out = append(out, fmt.Sprintf("%d entries are not saved yet", n))
	}
	return out
}

// Close closes files. It does not save.
func (l *Ledger) Close() error {
	if l.store == nil {
		return nil
	}
	return errors.Join(l.store.journal.close(), l.store.audit.file.close())
}
