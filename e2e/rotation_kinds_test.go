package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// kept is how many rotated files of a log stay. The oldest must be older than
// what can be unread: rotations of 150 ms against a second between snapshots
// and 1.5 away.
const kept = 30

var rotKinds = []rotKind{
	{name: "shifted", turn: func(l *rotLog) {
		l.shift("%s.%d")
		l.mustRename(l.path, l.path+".1")
		l.reopen(false)
	}},
	{name: "late writer", restarts: true, turn: func(l *rotLog) {
		l.shift("%s.%d")
		l.mustRename(l.path, l.path+".1")
		l.lag(l.w, false)
		l.open()
	}},
	{name: "increasing numbers", turn: func(l *rotLog) {
		l.mustRename(l.path, fmt.Sprintf("%s.%d", l.path, l.turns))
		l.drop("%s.%d")
		l.reopen(false)
	}},
	{name: "several behind", restarts: true, turn: func(l *rotLog) {
		l.mustRename(l.path, fmt.Sprintf("%s.%d", l.path, l.turns))
		if l.turns%5 != 0 { // the writer goes on with a file that was rotated
			old := l.w
			l.open()
			l.lag(old, false)
			return
		}
		l.reopen(false)
	}},
	{name: "many behind", restarts: true, turn: func(l *rotLog) {
		l.mustRename(l.path, fmt.Sprintf("%s.%d", l.path, l.turns))
		old := l.w
		l.open()
		l.lag(old, false)
		l.late[len(l.late)-1].until = time.Now().Add(time.Duration(l.rnd.IntN(9000)) * time.Millisecond)
	}, slowLate: true},
	{name: "created late", turn: func(l *rotLog) {
		l.mustRename(l.path, fmt.Sprintf("%s.%d", l.path, l.turns))
		l.drop("%s.%d")
		l.w.Close()
		l.pause(30)
		l.open()
	}},
	{name: "copytruncate", turn: func(l *rotLog) {
		l.shift("%s.%d")
		l.run("cp", l.path, l.path+".1")
		must(l.t, os.Truncate(l.path, 0))
	}},
	{name: "copytruncate times kept", turn: func(l *rotLog) {
		l.run("cp", "-p", l.path, fmt.Sprintf("%s.%d", l.path, l.turns))
		l.drop("%s.%d")
		must(l.t, os.Truncate(l.path, 0))
	}},
	{name: "gzip at once", turn: func(l *rotLog) {
		l.shift("%s.%d.gz")
		l.mustRename(l.path, l.path+".1")
		l.reopen(false)
		l.run("gzip", "-f", l.path+".1")
	}},
	{name: "gzip under a late writer", restarts: true, turn: func(l *rotLog) {
		l.shift("%s.%d.gz")
		l.mustRename(l.path, l.path+".1")
		l.lag(l.w, true)
		l.open()
		l.run("gzip", "-f", l.path+".1")
	}},
	{name: "zstd beside it", turn: func(l *rotLog) {
		name := fmt.Sprintf("%s.%d", l.path, l.turns)
		l.mustRename(l.path, name)
		l.reopen(false)
		l.run("xz", "-0k", name) // both stay
		l.drop("%s.%d")
		l.drop("%s.%d.xz")
	}},
	{name: "home made loop", logs: 3, turn: func(l *rotLog) {
		l.run("sh", "-c", `cd "$0" && for f in *.log; do cp $f $f.1; : > $f; gzip -f $f.1; done`, l.dir)
	}, every: 2500 * time.Millisecond, sure: true},
	{name: "home made loop kept", logs: 3, turn: func(l *rotLog) {
		l.run("sh", "-c", `cd "$0" && for f in *.log; do cp $f $f.$1; : > $f; gzip -f $f.$1; done`, l.dir, fmt.Sprint(l.harness.turns+1000))
		for _, o := range l.logs {
			if o.dir == l.dir {
				o.dropOldest()
			}
		}
	}, every: 600 * time.Millisecond},
	{name: "hard link", turn: func(l *rotLog) {
		must(l.t, os.Link(l.path, fmt.Sprintf("%s.%d", l.path, l.turns)))
		l.drop("%s.%d")
		must(l.t, os.Remove(l.path))
		l.reopen(false)
	}},
	{name: "hard link replaced", turn: func(l *rotLog) {
		must(l.t, os.Link(l.path, fmt.Sprintf("%s.%d", l.path, l.turns)))
		l.drop("%s.%d")
		must(l.t, os.WriteFile(l.path+"~", nil, 0o644))
		l.mustRename(l.path+"~", l.path)
		l.lag(l.w, false)
		l.open()
	}},
	{name: "symbolic link", link: true, turn: func(l *rotLog) {
		if l.rnd.IntN(2) == 0 {
			l.lag(l.w, false)
		}
		l.relink()
		l.dropOldest()
	}},
	{name: "truncated in place", sure: true, turn: func(l *rotLog) {
		must(l.t, os.Truncate(l.path, 0))
	}},
	{name: "deleted and created", sure: true, turn: func(l *rotLog) {
		must(l.t, os.Remove(l.path))
		l.reopen(false)
	}},
	{name: "logrotate create", conf: "create\nrotate 30", turn: (*rotLog).logrotate},
	{name: "logrotate compress", conf: "create\nrotate 30\ncompress", turn: (*rotLog).logrotate},
	{name: "logrotate delaycompress", conf: "create\nrotate 30\ncompress\ndelaycompress", turn: (*rotLog).logrotate},
	{name: "logrotate dateext", conf: "create\nrotate 30\ndateext\ndateformat -%Y%m%d-%s", turn: (*rotLog).logrotate, every: 1100 * time.Millisecond},
	{name: "logrotate copytruncate", conf: "copytruncate\nrotate 30\ncompress", turn: (*rotLog).logrotate},
	{name: "logrotate olddir", conf: "create\nrotate 30\nolddir OLD\ncreateolddir 755 root root", turn: (*rotLog).logrotate},
}

func (l *rotLog) pause(ms int) { time.Sleep(time.Duration(l.rnd.IntN(ms*1000)) * time.Microsecond) }

func (l *rotLog) mustRename(from, to string) {
	l.t.Helper()
	must(l.t, os.Rename(from, to))
}

// reopen is the writer's: it notices at once.
func (l *rotLog) reopen(nameless bool) {
	if !nameless {
		l.w.Close()
	}
	l.open()
}

// shift moves log.N to log.N+1, and lets the last one go.
func (l *rotLog) shift(format string) {
	for n := kept; n > 0; n-- {
		_ = os.Rename(fmt.Sprintf(format, l.path, n), fmt.Sprintf(format, l.path, n+1))
	}
}

// drop deletes what was rotated long ago.
func (l *rotLog) drop(format string) {
	_ = os.Remove(fmt.Sprintf(format, l.path, l.turns-kept))
}

// dropOldest deletes the oldest rotated file when there are too many.
func (l *rotLog) dropOldest() {
	found, _ := filepath.Glob(l.path + "[.-]*")
	if len(found) <= kept {
		return
	}
	oldest, at := "", time.Now()
	for _, name := range found {
		if info, err := os.Stat(name); err == nil && info.ModTime().Before(at) {
			oldest, at = name, info.ModTime()
		}
	}
	_ = os.Remove(oldest)
}

// relink makes a file with a name of its own and the log's name lead to it, as
// cronolog and rotatelogs -L do.
func (l *rotLog) relink() {
	target := fmt.Sprintf("%s.%s", l.path, time.Now().Format("20060102-150405.000000"))
	f, err := os.OpenFile(target, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(l.t, err)
	must(l.t, os.Symlink(target, l.path+"~"))
	l.mustRename(l.path+"~", l.path)
	if l.w != nil && !l.isLate(l.w) {
		l.w.Close()
	}
	l.w = f
}

func (l *rotLog) isLate(f *os.File) bool {
	for _, w := range l.late {
		if w.f == f {
			return true
		}
	}
	return false
}

func (l *rotLog) run(argv ...string) {
	l.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		l.t.Fatalf("%q: %v: %s", argv, err, out)
	}
}

// logrotate rotates with the real one. The writer that it signals reopens the
// log afterwards.
func (l *rotLog) logrotate() {
	state := filepath.Join(l.p.dir, fmt.Sprintf("rotate%d", l.n))
	old := filepath.Join(l.dir, "old")
	conf := put(l.t, state+".conf", fmt.Sprintf("%s {\nmissingok\nsu root root\n%s\n}\n", l.path, replaceOld(l.kind.conf, old)), 0o644)
	l.run("logrotate", "--force", "--state", state, conf)
	if info, err := os.Stat(l.path); err == nil {
		if mine, err := l.w.Stat(); err == nil && os.SameFile(info, mine) {
			return // copytruncate
		}
	}
	l.reopen(false)
}

func replaceOld(conf, dir string) string { return strings.ReplaceAll(conf, "OLD", dir) }
