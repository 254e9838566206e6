package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// exportFields are the fields that are read, and asked of journalctl.
// __CURSOR and __REALTIME_TIMESTAMP come unasked.
const exportFields = "MESSAGE,SYSLOG_IDENTIFIER,SYSLOG_PID,SYSLOG_RAW,_COMM,_PID,_UID,_EXE," +
	"_SYSTEMD_UNIT,_TRANSPORT,_SOURCE_REALTIME_TIMESTAMP,CONTAINER_NAME,_STREAM_ID,_LINE_BREAK"

const (
	// maxField bounds every value but the message and SYSLOG_RAW, whose limit is
	// the line's.
	maxField = 4 << 10
	// maxHead is what SYSLOG_RAW has before the message: priority, stamp, tag.
	maxHead = 512
	// entryLines is how many entries a batch holds at most. Lines point to
	// entries, so these never move.
	entryLines = 256
)

var errExport = errors.New("not the journal's export format")

// exportReader decodes the journal export format
// (https://systemd.io/JOURNAL_EXPORT_FORMATS/): entries of FIELD=value lines,
// or, for values that are not text, the field's name on a line, the value's
// length in eight bytes, the value and a newline; an empty line ends an entry.
// Memory is bounded whatever it reads.
type exportReader struct {
	r    *bufio.Reader
	pool *pools
	max  int
	cut  int64
	// skip says whether an entry that exe wrote is left out.
	skip func(exe []byte) bool
	// after is the cursor of an entry that is left out as well.
	after string
	// until, Unix microseconds, is when the last entry that was read came: those
	// up to it are left out, until there is one that came later.
	until int64

	b    *block
	used int // of b.bytes

	cursor   string // of the last entry before the batch's end
	realtime int64  // its time, Unix microseconds
	newest   []byte // the cursor of the last entry read
	last     exportEntry
	raw      []byte // memory for SYSLOG_RAW

	parts     map[string]part // beginnings of printed lines, by stream
	partBytes int
	name      [64]byte
}

// exportEntry is the entry being read.
type exportEntry struct {
	fields      int
	message     []byte
	seen, isCut bool
	cursor      [512]byte
	cursorLen   int
	realtime    int64
	source      int64
	ident, comm []byte
	sysPID, pid uint32
	uid         int64
	exe, unit   []byte
	container   []byte
	raw         []byte // SYSLOG_RAW, when it holds a NUL byte
	rawCut      bool
	stream      [40]byte // _STREAM_ID, of printed lines
	streamLen   int
	unended     bool // _LINE_BREAK: the line goes on in the stream's next entry
	breaks      bool // and a NUL byte stood between them
	transport   Transport
	start       int // of its values in the block
}

// maxMessage bounds a message: a batch has room for one at all times. journald
// itself cuts lines after 48 KiB (LineMax in journald.conf(5)).
const maxMessage = 64 << 10

func newExportReader(r io.Reader, pool *pools, maxLine int) *exportReader {
	return &exportReader{
		r: bufio.NewReaderSize(r, 64<<10), pool: pool, max: min(maxLine, maxMessage),
		skip: func([]byte) bool { return false },
	}
}

// next returns the next entries, at least one and no more than have come, or
// the reader's error. It blocks as long as the reader does.
func (x *exportReader) next() (*block, error) {
	x.open()
	for {
		err := x.field()
		switch {
		case err == nil:
			continue
		case errors.Is(err, errEntry):
			x.finish()
			if len(x.b.lines) > 0 && (x.full() || x.r.Buffered() == 0) {
				return x.take(), nil
			}
		default:
			if len(x.b.lines) > 0 {
				return x.take(), nil // the error comes again
			}
			x.b.put()
			x.b = nil
			return nil, err
		}
	}
}

// errEntry says that an entry is complete.
var errEntry = errors.New("end of entry")

// room is what one entry can take: a message, five other values, and one that
// is being read.
func (x *exportReader) room() int { return x.max + 2 + 6*maxField }

// limit is how much of a value is read. One more byte than is kept shows that
// a message is too long.
func (x *exportReader) limit(name []byte) int {
	switch {
	case string(name) == "MESSAGE" && !x.last.seen:
		return x.max + 2
	case string(name) == "SYSLOG_RAW":
		return x.max + 2 + maxHead
	}
	return maxField
}

// space is where a value of that name is read to.
func (x *exportReader) space(name []byte) []byte {
	n := x.limit(name)
	if string(name) != "SYSLOG_RAW" {
		return x.b.bytes[x.used : x.used+n]
	}
	if x.raw == nil {
		x.raw = make([]byte, n)
	}
	return x.raw
}

func (x *exportReader) open() {
	x.b = x.pool.get(max(largeBlock, x.room()))
	if cap(x.b.entries) < entryLines {
		x.b.entries = make([]Entry, 0, entryLines)
	}
	x.used = 0
	x.reset()
}

func (x *exportReader) full() bool {
	return len(x.b.lines) == entryLines || len(x.b.bytes)-x.used < x.room()
}

func (x *exportReader) take() *block {
	b := x.b
	x.b = nil
	x.cursor = string(x.newest)
	return b
}

func (x *exportReader) reset() {
	x.last = exportEntry{start: x.used, uid: -1}
}

// field reads one field, or the end of an entry.
func (x *exportReader) field() error {
	line, err := x.r.ReadSlice('\n')
	switch {
	case err == nil && len(line) == 1:
		return errEntry
	case err == nil:
		line = line[:len(line)-1]
	case errors.Is(err, bufio.ErrBufferFull):
		return x.longField(line)
	default:
		return endOf(err)
	}
	x.last.fields++
	if i := bytes.IndexByte(line, '='); i >= 0 {
		return x.set(line[:i], line[i+1:], len(line)-i-1)
	}
	return x.binaryField(line)
}

// endOf makes an end in the middle of an entry an end.
func endOf(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// longField reads a text value that is longer than the buffer.
func (x *exportReader) longField(begin []byte) error {
	i := bytes.IndexByte(begin, '=')
	if i < 0 || i > len(x.name) {
		return errExport
	}
	n := copy(x.name[:], begin[:i])
	dst := x.space(x.name[:n])
	kept := copy(dst, begin[i+1:])
	for {
		line, err := x.r.ReadSlice('\n')
		if err == nil {
			line = line[:len(line)-1]
		}
		kept += copy(dst[kept:], line)
		if err == nil {
			return x.set(x.name[:n], dst[:kept], kept)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return endOf(err)
		}
	}
}

// binaryField reads a value that comes with its length.
func (x *exportReader) binaryField(name []byte) error {
	if len(name) > len(x.name) {
		return errExport
	}
	n := copy(x.name[:], name)
	var size [8]byte
	if _, err := io.ReadFull(x.r, size[:]); err != nil {
		return endOf(err)
	}
	length := binary.LittleEndian.Uint64(size[:])
	if length > 1<<40 {
		return fmt.Errorf("%w: a value of %d bytes", errExport, length)
	}
	dst := x.space(x.name[:n])
	keep := int(min(length, uint64(len(dst))))
	dst = dst[:keep]
	if _, err := io.ReadFull(x.r, dst); err != nil {
		return endOf(err)
	}
	if err := discard(x.r, int64(length)-int64(keep)); err != nil {
		return endOf(err)
	}
	if c, err := x.r.ReadByte(); err != nil || c != '\n' {
		if err != nil {
			return endOf(err)
		}
		return errExport
	}
	return x.set(x.name[:n], dst, int(min(length, 1<<30)))
}

func discard(r *bufio.Reader, n int64) error {
	for n > 0 {
		m, err := r.Discard(int(min(n, 1<<20)))
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}

// set takes a field, of whose full bytes value may be the beginning only. The
// first of several values of one name counts.
func (x *exportReader) set(name, value []byte, full int) error {
	e := &x.last
	switch string(name) {
	case "MESSAGE":
		if !e.seen {
			e.seen, e.isCut = true, full > x.max
			e.message = x.keep(value[:min(len(value), x.max)])
		}
	case "__CURSOR":
		e.cursorLen = copy(e.cursor[:], value)
	case "__REALTIME_TIMESTAMP":
		e.realtime = number(value)
	case "_SOURCE_REALTIME_TIMESTAMP":
		e.source = number(value)
	case "SYSLOG_IDENTIFIER":
		x.setOnce(&e.ident, value)
	case "_COMM":
		x.setOnce(&e.comm, value)
	case "_EXE":
		x.setOnce(&e.exe, value)
	case "_SYSTEMD_UNIT":
		x.setOnce(&e.unit, value)
	case "SYSLOG_PID":
		e.sysPID = uint32(max(0, number(value)))
	case "_PID":
		e.pid = uint32(max(0, number(value)))
	case "_UID":
		e.uid = number(value)
	case "_TRANSPORT":
		e.transport = TransportOf(value)
	case "CONTAINER_NAME":
		x.setOnce(&e.container, value)
	case "SYSLOG_RAW":
		if i := bytes.IndexByte(value, 0); i >= 0 && e.raw == nil {
			e.raw, e.rawCut = bytes.Clone(value), full > len(value)
		}
	case "_STREAM_ID":
		e.streamLen = copy(e.stream[:], value)
	case "_LINE_BREAK":
		e.breaks = string(value) == "nul"
		e.unended = e.breaks || string(value) == "line-max"
	}
	return nil
}

func (x *exportReader) setOnce(dst *[]byte, value []byte) {
	if *dst == nil {
		*dst = x.keep(value[:min(len(value), maxField)])
	}
}

// keep copies value into the block.
func (x *exportReader) keep(value []byte) []byte {
	n := copy(x.b.bytes[x.used:], value)
	kept := x.b.bytes[x.used : x.used+n : x.used+n]
	x.used += n
	return kept
}

// number reads a decimal number, -1 when value is none.
func number(value []byte) int64 {
	if len(value) == 0 || len(value) > 20 {
		return -1
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// finish makes a line of the entry just read, if it is one.
func (x *exportReader) finish() {
	e := &x.last
	if e.fields == 0 {
		return
	}
	if e.cursorLen > 0 {
		x.newest = append(x.newest[:0], e.cursor[:e.cursorLen]...)
	}
	x.realtime = max(0, e.realtime)
	if x.realtime > x.until {
		x.until = 0
	}
	whole := x.whole()
	if !e.seen || !whole || x.until > 0 || x.skip(e.exe) || e.cursorLen > 0 && string(e.cursor[:e.cursorLen]) == x.after {
		x.used = e.start
		x.reset()
		return
	}
	e.unwrap(x.max)
	entry := Entry{
		Time: x.realtime * 1000, Ident: e.ident, PID: e.sysPID, Container: e.container,
		UID: e.uid, Exe: e.exe, Unit: e.unit, Transport: e.transport,
	}
	if e.source > 0 {
		entry.Time = e.source * 1000
	}
	if len(entry.Ident) == 0 {
		entry.Ident = e.comm
	}
	if entry.PID == 0 {
		entry.PID = e.pid
	}
	x.b.entries = append(x.b.entries, entry)
	line := Line{Text: e.message, Entry: &x.b.entries[len(x.b.entries)-1], Cut: e.isCut}
	if e.isCut {
		x.cut++
	}
	x.b.lines = append(x.b.lines, line)
	x.reset()
}

// journald ends a message at a NUL byte: what came by syslog is cut there, and
// stands in full in SYSLOG_RAW; what a service printed goes on in another entry
// of its stream (_LINE_BREAK=nul), as does a line that is longer than LineMax=
// (line-max, journald.conf(5)). That entry begins with what a client may have
// chosen, so it must not be read as a line of its own.

// maxParts is how many streams may be in the middle of a line, and partBytes
// how much text of theirs is kept: beyond it the line is lost, and counted as
// cut. journald serves no more than 4096 streams at a time.
const (
	maxParts  = 4096
	partBytes = 4 << 20
)

// part is the beginning of a line that goes on.
type part struct {
	text []byte
	lost bool
}

// unwrap puts the message together that a NUL byte cut, of which max bytes
// are kept.
func (e *exportEntry) unwrap(max int) {
	i := bytes.IndexByte(e.raw, 0)
	if i < 0 || !bytes.HasSuffix(e.raw[:i], e.message) {
		return
	}
	text := bytes.TrimRight(e.raw[i-len(e.message):], "\x00 \t\r\n")
	if len(text) <= len(e.message) {
		return
	}
	e.isCut = e.rawCut || len(text) > max
	e.message = text[:min(len(text), max)]
}

// whole reports whether the entry ends a line that a service printed, whose
// parts it puts together. Those that do not are kept for the one that does.
func (x *exportReader) whole() bool {
	e := &x.last
	if e.streamLen == 0 || len(x.parts) == 0 && !e.unended {
		return true
	}
	stream := string(e.stream[:e.streamLen])
	p, goesOn := x.parts[stream]
	if !goesOn && !e.unended {
		return true
	}
	x.partBytes -= len(p.text)
	delete(x.parts, stream)
	// One byte over the limit shows that the line is longer.
	p.text = append(p.text, e.message[:min(len(e.message), x.max+1-len(p.text))]...)
	if e.unended {
		if e.breaks && len(p.text) <= x.max {
			p.text = append(p.text, 0)
		}
		x.keepPart(stream, p)
		return false
	}
	if p.lost {
		x.cut++
		return false
	}
	e.isCut = e.isCut || len(p.text) > x.max
	e.message = p.text[:min(len(p.text), x.max)]
	return true
}

func (x *exportReader) keepPart(stream string, p part) {
	if x.parts == nil {
		x.parts = map[string]part{}
	}
	if len(x.parts) >= maxParts {
		for other, old := range x.parts {
			x.partBytes -= len(old.text)
			delete(x.parts, other)
			break
		}
	}
	if p.lost = p.lost || x.partBytes+len(p.text) > partBytes; p.lost {
		p.text = nil
	}
	x.partBytes += len(p.text)
	x.parts[stream] = p
}
