package source

import (
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// Spec is one configured place that lines come from. Exactly one of File,
// Journal, Auth, Stdin and Pipe is set.
type Spec struct {
	// File is an absolute path, or a glob in the syntax of filepath.Match.
	File string
	// Journal selects entries of the systemd journal.
	Journal *JournalMatch
	// Auth is the one place where this machine's logins are told of: the
	// journal where it is kept, else /var/log/auth.log or /var/log/secure.
	Auth bool
	// Stdin reads standard input until its end.
	Stdin bool
	// Pipe is the path of a named pipe.
	Pipe string

	// Service and Format are hints for the parser, handed on in Origin.
	Service, Format string
	// Since overrides Options.Since when set.
	Since time.Time
	// Exclude lists globs of files that File must not match.
	Exclude []string
	// MaxLine overrides Options.MaxLine when positive.
	MaxLine int
}

// JournalMatch selects journal entries. Several values of one list are
// alternatives; the lists are alternatives of each other as well. Empty
// selects everything.
type JournalMatch struct {
	Units       []string // _SYSTEMD_UNIT, ".service" is added when no suffix is given
	Identifiers []string // SYSLOG_IDENTIFIER
	Containers  []string // CONTAINER_NAME, which Docker's and Podman's journal drivers set
	// Raw holds FIELD=value matches and "+", passed on to journalctl as they
	// are (see journalctl(1), "Matches").
	Raw []string
	// Directory and Files read a journal other than this machine's.
	Directory string
	Files     []string
}

// Options hold for a whole Set. The zero value is usable.
type Options struct {
	// Saved maps Origin.Name to where reading resumes.
	Saved map[string]Pos
	// Since is where an origin without a saved position starts: at the first
	// line of that time, or at the end when zero.
	Since time.Time
	// Stamp returns what reads the own time of an origin's lines, in Unix
	// nanoseconds. With it, Since finds its line by bisection; without it, whole
	// files younger than Since are read.
	Stamp func(o *Origin) func(line []byte) (int64, bool)
	// Poll is how often a file is looked at where the kernel cannot tell of
	// changes (network file systems, no inotify left). Default 250 ms.
	Poll time.Duration
	// Quiet is how long a rotated file is kept open after its last growth, for
	// a writer that has not noticed yet. Default 30 s.
	Quiet time.Duration
	// MaxLine is the longest line in bytes; a longer one is cut. Default 1 MiB.
	MaxLine int
	// Report is told of problems, from the goroutines of Run; it must not block.
	Report func(Problem)
	// NoInotify polls everything.
	NoInotify bool

	// JournalctlPath is the journalctl program, looked up in PATH when empty.
	JournalctlPath string
	// SysProcAttr replaces the attributes that journalctl is started with. The
	// default puts it in a process group of its own, ends it with its parent
	// and hands it no ambient capability.
	SysProcAttr *syscall.SysProcAttr
	// AuthFiles replaces the files that Auth falls back to.
	AuthFiles []string
	// JournalSocket replaces the socket whose presence shows that journald runs.
	JournalSocket string
	// JournalDirs replaces the directories that the journal is kept in. Auth
	// reads it only if a file there can be read.
	JournalDirs []string

	trace func(from fileState, ev fileEvent, to fileState) // of tests
}

// Problem is something that a person should know and that did not stop the Set.
type Problem struct {
	Origin string // Origin.Name, or the configured path
	Err    error
}

func (p Problem) Error() string { return p.Origin + ": " + p.Err.Error() }

// State is what a source is doing.
type State string

// The states of a source.
const (
	Starting   State = "starting"
	CatchingUp State = "catching up"
	Following  State = "following"
	Waiting    State = "waiting"
	Standby    State = "standby"
	Ended      State = "ended"
)

// Status reports one origin.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Why explains Waiting and Standby.
	Why string `json:"why,omitempty"`
	// Lag is how many bytes were seen but not handed on yet.
	Lag   int64 `json:"lag"`
	Lines int64 `json:"lines"` // handed on by this run
	Cut   int64 `json:"cut,omitempty"`
	// Polled is set where the kernel cannot tell of changes.
	Polled bool `json:"polled,omitempty"`
	// Notes say what may have been lost, newest last, at most 8.
	Notes []string `json:"notes,omitempty"`
}

const (
	defaultMaxLine = 1 << 20
	defaultPoll    = 250 * time.Millisecond
	defaultQuiet   = 30 * time.Second
	minMaxLine     = 256
)

func (o *Options) setDefaults() {
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	o.MaxLine = max(o.MaxLine, minMaxLine)
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	if o.Quiet <= 0 {
		o.Quiet = defaultQuiet
	}
	if o.Report == nil {
		o.Report = func(Problem) {}
	}
	if o.AuthFiles == nil {
		o.AuthFiles = []string{"/var/log/auth.log", "/var/log/secure"}
	}
	if o.JournalDirs == nil {
		o.JournalDirs = []string{"/run/log/journal", "/var/log/journal"}
	}
	if o.JournalSocket == "" {
		o.JournalSocket = "/run/systemd/journal/socket"
	}
}

// maxLine is the limit of spec under o.
func (o *Options) maxLine(spec Spec) int {
	if spec.MaxLine > 0 {
		return max(spec.MaxLine, minMaxLine)
	}
	return o.MaxLine
}

// since is where a first start of spec begins.
func (o *Options) since(spec Spec) time.Time {
	if !spec.Since.IsZero() {
		return spec.Since
	}
	return o.Since
}

// check returns what is wrong with the spec by itself.
func (s Spec) check() error {
	n := 0
	for _, set := range []bool{s.File != "", s.Journal != nil, s.Auth, s.Stdin, s.Pipe != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("a source is exactly one of file, journal, auth, stdin and pipe; this one has %d of them", n)
	}
	for _, path := range []string{s.File, s.Pipe} {
		if path != "" && !filepath.IsAbs(path) {
			return fmt.Errorf("%s: not an absolute path", path)
		}
	}
	for _, glob := range append([]string{s.File}, s.Exclude...) {
		if _, err := filepath.Match(glob, ""); err != nil {
			return fmt.Errorf("%s: %w", glob, err)
		}
	}
	return nil
}
