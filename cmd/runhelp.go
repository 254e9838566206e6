package cmd

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/user"
	"runtime/debug"
	"strconv"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/rules"
)

func asError[T error](err error, target *T) bool { return errors.As(err, target) }

// groupID is the group's number, -1 when there is none or we may not give it.
func groupID(name string) int {
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil || os.Geteuid() != 0 && id != os.Getegid() {
		return -1
	}
	return id
}

// wallConfig is the rules' firewall section as the walls want it.
func wallConfig(set *rules.Set, name string) firewall.Options {
	f := set.Firewall
	o := firewall.Options{
		Name: name, Hook: firewall.Hook(f.Hook), Forward: f.Forward, Slow: f.SlowRate,
		MaxRules: f.MaxRules, MaxSet: f.MaxSet, HostsDeny: f.HostsDeny,
		Exec: firewall.ExecOptions{Block: f.Exec.Block, Unblock: f.Exec.Unblock, Timeout: f.Exec.Timeout},
	}
	o.Set4, o.Set6 = setName(f.Sets, f.Sets.V4), setName(f.Sets, f.Sets.V6)
	return o
}

// setName names one of the administrator's own sets.
func setName(s rules.Sets, name string) string {
	if name == "" {
		return ""
	}
	if s.Kind == "nft" {
		return "nft:" + joinTable(s.Table) + ":" + name
	}
	return "ipset:" + name
}

// joinTable turns "inet filter" into "inet:filter".
func joinTable(t string) string {
	out := []byte(t)
	for i, c := range out {
		if c == ' ' {
			out[i] = ':'
		}
	}
	return string(out)
}

// notifyReady notifies the service manager that we are up (sd_notify(3)).
func notifyReady(log *slog.Logger) { sdNotify(log, "READY=1") }

// watchdogEvery is half the time after which the service manager thinks that
// we hang (sd_watchdog_enabled(3)), 0 when it does not watch.
func watchdogEvery() time.Duration {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 || os.Getenv("NOTIFY_SOCKET") == "" {
		return 0
	}
	return time.Duration(usec) * time.Microsecond / 2
}

func sdNotify(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' {
		path = "\x00" + path[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		c.Close()
	}
	if err != nil {
		log.Warn("telling the service manager", "problem", err.Error())
	}
}

// nameUs has ps and pidof call this process stoplog: the kernel names one after
// the link that was executed, which for both of ours is /proc/self/exe.
func nameUs() { _ = os.WriteFile("/proc/self/comm", []byte("stoplog"), 0) }

// thrift collects garbage once the heap has grown by a quarter, not by all: what
// is held for long is most of it, and lines are read without making any.
func thrift() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
}
