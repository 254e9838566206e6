package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"time"

	"stoplog/internal/detect"
)

// entry is one thing that happened, as the journal and the audit trail tell
// it. Fields that an op does not use are absent.
type entry struct {
	Seq      uint64         `json:"seq"`
	Op       string         `json:"op"`
	Time     time.Time      `json:"time"` // wall clock
	By       string         `json:"by,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	ID       *breachID      `json:"id,omitempty"`
	Count    int            `json:"count,omitempty"`
	Points   int            `json:"points,omitempty"`
	Blocks   []*Block       `json:"blocks,omitempty"`
	Flags    []FlagState    `json:"flags,omitempty"`
	Lockdown *LockdownState `json:"lockdown,omitempty"`
	Prefix   netip.Prefix   `json:"prefix,omitzero"`
	Lifted   []netip.Prefix `json:"lifted,omitempty"`
	Pardons  []pardon       `json:"pardons,omitempty"`
	Allow    *Allowance     `json:"allow,omitempty"`
	Name     string         `json:"name,omitempty"`
	Tells    int64          `json:"tells,omitempty"` // until when the breach counts as answered, Unix ns
}

// What can be in the journal.
const (
	opBreach   = "breach"   // a rule's: waits to be found again
	opBlock    = "block"    // by hand, or of the deny list
	opUnblock  = "unblock"  // by hand, or because it is allowed now
	opAllow    = "allow"    //
	opDisallow = "disallow" //
	opFlag     = "flag"     // by hand
	opClear    = "clear"    // by hand
	opUnlock   = "unlock"   // by hand
)

// breachID tells breaches apart, before a restart and after.
type breachID struct {
	Rule  string     `json:"rule"`
	Level int        `json:"level,omitempty"`
	Key   string     `json:"key"`
	At    int64      `json:"at"`
	Addr  netip.Addr `json:"addr,omitzero"`
}

func idOf(b *detect.Breach) breachID { return breachID{b.Rule, b.Level, b.Key, b.At, b.Addr} }

// pardon is a prefix unblocked by hand: its lines of up to Until are forgiven.
type pardon struct {
	Prefix netip.Prefix `json:"prefix"`
	Until  int64        `json:"until"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed is e as one line of the journal: the CRC-32C of the rest in eight
// hexadecimal digits, a space, the number, a space, JSON, a newline.
func (e *entry) sealed() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	line := fmt.Appendf(nil, "%08x %d %s\n", 0, e.Seq, text)
	copy(line, fmt.Sprintf("%08x", crc32.Checksum(line[9:len(line)-1], castagnoli)))
	return line, nil
}

// unseal reads one line, without its newline. It is nil for an entry of a
// number up to after.
func unseal(line []byte, after uint64) (*entry, error) {
	if len(line) < 10 || line[8] != ' ' {
		return nil, errors.New("torn")
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(line[9:], castagnoli) {
		return nil, errors.New("damaged")
	}
	number, text, _ := bytes.Cut(line[9:], []byte(" "))
	if seq, err := strconv.ParseUint(string(number), 10, 64); err != nil || seq <= after {
		return nil, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

// readJournal reads the entries of a file with numbers over after; those that
// are damaged are counted. A file that is not there has none.
func readJournal(path string, after uint64) (es []*entry, damaged int, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if e, err := unseal(line, after); err != nil {
			damaged++
		} else if e != nil {
			es = append(es, e)
		}
	}
	return es, damaged, nil
}

// appender writes whole lines to the end of a file.
type appender struct {
	path  string
	mode  os.FileMode
	file  *os.File
	bytes int64
	torn  bool // the file may end in half a line
}

// add appends line and, if sync, waits until it is on disk.
func (a *appender) add(line []byte, sync bool) error {
	if err := a.open(); err != nil {
		return err
	}
	if a.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := a.file.Write(line)
	a.bytes += int64(n)
	if a.torn = a.torn && n == 0 || err != nil && n > 0; err != nil {
		return err
	}
	if sync {
		return a.file.Sync()
	}
	return nil
}

func (a *appender) open() error {
	if a.file != nil {
		return nil
	}
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, a.mode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	last := []byte{'\n'}
	if info.Size() > 0 {
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			f.Close()
			return err
		}
	}
	a.file, a.bytes, a.torn = f, info.Size(), last[0] != '\n'
	return nil
}

// close closes the file; the next add opens it again.
func (a *appender) close() error {
	if a.file == nil {
		return nil
	}
	err := a.file.Close()
	a.file, a.bytes = nil, 0
	return err
}
