// Package runner runs the programs that rules start on a breach: bounded in number
// and time, without a shell, with log text as environment data only.
package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// Bounds of what rules may have done for them.
const (
	maxJobs     = 256 // waiting; more are dropped and counted
	maxWorkers  = 4
	jobTime     = 30 * time.Second
	maxEnvValue = 1024
)

// Runner runs the administrator's own programs that rules ask for. Nothing waits
// for them: over the bound they are dropped, counted and reported.
type Runner struct {
	log     *slog.Logger
	queue   chan job
	Dropped atomic.Uint64
	Notify  func(target string, br *detect.Breach, o ledger.Outcome)
}

// job is one program to run: an argument list, no shell, and the values as
// environment variables.
type job struct {
	rule string
	argv []string
	env  []string
}

func New(log *slog.Logger) *Runner {
	return &Runner{log: log, queue: make(chan job, maxJobs)}
}

// Answer queues the programs of a breach and hands notifications to Notify. It
// never blocks.
func (e *Runner) Answer(br *detect.Breach, o ledger.Outcome) {
	for _, a := range o.Answers {
		switch a.Kind {
		case detect.Exec:
			e.add(job{br.Rule, a.Argv, breachEnv(br, o)})
		case detect.Notify:
			if e.Notify != nil {
				e.Notify(a.Target, br, o)
			}
		}
	}
}

func (e *Runner) add(x job) {
	select {
	case e.queue <- x:
	default:
		if n := e.Dropped.Add(1); n&(n-1) == 0 { // 1, 2, 4, 8…: said, not repeated for each
			e.log.Warn("exec: too many programs are waiting; dropped", "rule", x.rule, "dropped", n)
		}
	}
}

// BlockedFor is the longest for which an outcome blocks; 0 when it does not.
func BlockedFor(o ledger.Outcome) (longest time.Duration) {
	for _, c := range o.Changes {
		if c.Op != ledger.Set {
			continue
		}
		longest = max(longest, c.Block.Until.Sub(c.Block.Since).Round(time.Second))
	}
	return longest
}

// breachEnv tells a program of a breach. Log text reaches it as data only.
func breachEnv(br *detect.Breach, o ledger.Outcome) []string {
	prefix, addr := "", ""
	if br.Prefix.IsValid() {
		prefix = br.Prefix.String()
	}
	if br.Addr.IsValid() {
		addr = br.Addr.String()
	}
	vs := [][2]string{
		{"RULE", br.Rule}, {"KEY", br.Key}, {"PREFIX", prefix}, {"ADDR", addr}, {"SERVICE", br.Service},
		{"USER", br.User}, {"COUNT", strconv.Itoa(br.Count)}, {"POINTS", strconv.Itoa(br.Points)}, {"TTL", rules.FormatDuration(BlockedFor(o))},
		{"TIME", time.Unix(0, br.At).UTC().Format(time.RFC3339)}, {"SOURCE", br.Source},
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, v := range vs {
		s := strings.ReplaceAll(v[1], "\x00", "")
		env = append(env, "STOPLOG_"+v[0]+"="+s[:min(len(s), maxEnvValue)])
	}
	return env
}

// Run works off the queue until ctx ends, then waits for what runs.
func (e *Runner) Run(ctx context.Context) error {
	done := make(chan struct{})
	for range maxWorkers {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case x := <-e.queue:
					e.do(ctx, x)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for range maxWorkers {
		<-done
	}
	return nil
}

func (e *Runner) do(ctx context.Context, x job) {
	ctx, cancel := context.WithTimeout(ctx, jobTime)
	defer cancel()
	c := exec.CommandContext(ctx, x.argv[0], x.argv[1:]...)
	c.Env, c.Dir = x.env, "/"
	// A group of its own, so that its children end with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	var said tail
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("killed after %s", rules.FormatDuration(jobTime))
		}
		e.log.Warn("exec", "rule", x.rule, "program", x.argv[0], "problem", err.Error(), "said", string(said))
	}
}

// tail keeps the first part of what a program says.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	if room := 512 - len(*t); room > 0 {
		*t = append(*t, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
