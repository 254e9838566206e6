package ledger

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unique"

	"stoplog/internal/detect"
)

// writer appends values to b.
type writer struct{ b []byte }

func (w *writer) int(v int64) { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) text(s string) {
	w.int(int64(len(s)))
	w.b = append(w.b, s...)
}
func (w *writer) key(k pkey) {
	w.int(int64(k.n))
	w.int(int64(k.hi))
	w.int(int64(k.lo))
}

// reader takes values off the front of b. After the first that is not there it
// is bad and gives zeros.
type reader struct {
	b       []byte
	bad     bool
	version byte // of the state
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.b)) || r.bad {
		r.bad = true
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) text() string    { return string(r.bytes(r.int())) }
func (r *reader) bool() bool      { return r.int() != 0 }
func (r *reader) time() time.Time { return time.Unix(0, r.int()).UTC() }

// count reads how many things follow, of at least a byte each.
func (r *reader) count() int {
	n := r.int()
	if n < 0 || n > int64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) key() pkey {
	k := pkey{n: uint64(r.int()), hi: uint64(r.int()), lo: uint64(r.int())}
	v4 := k.n >= isV4 && k.n <= isV4+32 && k.hi == 0 && k.lo < 1<<32
	if !v4 && k.n > 128 || k != keyOf(k.prefix()) {
		r.bad = true
		return pkey{n: isV4 + 32}
	}
	return k
}

// flagsOf packs booleans, the first in the lowest bit.
func flagsOf(bs ...bool) (n int64) {
	for i, b := range bs {
		if b {
			n |= 1 << i
		}
	}
	return n
}

// about writes what many blocks have in common.
func (w *writer) about(a *about) {
	for _, s := range [...]string{a.rule, a.by, a.action, a.source, a.service, a.reason} {
		w.text(s)
	}
	w.int(int64(a.level))
	w.int(flagsOf(a.cut, a.byKey))
	ports := unpackPorts(a.ports)
	w.int(int64(len(ports)))
	for _, p := range ports {
		w.text(p.Proto)
		w.int(int64(p.From))
		w.int(int64(p.To))
	}
}

func (r *reader) about() (a about) {
	for _, s := range [...]*string{&a.rule, &a.by, &a.action, &a.source, &a.service, &a.reason} {
		*s = r.text()
	}
	a.level = int(r.int())
	flags := r.int()
	a.cut, a.byKey = flags&1 != 0, flags&2 != 0
	var ports []detect.Ports
	for range r.count() {
		ports = append(ports, detect.Ports{Proto: r.text(), From: uint16(r.int()), To: uint16(r.int())})
	}
	a.ports = packPorts(ports)
	return a
}

// block reads a block as versions up to 3 wrote it.
func (r *reader) block() Block {
	b := Block{Prefix: r.key().prefix()}
	for _, s := range [...]*string{&b.Rule, &b.Reason, &b.By, &b.Action, &b.Source, &b.Key, &b.Service, &b.User} {
		*s = r.text()
	}
	b.Since, b.Until = r.time(), r.time()
	b.Count = int(r.int())
	if b.Points = b.Count; r.version > 1 {
		b.Points = int(r.int())
	}
	b.Strikes, b.Line, b.Level = int(r.int()), r.int(), int(r.int())
	b.Forever, b.Cut, b.Partial = r.bool(), r.bool(), r.bool()
	for range r.count() {
		b.Ports = append(b.Ports, detect.Ports{Proto: r.text(), From: uint16(r.int()), To: uint16(r.int())})
	}
	for range r.count() {
		b.Evidence = append(b.Evidence, r.text())
	}
	return b
}

// stateVersion 1 lacked the points of blocks, 2 which logins were verified: all
// of them were. 3 wrote out of each block what many have in common.
const stateVersion = 4

// small is the part of the state that is little and saved as JSON.
type small struct {
	Allowances []Allowance            `json:"allowances,omitempty"`
	Flags      map[string][]FlagState `json:"flags,omitempty"`
	Lockdown   LockdownState          `json:"lockdown"`
	Pending    []*entry               `json:"pending,omitempty"`
	Evicted    uint64                 `json:"evicted,omitempty"`
	Except     []exception            `json:"except,omitempty"`
}

// encode appends the ledger's own state.
func (l *Ledger) encode(b []byte) ([]byte, error) {
	w := &writer{b: append(slices.Grow(b, 64*l.blocks.len()+l.evidence.bytes), stateVersion)}
	l.encodeBlocks(w)
	l.encodeKnown(w)
	w.int(int64(len(l.strikes.by)))
	for k, s := range l.strikes.by {
		w.key(k)
		w.int(int64(s.n))
		w.int(s.last)
	}
	w.int(int64(len(l.forgiven)))
	for k, until := range l.forgiven {
		w.key(k)
		w.int(until)
	}
	w.int(int64(len(l.answered)))
	for e, a := range l.answered {
		w.text(e.rule)
		w.int(int64(e.level))
		w.text(e.key)
		w.int(a.at)
		w.int(a.until)
	}
	s := small{Allowances: l.allow.list(0, true), Flags: l.flags.by, Lockdown: l.lockdown, Evicted: l.stats.Evicted, Except: l.exceptionsSaved()}
	l.eachPending(func(e *entry) { s.Pending = append(s.Pending, e) })
	text, err := json.Marshal(s)
	w.text(string(text))
	return w.b, err
}

// encodeBlocks writes what blocks have in common, the users, and the blocks.
func (l *Ledger) encodeBlocks(w *writer) {
	abouts, users := map[unique.Handle[about]]int64{}, map[unique.Handle[string]]int64{}
	var as []about
	var us []string
	for r := range l.blocks.all() {
		if _, known := abouts[r.about]; !known {
			abouts[r.about] = int64(len(as))
			as = append(as, r.about.Value())
		}
		if _, known := users[r.user]; !known {
			users[r.user] = int64(len(us))
			us = append(us, r.user.Value())
		}
	}
	w.int(int64(len(as)))
	for i := range as {
		w.about(&as[i])
	}
	w.int(int64(len(us)))
	for _, u := range us {
		w.text(u)
	}
	w.int(int64(l.blocks.len()))
	for r := range l.blocks.all() {
		w.key(r.k)
		for _, n := range [...]int64{abouts[r.about], users[r.user], r.since, r.until - r.since, r.line, int64(r.count), int64(r.points), int64(r.strikes),
			flagsOf(r.ended, r.lifted, r.forever, r.partial, r.keyed, r.more != nil)} {
			w.int(n)
		}
		if r.more != nil {
			w.more(r.more)
		}
	}
}

// more writes what few blocks have, but for the exceptions, which are saved apart.
func (w *writer) more(m *more) {
	w.text(m.key)
	w.int(int64(len(m.evidence)))
	for _, s := range m.evidence {
		w.text(s)
	}
	w.int(int64(len(m.spans)))
	for _, s := range m.spans {
		w.int(s.since)
		w.int(s.until)
		w.text(s.service)
	}
}

func (l *Ledger) encodeKnown(w *writer) {
	w.int(int64(len(l.known.by)))
	for a, ls := range l.known.by {
		w.b = append(w.b, a[:]...)
		w.int(int64(len(ls)))
		for _, g := range ls {
			w.text(g.service)
			w.b = append(w.b, g.user[:]...)
			w.int(g.since)
			w.int(g.last)
			w.int(g.proven)
		}
	}
}

var errState = errors.New("the ledger's section is corrupt or of another version")

// decode fills an empty ledger with what encode wrote.
func (l *Ledger) decode(b []byte, now int64) error {
	if len(b) == 0 || b[0] == 0 || b[0] > stateVersion {
		return errState
	}
	r := &reader{b: b[1:], version: b[0]}
	l.decodeBlocks(r)
	l.decodeKnown(r)
	for range r.count() {
		l.strikes.by[r.key()] = strike{int(r.int()), r.int()}
	}
	for range r.count() {
		k := r.key()
		l.pardon(k, r.int())
	}
	last := "" // rules are few
	for range r.count() {
		rule := r.bytes(r.int())
		if string(rule) != last {
			last = string(rule)
		}
		ep := episode{rule: last, level: int(r.int()), key: r.text()}
		l.answered[ep] = answer{r.int(), r.int()}
	}
	var s small
	if text := r.text(); r.bad || json.Unmarshal([]byte(text), &s) != nil {
		return errState
	}
	for _, a := range s.Allowances {
		if a.Prefix.IsValid() {
			l.allow.add(a)
		}
	}
	if s.Flags != nil {
		l.flags.by = s.Flags
	}
	l.lockdown, l.stats.Evicted = s.Lockdown, s.Evicted
	l.restoreExceptions(s.Except)
	for _, e := range s.Pending {
		if e != nil && e.Op == opBreach && e.usable() {
			l.wait(e, now)
		}
	}
	return nil
}

func (l *Ledger) decodeBlocks(r *reader) {
	next := func(rec *record) {
		b := r.block()
		*rec = record{k: keyOf(b.Prefix)}
		rec.fill(&b, &l.common)
		rec.ended, rec.lifted = r.bool(), r.bool()
		r.spans(rec)
	}
	if r.version > 3 {
		next = r.records()
	}
	n := r.count()
	l.ends = make(agenda[*record], 0, n)
	var read record
	for range n {
		next(&read)
		if r.bad || l.blocks.get(read.k) != nil || !sane(time.Unix(0, read.since)) || !sane(time.Unix(0, read.until)) {
			r.bad = true
			return
		}
		rec := l.blocks.add(read.k)
		*rec = read
		l.lengths.add(rec.k)
		l.join(rec)
		l.keepEvidence(rec.k, rec)
		l.wake(rec)
	}
}

// records reads what blocks have in common, and returns what reads the next block.
func (r *reader) records() func(*record) {
	abouts := make([]unique.Handle[about], r.count())
	ported := make([]bool, len(abouts))
	for i := range abouts {
		a := r.about()
		abouts[i], ported[i] = unique.Make(a), a.ports != ""
	}
	users := make([]unique.Handle[string], r.count())
	for i := range users {
		users[i] = unique.Make(r.text())
	}
	return func(rec *record) {
		*rec = record{k: r.key()}
		a, u := r.int(), r.int()
		if a < 0 || a >= int64(len(abouts)) || u < 0 || u >= int64(len(users)) {
			r.bad = true
			return
		}
		rec.about, rec.ported, rec.user = abouts[a], ported[a], users[u]
		rec.since = r.int()
		rec.until = rec.since + r.int()
		rec.line = r.int()
		rec.count, rec.points, rec.strikes = small32(int(r.int())), small32(int(r.int())), small32(int(r.int()))
		flags := r.int()
		for i, b := range [...]*bool{&rec.ended, &rec.lifted, &rec.forever, &rec.partial, &rec.keyed} {
			*b = flags>>i&1 != 0
		}
		if flags>>5&1 != 0 {
			m := more{key: r.text()}
			for range r.count() {
				m.evidence = append(m.evidence, r.text())
			}
			rec.keep(m)
			r.spans(rec)
		}
	}
}

func (r *reader) spans(rec *record) {
	for range r.count() {
		rec.remember(span{r.int(), r.int(), r.text()})
	}
}

func (l *Ledger) decodeKnown(r *reader) {
	for range r.count() {
		var a [16]byte
		copy(a[:], r.bytes(16))
		for range r.count() {
			g := login{service: r.text()}
			copy(g.user[:], r.bytes(16))
			g.since, g.last = r.int(), r.int()
			if g.proven = g.last; r.version > 2 {
				g.proven = r.int()
			}
			l.known.by[a] = append(l.known.by[a], g)
			l.known.see(a)
			l.known.n++
		}
	}
}
