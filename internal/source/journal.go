package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	journalBackoff    = 100 * time.Millisecond
	journalBackoffMax = 10 * time.Second
)

// journalName is the origin's name of the journal.
const journalName = "journal"

// journal follows the systemd journal by the journalctl program.
type journal struct {
	st    *stream
	match *JournalMatch
	// pos is where it was read to; Offset is the last entry's
	// __REALTIME_TIMESTAMP, for when the cursor is refused.
	pos Pos
	// byTime seeks by that time, because the cursor was refused.
	byTime bool
	// allFields asks for every field, of a journalctl before systemd 236.
	allFields bool
	backlog   bool
	caught    bool
	cut       int64
}

// readJournal reads what was written since the saved position to its end, and
// then what comes. When journalctl ends it is started again, after the last
// entry.
func readJournal(ctx context.Context, st *stream) {
	// The thread loses rights that must not come back, and it must live as
	// long as its children, which end with it.
	onOwnThread(func() {
		shedRights()
		followJournal(ctx, st)
	})
}

func followJournal(ctx context.Context, st *stream) {
	j := &journal{st: st, match: st.spec.Journal, pos: st.set.saved.get(st.name), backlog: true}
	if j.match == nil {
		j.match = authMatch()
	}
	defer j.arrive()
	backoff := journalBackoff
	for ctx.Err() == nil {
		began, before := time.Now(), j.pos
		err := j.round(ctx)
		if ctx.Err() != nil {
			return
		}
		if j.pos != before || time.Since(began) > journalBackoffMax {
			backoff = journalBackoff
		}
		if err == nil {
			err = errors.New("journalctl exited")
		}
		if !st.wait(ctx, err, backoff) {
			return
		}
		backoff = min(2*backoff, journalBackoffMax)
	}
}

// round runs journalctl: for a first position, to the end, and then for good.
func (j *journal) round(ctx context.Context) error {
	if j.pos.Cursor == "" {
		if err := j.firstCursor(ctx); err != nil {
			return err
		}
	}
	if j.backlog {
		j.st.setState(CatchingUp, "")
		if err := j.run(ctx, j.from()...); err != nil {
			return err
		}
		j.backlog = false
		j.arrive()
	}
	j.st.setState(Following, "")
	return j.run(ctx, append(j.from(), "--follow", "--no-tail")...)
}

// arrive tells, once, that the backlog was read or never will be.
func (j *journal) arrive() {
	if !j.caught {
		j.caught = true
		j.st.set.arrived()
	}
}

// from are the options that begin at the last entry read, which is then left
// out. (With --after-cursor journalctl leaves out one entry even when that of
// the cursor is gone.)
func (j *journal) from() []string {
	switch {
	case j.pos.Cursor != "" && !j.byTime:
		return []string{"--cursor=" + j.pos.Cursor}
	case j.pos.Offset > 0:
		return []string{fmt.Sprintf("--since=@%d.%06d", j.pos.Offset/1e6, j.pos.Offset%1e6)}
	}
	return nil
}

// firstCursor finds the end of the journal, or where since begins. In an
// empty journal everything that comes is new.
func (j *journal) firstCursor(ctx context.Context) error {
	if since := j.st.set.opts.since(j.st.spec); !since.IsZero() && j.pos.Offset == 0 {
		j.pos.Offset = since.UnixMicro()
		return nil
	}
	if j.pos.Offset > 0 {
		return nil
	}
	c, x, err := j.start(ctx, JournalMatch{Directory: j.match.Directory, Files: j.match.Files}, "--lines=1")
	if err != nil {
		return err
	}
	b, err := x.next()
	if err == nil {
		b.put()
	}
	_, _ = io.Copy(io.Discard, c.out)
	if err := c.wait(); err != nil {
		return j.explain(err)
	}
	j.pos.Cursor, j.pos.Offset = x.cursor, x.realtime
	return nil
}

// run reads one journalctl to its end.
func (j *journal) run(ctx context.Context, args ...string) error {
	c, x, err := j.start(ctx, *j.match, args...)
	if err != nil {
		return err
	}
	any := false
	if j.byTime {
		x.until = j.pos.Offset
	}
	for {
		b, err := x.next()
		if err != nil {
			return j.ended(c, err, any)
		}
		any = true
		j.byTime = false
		j.pos.Cursor, j.pos.Offset = x.cursor, x.realtime
		if !j.st.deliver(ctx, b, j.pos, j.cut+x.cut, j.backlog) {
			_ = c.wait()
			return ctx.Err()
		}
	}
}

// ended finds out why journalctl ended, and makes the next start work.
func (j *journal) ended(c *child, err error, any bool) error {
	if err != nil && !errors.Is(err, io.EOF) {
		_ = c.cmd.Cancel()
		_ = c.wait()
		return fmt.Errorf("reading journalctl's output: %w", err)
	}
	err = c.wait()
	if err != nil && !any {
		return j.explain(err)
	}
	return err
}

// explain learns from how journalctl failed.
func (j *journal) explain(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "output-fields"):
		j.allFields = true
	case strings.Contains(text, "cursor") && j.pos.Cursor != "" && !j.byTime:
		j.byTime = true
		if j.pos.Offset == 0 {
			j.pos.Offset = j.pos.Time / 1e3
		}
		return fmt.Errorf("journalctl refuses the position %q; continuing by time: %w", j.pos.Cursor, err)
	}
	return err
}

// start starts journalctl for the entries of match.
func (j *journal) start(ctx context.Context, match JournalMatch, args ...string) (*child, *exportReader, error) {
	fields := "--output-fields=" + exportFields
	if j.allFields {
		fields = "--all"
	}
	c, err := startJournalctl(ctx, j.st.set.opts.JournalctlPath, j.st.set.opts.SysProcAttr, &match, append([]string{fields}, args...))
	if err != nil {
		return nil, nil, err
	}
	x := newExportReader(c.out, &j.st.set.pool, j.st.set.opts.maxLine(j.st.spec))
	x.skip, x.after = ownEntries(), j.pos.Cursor
	return c, x, nil
}

// startJournalctl starts journalctl for the entries of match; path "" is that in
// PATH.
func startJournalctl(ctx context.Context, path string, attr *syscall.SysProcAttr, match *JournalMatch, args []string) (*child, error) {
	if path == "" {
		var err error
		if path, err = exec.LookPath("journalctl"); err != nil {
			return nil, err
		}
	}
	argv := []string{path, "--output=export", "--all", "--quiet", "--no-pager"}
	if match.Directory != "" {
		argv = append(argv, "--directory="+match.Directory)
	}
	for _, file := range match.Files {
		argv = append(argv, "--file="+file)
	}
	argv = append(append(argv, args...), "--")
	c, err := startChild(ctx, append(argv, match.args()...), attr)
	if err != nil {
		return nil, fmt.Errorf("starting journalctl: %w", err)
	}
	return c, nil
}

// JournalRead is what ReadJournal reads.
type JournalRead struct {
	Match *JournalMatch // nil: what reports logins
	// Since and Until bound the time of the entries; zero: no bound.
	Since, Until time.Time
	// Service and Spec are those of Origin.
	Service string
	Spec    int
	Bytes   *atomic.Int64 // if set, counts what was read
}

// ReadJournal reads what the systemd journal holds by now, oldest first, as
// ReadFiles reads finished files.
func ReadJournal(ctx context.Context, o JournalRead, emit func(*Batch) error) error {
	runtime.LockOSThread() // see startChild
	defer runtime.UnlockOSThread()
	match := o.Match
	if match == nil {
		match = authMatch()
	}
	args := []string{"--output-fields=" + exportFields}
	if !o.Since.IsZero() {
		args = append(args, fmt.Sprintf("--since=@%d", o.Since.Unix()))
	}
	if !o.Until.IsZero() {
		args = append(args, fmt.Sprintf("--until=@%d", o.Until.Unix()+1))
	}
	c, err := startJournalctl(ctx, "", nil, match, args)
	if err != nil {
		return err
	}
	var pool pools
	var out io.Reader = c.out
	if o.Bytes != nil {
		out = counted{out, o.Bytes}
	}
	x := newExportReader(out, &pool, defaultMaxLine)
	x.skip = ownEntries()
	origin := &Origin{Name: match.name(), Service: o.Service, Spec: o.Spec}
	for {
		b, err := x.next()
		if errors.Is(err, io.EOF) {
			return c.wait()
		}
		if err == nil {
			batch := b.asBatch()
			batch.Origin, batch.Arrival, batch.Backlog = origin, time.Now(), true
			err = emit(batch)
		} else {
			err = fmt.Errorf("reading journalctl's output: %w", err)
		}
		if err != nil {
			_ = c.cmd.Cancel()
			_ = c.wait()
			return err
		}
	}
}

// ownEntries reports what this program wrote: its log is never its input.
func ownEntries() func([]byte) bool {
	own, err := os.Executable()
	return func(exe []byte) bool { return err == nil && len(exe) > 0 && string(exe) == own }
}

// name is the origin's name, which differs for each selection.
func (m *JournalMatch) name() string {
	name := journalName
	if m.Directory != "" {
		name += " " + m.Directory
	}
	return strings.Join(append(append([]string{name}, m.Files...), m.args()...), " ")
}

// FullUnits are the units with their suffix.
func (m *JournalMatch) FullUnits() []string {
	units := make([]string, len(m.Units))
	for i, u := range m.Units {
		if !strings.Contains(u, ".") {
			u += ".service"
		}
		units[i] = u
	}
	return units
}

// Trusted reports whether each entry that m selects is selected by a field that
// its writer cannot choose, and users whether each is by the writer's account.
func (m *JournalMatch) Trusted() (all, users bool) {
	all = len(m.Identifiers) == 0 && len(m.Containers) == 0 && len(m.Units)+len(m.Raw) > 0
	users = all && len(m.Units) == 0
	for rest, more := m.Raw, len(m.Raw) > 0; more; {
		var group []string
		i := slices.Index(rest, "+")
		if more = i >= 0; more {
			group, rest = rest[:i], rest[i+1:]
		} else {
			group = rest
		}
		unit, user := false, false
		for _, match := range group {
			field, value, _ := strings.Cut(match, "=")
			switch field {
			case "_UID", "_SYSTEMD_OWNER_UID":
				user = true
			case "_SYSTEMD_UNIT", "_SYSTEMD_CGROUP", "_SYSTEMD_SLICE":
				unit = true
			case "_TRANSPORT":
				unit = unit || value == "kernel" || value == "audit"
			}
		}
		all, users = all && (unit || user), users && user
	}
	return all, users
}

// args are the matches in journalctl's syntax: values of one field are
// alternatives, "+" separates alternatives of several.
func (m *JournalMatch) args() []string {
	var groups [][]string
	var units, idents, containers []string
	for _, u := range m.FullUnits() {
		units = append(units, "_SYSTEMD_UNIT="+u)
	}
	for _, id := range m.Identifiers {
		idents = append(idents, "SYSLOG_IDENTIFIER="+id)
	}
	for _, name := range m.Containers {
		containers = append(containers, "CONTAINER_NAME="+name)
	}
	for _, g := range [][]string{units, idents, containers, m.Raw} {
		if len(g) > 0 {
			groups = append(groups, g)
		}
	}
	var args []string
	for i, g := range groups {
		if i > 0 {
			args = append(args, "+")
		}
		args = append(args, g...)
	}
	return args
}

// The syslog facilities auth and authpriv (RFC 5424 section 6.2.1), which
// rsyslog writes to auth.log.
const facilityAuth, facilityAuthPriv = 4, 10

// authMatch selects what reports logins: what rsyslog would write to
// auth.log, and sshd whatever its facility. sshd-session and sshd-auth are
// the processes of sshd since OpenSSH 9.8.
func authMatch() *JournalMatch {
	return &JournalMatch{
		Identifiers: []string{"sshd", "sshd-session", "sshd-auth"},
		Raw: []string{
			"SYSLOG_FACILITY=" + strconv.Itoa(facilityAuth),
			"SYSLOG_FACILITY=" + strconv.Itoa(facilityAuthPriv),
		},
	}
}

// child is a program whose output is read.
type child struct {
	cmd    *exec.Cmd
	out    io.ReadCloser
	errors tailBuffer
}

// startChild starts argv with nothing of our environment. It is killed, with
// all that it started, when ctx ends; the parent's death kills it as well, so
// the calling goroutine must be locked to a thread that outlives it.
func startChild(ctx context.Context, argv []string, attr *syscall.SysProcAttr) (*child, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_COLORS=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	if attr == nil {
		cmd.SysProcAttr = childAttr()
	}
	if cmd.SysProcAttr.Setpgid {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
	cmd.WaitDelay = time.Second
	c := &child{cmd: cmd}
	cmd.Stderr = &c.errors
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, c.out = w, out
	err = cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	return c, nil
}

// wait waits for the end, and says how it ended with its last words.
func (c *child) wait() error {
	c.out.Close()
	err := c.cmd.Wait()
	if err == nil {
		return nil
	}
	if words := c.errors.String(); words != "" {
		return fmt.Errorf("%w: %s", err, words)
	}
	return err
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 512

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailSize):]...)
	t.buf = append(t.buf[:0], t.buf[max(0, len(t.buf)-tailSize):]...)
	return len(p), nil
}

// String is the last line, or what is left of it.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.buf)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return strings.ToValidUTF8(string(text), "?")
}
