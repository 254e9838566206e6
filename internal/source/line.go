// Package source makes places that lines come from (files however they are
// rotated, the journal, pipes, standard input) look like endless sequences of
// lines, and promises that no line of them is lost or read twice. It is the
// only importer of nxadm/tail.
//
// What cannot be kept is said in a Status's notes or here: what a writer adds
// between the copy and the truncation of logrotate's copytruncate, if it was
// not read before the truncation; what is truncated away without a copy before
// it was read; a half line at the end of a rotated file; and what a named pipe
// held when we were not there.
package source

import "time"

// Origin is where lines come from: one file, the journal, one pipe. It is
// immutable while its source runs; compare by pointer.
type Origin struct {
	// Name is what a person calls it ("/var/log/auth.log", "journal") and the
	// key of its Pos in a snapshot.
	Name string
	// Service and Format are the hints of the rules file, empty to sniff.
	Service, Format string
	// Spec is the index of the configured source it belongs to.
	Spec int
}

// Pos is a place to resume reading after, small enough to keep per batch.
// The zero Pos means "nothing read yet".
type Pos struct {
	Dev    uint64 `json:"dev,omitempty"`
	Ino    uint64 `json:"ino,omitempty"`
	Print  uint64 `json:"print,omitempty"`     // hash of the file's first PrintLen bytes
	PLen   int64  `json:"print_len,omitempty"` // how many bytes the hash covers
	Offset int64  `json:"offset,omitempty"`    // bytes of whole lines handed on; of the journal, the last entry's __REALTIME_TIMESTAMP
	Line   int64  `json:"line,omitempty"`      // lines handed on, for messages only
	Cursor string `json:"cursor,omitempty"`    // the journal's
	// Time is when the lines up to here were read, or, when newer files are unread,
	// when the first of these was written; Unix nanoseconds. What was rotated and
	// written later than this is unread, but for Older.
	Time int64 `json:"time,omitempty"`
	// Older is the file before this one, when something may still write to it:
	// a rotated file whose writer has not let go. It is never changed once set.
	Older *Pos `json:"older,omitempty"`
	// Twin names the origin that carries the same lines, when this one stands
	// by for it and hands none on.
	Twin string `json:"twin,omitempty"`
}

// Entry is what the journal itself says of a line, which its writer cannot
// choose (systemd.journal-fields(7), the fields that begin with "_"), and the
// tag that it can.
type Entry struct {
	Time   int64  // Unix nanoseconds, of __REALTIME_TIMESTAMP or _SOURCE_REALTIME_TIMESTAMP
	Ident  []byte // SYSLOG_IDENTIFIER, else _COMM: chosen by the writer
	PID    uint32 // SYSLOG_PID, else _PID
	UID    int64  // _UID, -1 when the entry has none
	Exe    []byte // _EXE, empty when unknown
	Unit   []byte // _SYSTEMD_UNIT
	Kernel bool   // _TRANSPORT=kernel
}

// Line is one line, without its line ending. Its bytes alias the batch's
// memory and are valid until the batch is released.
type Line struct {
	Text   []byte
	Number int64  // 1-based in the file being read, 0 when unknown
	Entry  *Entry // of a journal line, nil for others
	Cut    bool   // it was longer than the limit; Text is its beginning
}

// Batch is a run of consecutive lines of one origin that were read at once. It
// may have no lines: then only the position has moved on.
// Who receives it owns it until Release, which returns its memory.
type Batch struct {
	Origin *Origin
	Lines  []Line
	// Arrival is when the bytes were read.
	Arrival time.Time
	// Backlog marks lines that were written before this run caught up with
	// their origin: their stamps hold, however old. Otherwise they are live.
	Backlog bool
	// Pos is where to resume once every line of this batch was handled.
	Pos Pos
	// Done, when set, gives the memory back to its owner.
	Done func(*Batch)

	block *block // the memory, of batches made here
}

// Release hands the batch's memory back. No field may be used afterwards.
func (b *Batch) Release() {
	if b.Done != nil {
		b.Done(b)
	}
}
