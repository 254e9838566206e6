package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Entry is one line of the audit trail, a JSON object in audit.jsonl.
type Entry struct {
	Time time.Time `json:"time"` // wall clock, when it was written
	// At is the log's time of a breach, absent in trails of earlier versions.
	At     time.Time    `json:"at,omitzero"`
	Seq    uint64       `json:"seq"` // of the order or breach; several lines may share it
	Event  string       `json:"event"`
	Prefix netip.Prefix `json:"prefix,omitzero"`
	By     string       `json:"by,omitempty"` // who; "" for a rule
	Reason string       `json:"reason,omitempty"`
	Rule   string       `json:"rule,omitempty"`
	Key    string       `json:"key,omitempty"`
	Count  int          `json:"count,omitempty"`
	Points int          `json:"points,omitempty"`
	Until  time.Time    `json:"until,omitzero"`
	Block  *Block       `json:"block,omitempty"` // of a block
	Flag   string       `json:"flag,omitempty"`
}

// What an Entry can tell of.
const (
	EventBlock    = "block"
	EventUnblock  = "unblock"
	EventTell     = "tell" // a breach that blocks nothing: observed, or only notified of
	EventAllow    = "allow"
	EventDisallow = "disallow"
	EventFlag     = "flag"
	EventClear    = "clear"
	EventLockdown = "lockdown"
	EventUnlock   = "unlock"
)

// lines are what the audit trail says of e.
func (e *entry) lines() []Entry {
	base := Entry{Time: e.Time, Seq: e.Seq, By: e.By, Reason: e.Reason, Prefix: e.Prefix}
	if e.ID != nil {
		base.Rule, base.Key, base.Count, base.Points = e.ID.Rule, clean(e.ID.Key, 200), e.Count, e.Points
		base.At = time.Unix(0, e.ID.At).UTC()
	}
	var out []Entry
	add := func(event string, change func(*Entry)) {
		n := base
		n.Event = event
		change(&n)
		out = append(out, n)
	}
	for _, b := range e.Blocks {
		if b.Rule == ruleDeny {
			continue // no order: it stands in the rules
		}
		add(EventBlock, func(n *Entry) {
			n.Prefix, n.Until, n.Block, n.Reason, n.Rule = b.Prefix, b.Until, b, b.Reason, b.Rule
			if b.Forever {
				n.Until = time.Time{}
			}
		})
	}
	for _, s := range e.Flags {
		add(EventFlag, func(n *Entry) { n.Flag, n.Until, n.Reason = s.Name, s.Until, s.Reason })
	}
	if e.Lockdown != nil {
		add(EventLockdown, func(n *Entry) { n.Until = e.Lockdown.Until })
	}
	switch e.Op {
	case opAllow:
		add(EventAllow, func(n *Entry) { n.Until = e.Allow.Until })
	case opDisallow, opUnlock:
		add(e.Op, func(*Entry) {})
	case opClear:
		add(EventClear, func(n *Entry) { n.Flag = e.Name })
	case opBreach:
		if len(out) == 0 {
			add(EventTell, func(*Entry) {})
		}
	}
	if e.Op == opBlock {
		return out // what left the deny list
	}
	for _, p := range e.Lifted {
		add(EventUnblock, func(n *Entry) { n.Prefix = p })
	}
	return out
}

// audit writes the trail: JSON lines in a file that is put aside when it is
// full, so many of them being kept.
type audit struct {
	file  appender
	max   int64
	files int
}

const auditName = "audit.jsonl"

func newAudit(dir string, o Options) audit {
	return audit{appender{path: filepath.Join(dir, auditName), mode: 0o640}, o.MaxAudit, o.AuditFiles}
}

func (a *audit) write(e *entry) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, line := range e.lines() {
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if err := a.file.open(); err != nil {
		return err
	}
	if a.file.bytes > 0 && a.file.bytes+int64(b.Len()) > a.max {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	return a.file.add(b.Bytes(), false)
}

func (a *audit) rotate() error {
	a.file.close()
	name := func(i int) string {
		if i == 0 {
			return a.file.path
		}
		return fmt.Sprintf("%s.%d", a.file.path, i)
	}
	if a.files == 1 {
		return os.Remove(a.file.path)
	}
	for i := a.files - 1; i > 0; i-- {
		if err := os.Rename(name(i-1), name(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// PruneAudit deletes what Options.KeepAudit lets go. Call it now and then.
func (l *Ledger) PruneAudit(now time.Time) {
	if l.store != nil {
		l.store.health("old audit files", l.store.audit.prune(now, l.o.KeepAudit))
	}
}

// prune deletes entries before they are older than keep: the file in use is put
// aside after a quarter of that time, and a file goes three quarters after its
// last entry.
func (a *audit) prune(now time.Time, keep time.Duration) error {
	if keep == 0 {
		return nil
	}
	if first, ok := firstTime(a.file.path); ok && now.Sub(first) >= keep/4 {
		if err := a.rotate(); err != nil {
			return err
		}
	}
	old, err := filepath.Glob(a.file.path + ".*")
	if err != nil {
		return err
	}
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) >= keep/4*3 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstTime is when the first entry of a file of the trail was written.
func firstTime(path string) (time.Time, bool) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	var e Entry
	if json.NewDecoder(f).Decode(&e) != nil {
		return time.Time{}, false
	}
	return e.Time, true
}

// When is when it happened: the log's time of a breach, else when the entry
// was written.
func (e *Entry) When() time.Time {
	switch {
	case !e.At.IsZero():
		return e.At
	case e.Event == EventBlock && e.Block != nil && !e.Block.Since.IsZero():
		return e.Block.Since
	}
	return e.Time
}

// last is the number of the newest entry in the trail, 0 when it has none.
func (a *audit) last() uint64 {
	for _, path := range []string{a.file.path, a.file.path + ".1"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		seq := lastSeq(f)
		f.Close()
		if seq > 0 {
			return seq
		}
	}
	return 0
}

func lastSeq(f *os.File) uint64 {
	const tail = 256 << 10 // a line is shorter
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		f.Seek(-tail, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, tail))
	lines := bytes.Split(data, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.Seq > 0 {
			return e.Seq
		}
	}
	return 0
}

// Query chooses entries of the audit trail.
type Query struct {
	Prefix netip.Prefix     // only of prefixes that overlap it; zero: of all
	Since  time.Time        // none before, by When
	Want   func(Entry) bool // only these; nil: all
	Skip   int              // leaves out so many, the newest
	Max    int              // at most so many, the newest; 0: 100
}

// History reads the audit trail of a state directory: of the entries written
// last those that q asks for, the newest first by When.
// It needs no Ledger and may run beside one.
func History(dir string, q Query) ([]Entry, error) {
	q.Max = cmp.Or(q.Max, 100)
	var out []Entry
	for i := 0; len(out) < q.Skip+q.Max; i++ {
		path := filepath.Join(dir, auditName)
		if i > 0 {
			path = fmt.Sprintf("%s.%d", path, i)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			break
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
		out = append(out, q.pick(data, q.Skip+q.Max-len(out))...)
	}
	out = out[min(max(q.Skip, 0), len(out)):]
	slices.SortStableFunc(out, func(a, b Entry) int { return b.When().Compare(a.When()) })
	return out, nil
}

// pick gives the entries of a file that are asked for, the newest first.
func (q Query) pick(data []byte, most int) []Entry {
	var out []Entry
	for len(data) > 0 && len(out) < most {
		data = bytes.TrimSuffix(data, []byte("\n"))
		i := bytes.LastIndexByte(data, '\n') + 1
		line := data[i:]
		data = data[:i]
		if !q.near(line) {
			continue
		}
		var e Entry
		if json.Unmarshal(line, &e) == nil && q.wants(e) {
			out = append(out, e)
		}
	}
	return out
}

func (q Query) wants(e Entry) bool {
	return (!q.Prefix.IsValid() || e.Prefix.Overlaps(q.Prefix)) && !e.When().Before(q.Since) && (q.Want == nil || q.Want(e))
}

// near spares lines of other prefixes the decoding, which is most of the cost.
// The first "prefix" of a line is the entry's own; within a JSON string its
// quotes would be escaped. What it cannot read is decoded.
func (q Query) near(line []byte) bool {
	if !q.Prefix.IsValid() {
		return true
	}
	_, rest, ok := bytes.Cut(line, []byte(`"prefix":"`))
	if !ok {
		return true
	}
	text, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok || len(text) > 64 {
		return true
	}
	p, err := netip.ParsePrefix(string(text))
	return err != nil || p.Overlaps(q.Prefix)
}
