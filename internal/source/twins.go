package source

import (
	"bytes"
	"sync"
	"time"
)

// Where rsyslog copies the journal into files, each line comes twice. twins
// finds out by comparing what arrives at about the same time: if nearly every
// line of one origin also comes from the other, the first stands by. The
// journal is kept where both say the same, for what it knows of the writer.
const (
	// twinWithin is how far apart the two copies of a line may come.
	twinWithin = 5 * time.Second
	// twinMatches is how many lines must have come twice, and twinShare which
	// part, in tenths, of all, for an origin to stand by.
	twinMatches, twinShare = 5, 8
	// twinCheck is how many lines of an origin that stands by are judged at
	// once; when fewer than half of them came twice it is used again.
	twinCheck = 20
	// twinBatch is the largest batch that is compared; a flood is not.
	twinBatch = 64
	// twinRing is how many lines are remembered of each origin.
	twinRing = 256
)

// twins compares origins. It may be used by several goroutines.
type twins struct {
	mu    sync.Mutex // guards all
	sides map[string]*twinSide
	// journals and files are how many sides are of each kind.
	journals, files int
}

// twinSide is one origin that is compared.
type twinSide struct {
	journal bool
	alive   bool
	ring    []twinLine // nil until there is a line to compare
	next    int
	total   int64
	pairs   map[string]*twinPair // of a journal: by file
	standby string               // the origin that it stands by for
	checkAt int64                // the total and the matches
	checked int64                // when it was last judged
}

// twinLine is a line that came from one side, until it comes from the other.
type twinLine struct {
	hash uint64
	at   int64 // Unix nanoseconds
}

// twinPair counts what a journal and a file have in common.
type twinPair struct{ matched, journal, file int64 }

// side returns the origin's side.
func (t *twins) side(name string, journal bool) *twinSide {
	if t.sides == nil {
		t.sides = map[string]*twinSide{}
	}
	s := t.sides[name]
	if s == nil {
		s = &twinSide{journal: journal, pairs: map[string]*twinPair{}, alive: true}
		t.sides[name] = s
		*t.kind(s)++
	}
	return s
}

// kind is the number of sides that are what s is.
func (t *twins) kind(s *twinSide) *int {
	if s.journal {
		return &t.journals
	}
	return &t.files
}

// join adds an origin, which stood by for another when it was left.
func (t *twins) join(name string, journal bool, standby string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.side(name, journal)
	s.standby, s.checkAt, s.checked = standby, 0, 0
}

// leave removes an origin; what stood by for it is used again.
func (t *twins) leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sides[name]; s != nil {
		*t.kind(s)--
		delete(t.sides, name)
	}
	for _, s := range t.sides {
		delete(s.pairs, name)
		if s.standby == name {
			s.standby = ""
		}
	}
}

// setAlive says whether an origin is followed now: nothing stands by for one
// that is not.
func (t *twins) setAlive(name string, alive bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sides[name]; s != nil {
		s.alive = alive
	}
}

// standsBy returns the origin that name stands by for, empty when it is used.
func (t *twins) standsBy(name string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.standby(name)
}

func (t *twins) standby(name string) string {
	s := t.sides[name]
	if s == nil || s.standby == "" {
		return ""
	}
	if o := t.sides[s.standby]; o == nil || !o.alive {
		return ""
	}
	return s.standby
}

// compare is told of live lines of an origin, and returns for which other one
// it stands by, empty when the lines are to be handed on.
func (t *twins) compare(name string, lines []Line, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sides[name]
	if s == nil || t.journals == 0 || t.files == 0 {
		return ""
	}
	if len(lines) <= twinBatch {
		for _, l := range lines {
			if h, ok := twinHash(l); ok {
				t.add(name, s, h, now)
			}
		}
	}
	return t.standby(name)
}

// add remembers a line and looks for it on the other side.
func (t *twins) add(name string, s *twinSide, h uint64, now time.Time) {
	if s.ring == nil {
		s.ring = make([]twinLine, twinRing)
	}
	s.ring[s.next] = twinLine{h, now.UnixNano()}
	s.next = (s.next + 1) % twinRing
	s.total++
	for other, o := range t.sides {
		if o.journal == s.journal || o.ring == nil {
			continue
		}
		journal, file, j, f := name, other, s, o
		if o.journal {
			journal, file, j, f = other, name, o, s
		}
		p := j.pairs[file]
		if p == nil {
			p = &twinPair{journal: j.total, file: f.total}
			if s.journal {
				p.journal--
			} else {
				p.file--
			}
			j.pairs[file] = p
		}
		if o.forget(h, now) {
			p.matched++
			decide(p, journal, file, j, f)
		}
		recheck(p, journal, file, j, f)
	}
}

// forget reports whether a line came within the time, and forgets it: one
// line has one twin.
func (s *twinSide) forget(h uint64, now time.Time) bool {
	for i, l := range s.ring {
		if l.hash == h && now.UnixNano()-l.at <= int64(twinWithin) {
			s.ring[i] = twinLine{}
			return true
		}
	}
	return false
}

// decide lets one side stand by when nearly all of its lines came twice.
func decide(p *twinPair, journal, file string, j, f *twinSide) {
	if p.matched < twinMatches || j.standby != "" || f.standby != "" {
		return
	}
	switch {
	case p.matched*10 >= (f.total-p.file)*twinShare:
		f.standby, f.checkAt, f.checked = journal, f.total, p.matched
	case p.matched*10 >= (j.total-p.journal)*twinShare:
		j.standby, j.checkAt, j.checked = file, j.total, p.matched
	}
}

// recheck ends a standby whose lines no longer come twice, and lets old counts
// fade.
func recheck(p *twinPair, journal, file string, j, f *twinSide) {
	for _, s := range []*twinSide{j, f} {
		if s.standby == "" || s.standby != journal && s.standby != file || s.total-s.checkAt < twinCheck {
			continue
		}
		if p.matched-s.checked < twinCheck/2 {
			s.standby = ""
			*p = twinPair{journal: j.total, file: f.total}
		}
		s.checkAt, s.checked = s.total, p.matched
	}
	if j.standby == "" && f.standby == "" && (f.total-p.file > 200 || j.total-p.journal > 200) {
		*p = twinPair{journal: j.total, file: f.total}
	}
}

// minTwin is the shortest message that can show two origins to be the same.
const minTwin = 12

// twinHash is the same for a line of the journal and its copy by rsyslog: it
// covers the identifier and the message. It is false for what is no syslog
// line.
func twinHash(l Line) (uint64, bool) {
	ident, message := []byte(nil), l.Text
	if l.Entry != nil {
		ident = l.Entry.Ident
	} else {
		var ok bool
		if ident, message, ok = syslogTag(l.Text); !ok {
			return 0, false
		}
	}
	if len(message) < minTwin || len(ident) == 0 {
		return 0, false
	}
	h := fold(hashBytes(ident), hashBytes(message))
	return h, h != 0
}

// syslogTag finds the identifier and the message of a line that rsyslog wrote,
// by its old or its new file format.
func syslogTag(text []byte) (ident, message []byte, ok bool) {
	if len(text) > 16 && text[3] == ' ' && text[15] == ' ' {
		text = text[16:] // Nov 20 10:00:00
	} else if _, text, ok = bytes.Cut(text, []byte(" ")); !ok {
		return nil, nil, false
	}
	_, text, ok = bytes.Cut(text, []byte(" ")) // the host
	if !ok {
		return nil, nil, false
	}
	tag, message, ok := bytes.Cut(text, []byte(": "))
	if !ok || bytes.IndexByte(tag, ' ') >= 0 {
		return nil, nil, false
	}
	ident, _, _ = bytes.Cut(tag, []byte("["))
	return ident, message, true
}
