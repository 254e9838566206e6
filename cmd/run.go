package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/daemon"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/registry"
	"stoplog/internal/firewall/wallproc"
	"stoplog/internal/priv"
	"stoplog/internal/rules"
)

type runOptions struct {
	config string
	state  string
	flags  string
	user   string
	group  string
	since  string
	name   string
	// lastGood is the copy of the rules that broken ones are replaced by.
	lastGood string
	save     time.Duration
	dryRun   bool
	verbose  bool
}

// Defaults of run; each has a flag, so that several can run side by side.
const (
	defaultState = "/var/lib/stoplog"
	defaultFlags = "/run/stoplog/flags"
	defaultUser  = "stoplog"
)

func runCmd(e *env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Read logs, count failures and block, in the foreground",
		Long: `Read logs, count failures and block, in the foreground, until SIGINT or SIGTERM.
SIGHUP reloads the rules. Started as root, the process that reads logs switches to
the user stoplog (or nobody) and drops all privileges; a second process keeps the
right to change the firewall.`,
		Example: `  stoplog run --dry-run       report what would be blocked, block nothing
  stoplog run                 with the built-in rules, or /etc/stoplog/rules.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runRun(c.Context(), e, o) },
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "rules file (default "+DefaultRules+", or the built-in rules)")
	f.StringVar(&o.state, "state", defaultState, "state directory")
	f.StringVar(&o.flags, "flags", defaultFlags, "directory of files for raised flags")
	f.StringVar(&o.user, "user", "", "user to switch to when started as root (default stoplog, or else nobody)")
	f.StringVar(&o.group, "group", "stoplog", "group that may use the socket, if it exists")
	f.StringVar(&o.since, "since", "", "on the first start, read back so far, such as 24h (default: start at the end)")
	f.StringVar(&o.lastGood, "last-good", "", "when the rules are broken, start with the copy that check --last-good made (default: do not start)")
	f.StringVar(&o.name, "name", "", "name of the chains, tables and sets (default stoplog)")
	f.DurationVar(&o.save, "save-every", 30*time.Second, "time between snapshots of the state")
	f.BoolVar(&o.dryRun, "dry-run", false, "do everything except blocking")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log more")
	return c
}

// handover is what the image with rights leaves to the one without.
type handover struct {
	Wall, Changes, Socket int // descriptors, 0 = none
	WallPID               int
	WallName, WallWhy     string
	Notes                 []string
	Leftovers             []string // walls of before that could not be removed
}

const handoverEnv = "STOPLOG_HANDOVER"

// dryState is where in the state's folder a dry run keeps what it would have
// blocked: no later run takes that for its own.
const dryState = "dry-run"

func runRun(ctx context.Context, e *env, o runOptions) error {
	if err := priv.ShutInherited(3); err != nil {
		return err
	}
	if h := os.Getenv(handoverEnv); h != "" {
		os.Unsetenv(handoverEnv)
		var left handover
		if err := json.Unmarshal([]byte(h), &left); err != nil {
			return usage("%s: %w", handoverEnv, err)
		}
		return serve(ctx, e, o, left)
	}
	// What is caught would be lost with this image, so a signal ends it at once
	// from here on. What was caught before is told to asked, which is looked at
	// before the image goes: milliseconds later, which is far longer than a
	// thread that was only about to tell takes.
	priv.DefaultSignals(syscall.SIGINT, syscall.SIGTERM)
	set, problems, _ := e.loadOrLastGood(o)
	if set == nil {
		return e.rulesError(problems)
	}
	return prepare(ctx, e, o, set)
}

// stateDirs are the folders of the state, the one that is used last.
func (o runOptions) stateDirs() []string {
	if o.dryRun {
		return []string{o.state, filepath.Join(o.state, dryState)}
	}
	return []string{o.state}
}

// prepare does all that needs rights: the folders, the socket, the wall. Then
// it gives the rights up and executes the program again.
func prepare(ctx context.Context, e *env, o runOptions, set *rules.Set) error {
	// Asked to read the rules again before they are in use: they are new. The
	// daemon listens once it runs.
	signal.Ignore(syscall.SIGHUP)
	plan, notes, err := whom(o)
	if err != nil {
		return err
	}
	for _, dir := range o.stateDirs() {
		if err := ownDir(dir, 0o750, plan, func(name string) bool { return ofState(name) || ofRules(set, filepath.Join(dir, name)) }); err != nil {
			return err
		}
	}
	if err := socketDir(filepath.Dir(e.socket), plan); err != nil {
		return err
	}
	if err := ownDir(o.flags, 0o755, plan, ofFlags); err != nil {
		return err
	}
	l, err := control.Listen(e.socket, groupID(o.group))
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	left := handover{WallName: "dry-run", WallWhy: "asked for by --dry-run", Notes: notes}
	var keep []*os.File
	if o.dryRun {
		left.Leftovers = leftovers(ctx, &left, nil, wallConfig(set, o.name), false)
	} else {
		if keep, err = startWall(ctx, o, set, &left); err != nil {
			l.Close()
			os.Remove(e.socket)
			return err
		}
	}
	signal.Stop(e.asked)
	if len(e.asked) > 0 {
		l.Close()
		os.Remove(e.socket)
		return nil
	}
	sock, err := l.File()
	if err != nil {
		return fmt.Errorf("handing over the socket: %w", err)
	}
	keep = append(keep, sock)
	left.Socket = int(sock.Fd())
	self, err := priv.Self()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return priv.Become(plan, self, append([]string{"stoplog"}, os.Args[1:]...), environment(left), keep)
}

// leftovers removes walls of ours that are not in use any more, if it is to,
// and says which are left. What was removed is noted.
func leftovers(ctx context.Context, h *handover, inUse []string, o firewall.Options, remove bool) (left []string) {
	found, err := registry.Leftovers(ctx, inUse, o)
	if err != nil {
		return []string{err.Error()}
	}
	for _, l := range found {
		if !remove {
			left = append(left, l.What)
			continue
		}
		if err := l.Remove(ctx); err != nil {
			left = append(left, l.What+": "+err.Error())
			continue
		}
		h.Notes = append(h.Notes, "removed what an earlier configuration left: "+l.What)
	}
	return left
}

// startWall chooses a wall that works here and starts its process.
func startWall(ctx context.Context, o runOptions, set *rules.Set, left *handover) ([]*os.File, error) {
	w := wallOptions{Walls: set.Firewall.Backends, Options: wallConfig(set, o.name), Limits: wallproc.Limits{Min4: set.Floor.V4, Min6: set.Floor.V6}}
	if slices.Contains(w.Walls, "exec") {
		w.Limits.MaxOrder = execOrder(w.Options.Exec.Timeout)
	}
	bs, why, err := registry.Select(ctx, w.Walls, w.Options)
	if err != nil {
		return nil, err
	}
	w.Walls = nil
	for _, b := range bs {
		w.Walls = append(w.Walls, b.Name())
	}
	arg, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	left.Leftovers = leftovers(ctx, left, w.Walls, w.Options, true)
	p, err := wallproc.Spawn(self, []string{"wall", string(arg)}, w.Walls)
	if err != nil {
		return nil, err
	}
	cmds, changes, err := p.Handover()
	if err != nil {
		return nil, err
	}
	left.Wall, left.Changes, left.WallPID = int(cmds.Fd()), int(changes.Fd()), p.Pid()
	left.WallName, left.WallWhy = strings.Join(w.Walls, "+"), why
	return []*os.File{cmds, changes}, nil
}

// execOrder is how long an order may take that runs programs of the
// administrator's, two of them and what else there is to do.
func execOrder(timeout time.Duration) time.Duration {
	return 2*cmp.Or(timeout, 30*time.Second) + 10*time.Second
}

// whom decides who to become.
func whom(o runOptions) (priv.Plan, []string, error) {
	if os.Geteuid() != 0 {
		return priv.Plan{UID: os.Geteuid(), GID: os.Getegid()}, nil, nil
	}
	if o.user != "" {
		p, err := priv.Lookup(o.user)
		return p, nil, err
	}
	if p, err := priv.Lookup(defaultUser); err == nil {
		return p, nil, nil
	}
	p, err := priv.Lookup("nobody")
	return p, []string{"there is no user stoplog; running as nobody, whose files others may share (adduser --system --group stoplog)"}, err
}

// environment is what the image without rights starts with.
func environment(h handover) []string {
	b, err := json.Marshal(h)
	if err != nil {
		b = []byte("{}")
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", handoverEnv + "=" + string(b)}
	for _, k := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM", "INVOCATION_ID", "TZ", "GOMAXPROCS", "GOMEMLIMIT"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// serve is the daemon without rights.
func serve(ctx context.Context, e *env, o runOptions, h handover) error {
	handler := newLogHandler(e, o.verbose)
	log := slog.New(handler)
	nameUs()
	thrift()
	if err := priv.DropAmbient(); err != nil {
		return err
	}
	for _, n := range h.Notes {
		log.Warn(n)
	}
	l, err := net.FileListener(os.NewFile(uintptr(h.Socket), "socket"))
	if err != nil {
		return fmt.Errorf("taking the socket over: %w", err)
	}
	defer os.Remove(e.socket)
	var wall firewall.Backend = firewall.NewDryRun()
	wallEnded := make(chan error, 1)
	if h.Wall != 0 {
		c, err := wallproc.Resume(os.NewFile(uintptr(h.Wall), "wall"), os.NewFile(uintptr(h.Changes), "changes"))
		if err != nil {
			return err
		}
		defer c.Close()
		wall = c
		var cancel context.CancelFunc
		asked := ctx
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			err := awaitWall(h.WallPID)
			if asked.Err() == nil {
				wallEnded <- err
			}
			cancel()
		}()
	}
	since, err := sinceTime(o.since)
	if err != nil {
		return err
	}
	held, err := priv.Held()
	if err != nil {
		return err
	}
	first, problems, oldRules := e.loadOrLastGood(o)
	shut, err := confine(e, o, first)
	if err != nil {
		return err
	}
	err = daemon.Run(ctx, daemon.Options{
		Version: Version, StateDir: o.stateDirs()[len(o.stateDirs())-1], TokensDir: o.state, Leftovers: h.Leftovers, Listener: l, Wall: wall, WallName: h.WallName, WallWhy: h.WallWhy,
		DryRun: o.dryRun, Rights: fmt.Sprintf("uid %d, capabilities: %s, %s", os.Geteuid(), priv.Names(held), shut.said),
		FlagsDir: o.flags, Since: since, Log: log, SaveEvery: o.save,
		Load: func() (*rules.Set, []rules.Problem) {
			set, ps := first, problems // read a moment ago, for the start
			if first, problems = nil, nil; set == nil && ps == nil {
				set, ps, _ = e.loadRules(o.config)
			}
			handler.use(set)
			return set, ps
		},
		Lacks: shut.lacks, OldRules: oldRules,
		Ready: func() { notifyReady(log) },
		Alive: func() { sdNotify(log, "WATCHDOG=1") }, AliveEvery: watchdogEvery(),
	})
	if broken := (*daemon.RulesError)(nil); asError(err, &broken) {
		return e.rulesError(broken.Problems)
	}
	if errors.Is(err, firewall.ErrGone) && h.WallPID != 0 {
		err = stalled(err, h.WallPID)
	}
	select {
	case ended := <-wallEnded:
		err = cmp.Or(err, ended)
	default:
	}
	return err
}

// stalled kills a wall process that does not answer, as the state is saved by
// now, and says who starts both processes again: this one has no right to make
// another wall.
func stalled(err error, pid int) error {
	if kill := syscall.Kill(pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) {
		err = fmt.Errorf("%w; killing process %d: %w", err, pid, kill)
	}
	if os.Getenv("INVOCATION_ID") != "" {
		return fmt.Errorf("%w; blocks hold until they end, and systemd restarts stoplog", err)
	}
	return fmt.Errorf("%w; blocks hold until they end, and nothing new is blocked: start stoplog again", err)
}

// awaitWall waits for the wall process, which outlives us unless it fails.
func awaitWall(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("the wall process: %w", err)
	}
	st, err := p.Wait()
	if err != nil {
		return fmt.Errorf("the wall process: %w", err)
	}
	return fmt.Errorf("the wall process ended: %s", st)
}

func sinceTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	d, err := rules.ParseDuration(s)
	if err != nil {
		return time.Time{}, usage("--since %s: expected a duration such as 24h or 7d", s)
	}
	return time.Now().Add(-d), nil
}

// newLogHandler writes to standard error; the journal has stamps of its own.
func newLogHandler(e *env, verbose bool) *logHandler {
	opt := &slog.HandlerOptions{Level: slog.LevelInfo}
	if verbose {
		opt.Level = slog.LevelDebug
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		opt.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return &logHandler{Handler: slog.NewTextHandler(e.errw, opt), out: e.errw, mu: new(sync.Mutex), fail2ban: new(atomic.Bool)}
}
