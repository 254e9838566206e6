//go:build linux

package firewalltest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// block blocks one prefix.
func Block(t *testing.T, b firewall.Backend, prefix string, ttl time.Duration) {
	t.Helper()
	e := firewall.Entry{Prefix: netip.MustParsePrefix(prefix), Until: time.Now().Add(ttl)}
	if err := b.Block(t.Context(), []firewall.Entry{e}); err != nil {
		t.Fatal(err)
	}
}

// failing is a wall whose orders fail.
type Failing struct {
	firewall.DryRun
	Err error
}

func (f *Failing) Block(context.Context, []firewall.Entry) error { return f.Err }
func (f *Failing) Check(context.Context) error                   { return f.Err }

// telling is a wall that others change.
type Telling struct {
	firewall.DryRun
	Changes []firewall.Change
}

func (w *Telling) Watch(ctx context.Context, emit func(firewall.Change)) error {
	for _, c := range w.Changes {
		emit(c)
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *Telling) Name() string    { return "telling" }
func (w *Telling) Notes() []string { return []string{"one", "two"} }

// transcript is an execer that expects exactly these runs, in this order.
type Transcript struct {
	Want []Exchange
	Bad  string // the first thing that differed
}

type Exchange struct {
	Argv, Stdin, stdout string
	Err                 error
}

func (x *Transcript) Run(_ context.Context, argv []string, stdin []byte) ([]byte, error) {
	if len(x.Want) == 0 {
		x.differ("unexpected run of %q with %q", argv, stdin)
		return nil, errors.New("unexpected")
	}
	e := x.Want[0]
	x.Want = x.Want[1:]
	if got := strings.Join(argv, " "); got != e.Argv || string(stdin) != e.Stdin {
		x.differ("got %q with\n%s\nwant %q with\n%s", got, stdin, e.Argv, e.Stdin)
	}
	return []byte(e.stdout), e.Err
}

func (x *Transcript) differ(format string, args ...any) {
	if x.Bad == "" {
		x.Bad = fmt.Sprintf(format, args...)
	}
}
