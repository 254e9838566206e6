// Package doctor looks at a machine and says whether stoplog can do its work
// there, what is wrong, and what to do about it, in order. It changes nothing.
package doctor

import (
	"cmp"
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/protect"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// Severity is how much a finding matters.
type Severity string

const (
	OK      Severity = "ok"
	Note    Severity = "note"    // good to know
	Warning Severity = "warning" // works, and not as well as it should
	Broken  Severity = "broken"  // does not work, or locks somebody out
)

// Finding is one thing that was looked at: the shape of `doctor --json`.
type Finding struct {
	Severity Severity `json:"severity"`
	Area     string   `json:"area"` // rules, rights, logs, clock, firewall, daemon, lock-out
	Found    string   `json:"found"`
	Do       string   `json:"do,omitempty"`      // what to do about it
	Command  string   `json:"command,omitempty"` // that does it, or shows more
	// Step is the place in the order in which things are best done, from 1; 0
	// when there is nothing to do.
	Step int `json:"step,omitempty"`
}

// Daemon is what is asked of a running daemon; control.Client is one.
type Daemon interface {
	Status(ctx context.Context) (control.Status, error)
	List(ctx context.Context) ([]control.Block, error)
	Allowed(ctx context.Context) ([]control.AllowEntry, error)
}

// Reader reads a line: its own stamp in Unix nanoseconds, 0 when it has none,
// and whether it is understood.
type Reader func(l *source.Line, arrival time.Time) (stamp int64, known bool)

// Machine is what there is to look at.
type Machine struct {
	// Root is put before every path that is looked at, for tests.
	Root string
	Now  time.Time
	// EUID is the user who looks.
	EUID int
	// SSH is the environment's SSH_CONNECTION (ssh(1)), empty without one.
	SSH string

	// RulesName is the file of the rules, or "built-in". Set is nil when
	// Problems make them unusable.
	RulesName string
	Set       *rules.Set
	Problems  []rules.Problem

	// User is whom the daemon becomes; CanRead says whether that user may
	// read such a file, nil: not known.
	User    string
	CanRead func(path string, fi fs.FileInfo) bool

	// Firewall says which wall would be used and why; it needs rights.
	Firewall func(ctx context.Context) (why string, err error)
	Daemon   Daemon
	// Reader makes a reader of one source's lines.
	Reader func(s rules.Source) (Reader, error)
	// Stamp finds a line's own time, for the journal and its kin.
	Stamp func(line []byte) (int64, bool)
	// Synced reports whether the kernel's clock is kept right.
	Synced func() (bool, error)
	// Protect finds who is logged in.
	Protect protect.Finder
}

func (m Machine) path(p string) string {
	if m.Root == "" {
		return p
	}
	return filepath.Join(m.Root, p)
}

// Examine looks at everything. It blocks for some seconds at most when ctx has
// no end of its own.
func Examine(ctx context.Context, m Machine) []Finding {
	d := &doctor{Machine: m, foreign: map[string]bool{}}
	d.rules()
	d.rights()
	d.logs(ctx)
	d.clock()
	d.firewall(ctx)
	d.daemon(ctx)
	d.lockOut(ctx)
	number(d.found)
	return d.found
}

// doctor gathers what it finds.
type doctor struct {
	Machine
	found []Finding
	// status is of the running daemon, nil when there is none to ask.
	status *control.Status
	// foreign are the logs of Foreign.
	foreign map[string]bool
}

func (d *doctor) say(s Severity, area, found string) {
	d.found = append(d.found, Finding{Severity: s, Area: area, Found: found})
}

func (d *doctor) advise(s Severity, area, found, do, command string) {
	d.found = append(d.found, Finding{Severity: s, Area: area, Found: found, Do: do, Command: command})
}

// areas is the order in which things are best done: who is locked out first,
// then what the daemon cannot start without.
var areas = []string{"lock-out", "rules", "rights", "firewall", "logs", "clock", "daemon"}

// number gives the findings with advice their steps.
func number(fs []Finding) {
	weight := map[Severity]int{Broken: 0, Warning: 1, Note: 2, OK: 3}
	var todo []*Finding
	for i := range fs {
		if fs[i].Do != "" {
			todo = append(todo, &fs[i])
		}
	}
	slices.SortStableFunc(todo, func(a, b *Finding) int {
		return cmp.Or(weight[a.Severity]-weight[b.Severity], slices.Index(areas, a.Area)-slices.Index(areas, b.Area))
	})
	for i, f := range todo {
		f.Step = i + 1
	}
}

// Sick reports whether anything is broken.
func Sick(fs []Finding) bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Broken })
}
