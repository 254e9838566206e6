package source

import "bytes"

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
