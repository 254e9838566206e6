package ledger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// magic begins a snapshot. What follows: the number of the last entry that is
// in it and the time (8 bytes each, little-endian), then sections, each a
// length, a name, a length and data (lengths as uvarints), and at the end the
// CRC-32C of it all.
const magic = "stoplog state 1\n"

// own is the name of the ledger's section; the others are the caller's.
const own = ""

type snapshot struct {
	seq   uint64
	at    time.Time
	parts map[string][]byte
}

// write writes the snapshot without a copy of its parts.
func (s *snapshot) write(to io.Writer) error {
	sum := crc32.New(castagnoli)
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 64<<10)
	field := func(b []byte) {
		w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(len(b)))) // errors stay until Flush
		w.Write(b)
	}
	w.WriteString(magic)
	w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), s.seq))
	w.Write(binary.LittleEndian.AppendUint64(w.AvailableBuffer(), uint64(s.at.UnixNano())))
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		field([]byte(name))
		field(s.parts[name])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := to.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

func decodeSnapshot(b []byte) (*snapshot, error) {
	if !bytes.HasPrefix(b, []byte(magic)) || len(b) < len(magic)+20 {
		return nil, errors.New("not a snapshot of this version")
	}
	end := len(b) - 4
	if binary.LittleEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return nil, errors.New("wrong checksum: it is incomplete or was changed")
	}
	b = b[len(magic):end]
	s := &snapshot{seq: binary.LittleEndian.Uint64(b), at: time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:]))).UTC(), parts: map[string][]byte{}}
	for b = b[16:]; len(b) > 0; {
		name, rest, ok := cutField(b)
		data, rest, ok2 := cutField(rest)
		if !ok || !ok2 {
			return nil, errors.New("its sections are corrupt")
		}
		s.parts[string(name)], b = data, rest
	}
	return s, nil
}

func cutField(b []byte) (field, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	return b[w : w+int(n)], b[w+int(n):], true
}

// store is the files in a state directory:
//
//	state         the last snapshot
//	state.prev    the one before
//	journal       what happened since state
//	journal.prev  what happened between the two
//	audit.jsonl, audit.jsonl.1…  the audit trail
//
// Entries are numbered; a snapshot knows the last one that it holds. So it does
// not matter between which of its steps a save is killed: whichever snapshot is
// found, the entries with higher numbers are applied to it.
type store struct {
	dir     string
	seq     uint64
	journal appender
	audit   audit
	lost    [][]byte // entries that the disk refused, to be tried again
	dropped int      // those of them that there was no room for
	ill     map[string]string
}

// maxLost bounds the entries kept for a second try; a snapshot has them too.
const maxLost = 10_000

func newStore(dir string, o Options) *store {
	return &store{
		dir:     dir,
		journal: appender{path: filepath.Join(dir, "journal"), mode: 0o600},
		audit:   newAudit(dir, o),
		ill:     map[string]string{},
	}
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// health notes an error of a part, or with nil that it works again.
func (s *store) health(part string, err error) {
	switch {
	case s == nil:
	case err == nil:
		delete(s.ill, part)
	default:
		s.ill[part] = part + ": " + err.Error()
	}
}

// save writes a snapshot in place of the last, keeps that as the one before,
// and starts the journal again.
func (s *store) save(snap *snapshot) error {
	snap.seq = s.seq
	tmp := s.path("state.tmp")
	if err := writeSynced(tmp, snap.write); err != nil {
		os.Remove(tmp)
		return err
	}
	if err := os.Rename(s.path("state"), s.path("state.prev")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, s.path("state")); err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	s.lost, s.dropped = nil, 0
	return s.rotate()
}

// rotate starts a new journal.
func (s *store) rotate() error {
	s.journal.close()
	if err := os.Rename(s.journal.path, s.path("journal.prev")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.journal.open()
}

func writeSynced(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// load reads the newest snapshot that is whole, nil when there is none, and
// sets aside those that are damaged.
func (s *store) load() (snap *snapshot, notes []string) {
	for _, name := range []string{"state", "state.prev"} {
		data, err := os.ReadFile(s.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if snap, err = decodeSnapshot(data); err == nil {
				return snap, notes
			}
		}
		notes = append(notes, s.setAside(name, err))
	}
	return nil, notes
}

// setAside renames a file that cannot be used and says so.
func (s *store) setAside(name string, why error) string {
	from, to := s.path(name), s.path(name+".corrupt")
	if err := os.Rename(from, to); err != nil {
		return fmt.Sprintf("ignoring %s: %v; renaming it failed: %v", from, why, err)
	}
	return fmt.Sprintf("ignoring %s: %v; it is kept as %s", from, why, to)
}

// entries reads the journals' entries that a snapshot does not hold, in order.
func (s *store) entries(after uint64) (es []*entry, notes []string) {
	s.seq = after
	for _, name := range []string{"journal.prev", "journal"} {
		all, damaged, err := readJournal(s.path(name), after)
		if err != nil {
			notes = append(notes, s.setAside(name, err))
		}
		if damaged > 0 {
			notes = append(notes, fmt.Sprintf("%s: skipped %d corrupt lines", s.path(name), damaged))
		}
		for _, e := range all {
			if e.Seq > s.seq {
				es, s.seq = append(es, e), e.Seq
			}
		}
	}
	return es, notes
}

// write notes an entry in the journal and the audit trail. With sync it is on
// disk on return.
func (s *store) write(e *entry, sync bool) error {
	if s == nil {
		return nil
	}
	s.seq++
	e.Seq = s.seq
	line, err := e.sealed()
	if err != nil {
		return err
	}
	s.retry()
	if len(s.lost) > 0 {
		err = errors.New(s.ill["journal"]) // in order or not at all
	} else {
		err = s.journal.add(line, sync)
	}
	if err != nil {
		s.lose(line, err)
	}
	s.health("audit", s.audit.write(e))
	return err
}

func (s *store) lose(line []byte, err error) {
	if len(s.lost) < maxLost {
		s.lost = append(s.lost, line)
	} else {
		s.dropped++
	}
	s.health("journal", err)
}

// retry writes the entries that the disk refused.
func (s *store) retry() {
	if s == nil {
		return
	}
	for len(s.lost) > 0 {
		if err := s.journal.add(s.lost[0], len(s.lost) == 1); err != nil {
			s.health("journal", err)
			return
		}
		s.lost = s.lost[1:]
	}
	if s.dropped == 0 {
		s.health("journal", nil)
	}
}

func (s *store) journalBytes() int64 {
	if s == nil {
		return 0
	}
	return s.journal.bytes
}
