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

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// Origin is where lines come from: one file, the journal, one pipe. It is
// immutable while its source runs; compare by pointer.
type Origin struct {
	// Name is what a person calls it ("/var/log/auth.log", "journal") and the
	// key of its Pos in a snapshot.
	Name string
	// Path is the absolute name of the log that rules know it by, without what a
	// rotation appended, when Name is not that: of replayed files
	// and copies.
	Path string
	// Log names the log whose rotated file Name is, when that is not Name: records
	// go on from one file to the next.
	Log string
	// Service and Format are the hints of the rules file, empty to sniff.
	Service, Format string
	// Spec is the index of the configured source it belongs to.
	Spec int
}

// Listed is the name that the rules know the origin by.
func (o *Origin) Listed() string {
	if o.Path != "" {
		return o.Path
	}
	return o.Name
}

// Whole is the name of all that is read as one sequence of lines.
func (o *Origin) Whole() string {
	if o.Log != "" {
		return o.Log
	}
	return o.Name
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
	// Tail is the hash of the TailLen bytes before Offset. With Print it decides
	// whether a file is the one that was read here: an inode is reused.
	Tail    uint64 `json:"tail,omitempty"`
	TailLen int64  `json:"tail_len,omitempty"`
	// Time is when the name was last known to lead to the newest file, or, when
	// newer files are unread, when the first of these was written; Unix
	// nanoseconds. What was rotated and written later than this is unread, except
	// for what the content of Older shows to be read.
	Time int64 `json:"time,omitempty"`
	// Unread, when set, is since when rotated files are unread that could not be
	// read yet, most likely because they are just being packed; Unix nanoseconds.
	Unread int64 `json:"unread,omitempty"`
	// Older is the file before this one, when something may still write to it:
	// a rotated file whose writer has not let go. It is never changed once set.
	Older *Pos `json:"older,omitempty"`
	// Closed marks an older file that was read to its end and given up. It is
	// remembered because a late line, or a copy of it, would be read again.
	Closed bool `json:"closed,omitempty"`
	// Dir is the directory that rotation moves files to, when it is another one.
	Dir string `json:"dir,omitempty"`
	// Twin names the origin that carries the same lines, when this one stands
	// by for it and hands none on.
	Twin string `json:"twin,omitempty"`
}

// Entry is what the journal itself says of a line, which its writer cannot
// choose (systemd.journal-fields(7), the fields that begin with "_"), and what
// the writer says: Ident and Container.
type Entry struct {
	Time      int64     // Unix nanoseconds, of __REALTIME_TIMESTAMP or _SOURCE_REALTIME_TIMESTAMP
	Ident     []byte    // SYSLOG_IDENTIFIER, else _COMM: chosen by the writer
	Container []byte    // CONTAINER_NAME: chosen by the writer, which is a container's runtime if Unit says so
	PID       uint32    // SYSLOG_PID, else _PID
	UID       int64     // _UID, -1 when the entry has none
	Exe       []byte    // _EXE, empty when the process ended before journald looked at it
	Unit      []byte    // _SYSTEMD_UNIT, likewise
	Transport Transport // _TRANSPORT
}

// Field is the value of a field of the journal that an Entry holds; known is
// false for others. _COMM is the file name of the program.
func (e *Entry) Field(name string) (value string, known bool) {
	switch name {
	case "_SYSTEMD_UNIT":
		return string(e.Unit), true
	case "SYSLOG_IDENTIFIER":
		return string(e.Ident), true
	case "_EXE":
		return string(e.Exe), true
	case "_COMM":
		exe := string(e.Exe)
		if exe == "" {
			return string(e.Ident), true
		}
		exe = exe[strings.LastIndexByte(exe, '/')+1:]
		return exe[:min(len(exe), 15)], true // the kernel cuts it
	case "_UID":
		return strconv.FormatInt(e.UID, 10), true
	case "CONTAINER_NAME":
		return string(e.Container), true
	case "_TRANSPORT":
		switch e.Transport {
		case KernelTransport:
			return "kernel", true
		case StdoutTransport:
			return "stdout", true
		}
	}
	return "", false
}

// Transport is how an entry came into the journal.
type Transport uint8

const (
	OtherTransport  Transport = iota // syslog, native, journald's own, audit
	KernelTransport                  // the kernel's log
	StdoutTransport                  // what a service printed, cut at newlines
)

// TransportOf reads a value of _TRANSPORT.
func TransportOf(value []byte) Transport {
	switch string(value) {
	case "kernel":
		return KernelTransport
	case "stdout":
		return StdoutTransport
	}
	return OtherTransport
}

// Line is one line, without its line ending. Its bytes alias the batch's
// memory and are valid until the batch is released.
type Line struct {
	Text   []byte
	Number int64  // 1-based in the file being read, 0 when unknown
	Entry  *Entry // of a journal line, nil for others
	// Cut says that it was longer than the limit and Text is its beginning. Of a
	// longer JSON object Text has all fields, with long strings cut off, and Cut is
	// false. Two parts of one text never stand beside each other, so that no
	// position in it is a client's choice.
	Cut bool
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

const (
	smallBlock = 4 << 10
	largeBlock = 128 << 10 // with its lines it stays within a core's second-level cache
	smallLines = 32
)

// block is the memory of one batch: the bytes, the lines that alias them, and
// the batch itself, so that handing on lines allocates nothing.
type block struct {
	batch   Batch
	bytes   []byte
	lines   []Line
	entries []Entry
	home    *sync.Pool
}

// pools hold blocks of two sizes between uses. They start empty and the
// garbage collector drains them when nothing is read.
type pools struct {
	small, large sync.Pool
	heads        sync.Pool // of *[printMax]byte, to compare fingerprints
}

// head returns memory for the beginning of a file, until it is put back.
func (p *pools) head() *[printMax]byte {
	if h, ok := p.heads.Get().(*[printMax]byte); ok {
		return h
	}
	return new([printMax]byte)
}

// get returns a block of at least size bytes. Sizes over the large block are
// not pooled.
func (p *pools) get(size int) *block {
	pool, n := &p.small, smallBlock
	if size > smallBlock {
		pool, n = &p.large, largeBlock
	}
	if size > n {
		return &block{bytes: make([]byte, size)}
	}
	if b, ok := pool.Get().(*block); ok {
		return b
	}
	return &block{bytes: make([]byte, n), lines: make([]Line, 0, smallLines), home: pool}
}

// put gives a block back that was never handed on as a batch.
func (b *block) put() {
	if b.home == nil {
		return
	}
	clear(b.lines)
	b.batch, b.lines, b.entries = Batch{}, b.lines[:0], b.entries[:0]
	b.home.Put(b)
}

// asBatch makes a batch of the block's lines; its release returns the block.
func (b *block) asBatch() *Batch {
	b.batch = Batch{Lines: b.lines, Done: releaseBlock, block: b}
	return &b.batch
}

func releaseBlock(b *Batch) { b.block.put() }
