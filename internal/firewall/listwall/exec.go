package listwall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// Exec is a wall made of the administrator's own programs. Each is started as
// an argument list, without a shell, with an environment of PATH and LC_ALL
// alone, and must end within the time limit. To block and unblock it gets
// lines on standard input:
//
//	192.0.2.0/28 600 drop tcp/22,udp/53
//	192.0.2.32/28
//
// prefix, seconds left, action and ports ("-" for all) to block; the prefix
// alone to unblock. A prefix that is blocked already gets a new end. Prefixes
// never overlap, and the allowlist is already taken out. What has ended is
// unblocked by Expire.
type Exec struct{ *wall }

// NewExec prepares the wall; nothing is run before Setup.
func NewExec(o firewall.Options) (*Exec, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if len(o.Exec.Block) == 0 || len(o.Exec.Unblock) == 0 {
		return nil, errors.New("exec: needs a program to block and one to unblock")
	}
	for _, argv := range [][]string{o.Exec.Setup, o.Exec.Block, o.Exec.Unblock, o.Exec.Teardown} {
		if len(argv) > 0 && !strings.HasPrefix(argv[0], "/") {
			return nil, fmt.Errorf("exec: %q is not an absolute path", argv[0])
		}
	}
	return &Exec{newWall(&execList{x: base.Runner{Timeout: o.Exec.Timeout}, Options: o.Exec}, o.MaxSet)}, nil
}

// Notes says what this wall depends on.
func (w *Exec) Notes() []string {
	return []string{"blocks end only while stoplog runs, unless the program removes them itself"}
}

// execList is the list at the other side of the programs.
type execList struct {
	x       base.Executor
	Options firewall.ExecOptions
}

func (l *execList) name() string { return "exec" }

func (l *execList) run(ctx context.Context, argv []string, lines string) error {
	if len(argv) == 0 {
		return nil
	}
	if _, err := l.x.Run(ctx, argv, []byte(lines)); err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	return nil
}

func (l *execList) setup(ctx context.Context) error    { return l.run(ctx, l.Options.Setup, "") }
func (l *execList) teardown(ctx context.Context) error { return l.run(ctx, l.Options.Teardown, "") }

func (l *execList) apply(ctx context.Context, add []firewall.Entry, remove []netip.Prefix) error {
	now := time.Now()
	var out, in strings.Builder
	for _, p := range remove {
		fmt.Fprintln(&out, p)
	}
	for _, e := range add {
		ports := "-"
		if len(e.Ports) > 0 {
			ports = firewall.FormatPorts(e.Ports)
		}
		fmt.Fprintln(&in, e.Prefix, int(max(e.Until.Sub(now), time.Second)/time.Second), e.Action, ports)
	}
	// Added first: of a block that is cut again no part is open in between.
	if in.Len() > 0 {
		if err := l.run(ctx, l.Options.Block, in.String()); err != nil {
			return err
		}
	}
	if out.Len() > 0 {
		return l.run(ctx, l.Options.Unblock, out.String())
	}
	return nil
}

// present believes what was handed on: there is nobody to ask.
func (l *execList) present(_ context.Context, pieces map[netip.Prefix]firewall.Entry) (map[netip.Prefix]bool, error) {
	there := make(map[netip.Prefix]bool, len(pieces))
	for p := range pieces {
		there[p] = true
	}
	return there, nil
}
