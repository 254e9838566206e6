package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"stoplog/internal/daemon"
	"stoplog/internal/fleet"
	"stoplog/internal/priv"
	"stoplog/internal/rules"
)

// socketDir makes the socket's folder. Only one that was not there is given to
// who we become, so that the socket can be removed at the end: any other may be
// somebody's home, or /etc. A socket that stays in it does not hinder a start.
func socketDir(path string, p priv.Plan) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return ownDir(path, 0o755, p, func(string) bool { return false })
}

// ownDir makes a folder and gives it to who we become, with what ours says are
// our files: the lock of an earlier run as another user among them. One that
// holds anything else is somebody's, /var/lib or a home: it is left alone, unless
// it is theirs already; then what else is in it stays whose it is.
func ownDir(path string, mode os.FileMode, p priv.Plan, ours func(name string) bool) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("creating a directory: %w (choose others with --state, --socket and --flags)", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	// One descriptor from here on: what somebody renames meanwhile is not given away.
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	fi, err := dir.Stat()
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	given := ok && int(st.Uid) == p.UID && p.UID != 0
	for _, n := range names {
		if n.Name() == "lost+found" {
			continue // of a filesystem of its own
		}
		if !given && (!n.Type().IsRegular() || !ours(n.Name())) && !(n.IsDir() && n.Name() == dryState) {
			return fmt.Errorf("%s contains %s, which does not belong to stoplog: choose an empty directory with --state or --flags", path, plain(n.Name()))
		}
	}
	if err := dir.Chown(p.UID, p.GID); err != nil {
		return fmt.Errorf("changing the owner of a directory: %w", err)
	}
	for _, n := range names {
		if n.Type().IsRegular() && ours(n.Name()) {
			_ = priv.GiveFile(dir, n.Name(), p.UID, p.GID)
		}
	}
	return nil
}

// ofState reports whether a file of that name may be in the state's folder: see
// ledger.Open, and what stands beside these while it is written.
func ofState(name string) bool {
	if rest, hidden := strings.CutPrefix(name, "."); hidden && !strings.HasPrefix(name, ".tmp-") {
		name = strings.TrimRight(rest, "0123456789") // a replacement that was not finished
	}
	for _, n := range []string{"state", "journal", "audit.jsonl", "lock", daemon.TokensName, fleet.MemberFile, fleet.CacheFile} {
		if name == n || strings.HasPrefix(name, n+".") {
			return true
		}
	}
	return strings.HasPrefix(name, ".tmp-")
}

// ofRules reports whether the rules name path as a file that we write: the
// state's folder is the one place that needs no more rights.
func ofRules(set *rules.Set, path string) bool {
	for _, x := range set.Exports {
		if filepath.Clean(x.File) == path {
			return true
		}
	}
	return set.Listen.Metrics.Textfile != "" && filepath.Clean(set.Listen.Metrics.Textfile) == path
}

// ofFlags reports whether a file of that name may be in the flags' folder.
func ofFlags(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" || strings.HasPrefix(name, ".tmp-")
}
