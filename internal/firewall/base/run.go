package base

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// execer runs a program: the one place where this package starts one itself.
type Executor interface {
	// run gives stdin to argv and returns its standard output. The error
	// carries the first line of standard error.
	Run(ctx context.Context, argv []string, stdin []byte) ([]byte, error)
}

// realExec runs programs without a shell, in an environment of PATH alone,
// for a bounded time, and reads a bounded output.
type Runner struct {
	Timeout time.Duration
}

// maxOutput holds a million lines of `ipset save`.
const maxOutput = 128 << 20

func (x Runner) Run(ctx context.Context, argv []string, stdin []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // for children that keep the pipes open
	out, errs := &bounded{max: maxOutput}, &bounded{max: 4096}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), out, errs
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", argv[0], orTimeout(ctx, x.Timeout))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", strings.Join(argv[:min(len(argv), 2)], " "), withStderr(err, errs.b.String()))
	case out.over:
		return nil, fmt.Errorf("%s: more than %d bytes of output", argv[0], maxOutput)
	}
	return out.b.Bytes(), nil
}

func orTimeout(ctx context.Context, d time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("timed out after %s: %w", d, ctx.Err())
	}
	return ctx.Err()
}

func withStderr(err error, stderr string) error {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	if line == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, line)
}

// bounded keeps the first max bytes and drops the rest.
type bounded struct {
	b    bytes.Buffer
	max  int
	over bool
}

func (w *bounded) Write(p []byte) (int, error) {
	n := min(len(p), w.max-w.b.Len())
	w.over = w.over || n < len(p)
	w.b.Write(p[:n])
	return len(p), nil
}
