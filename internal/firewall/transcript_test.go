package firewall

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// transcript is an execer that expects exactly these runs, in this order.
type transcript struct {
	want []exchange
	bad  string // the first thing that differed
}

type exchange struct {
	argv, stdin, stdout string
	err                 error
}

func (x *transcript) run(_ context.Context, argv []string, stdin []byte) ([]byte, error) {
	if len(x.want) == 0 {
		x.differ("unexpected run of %q with %q", argv, stdin)
		return nil, errors.New("unexpected")
	}
	e := x.want[0]
	x.want = x.want[1:]
	if got := strings.Join(argv, " "); got != e.argv || string(stdin) != e.stdin {
		x.differ("got %q with\n%s\nwant %q with\n%s", got, stdin, e.argv, e.stdin)
	}
	return []byte(e.stdout), e.err
}

func (x *transcript) differ(format string, args ...any) {
	if x.bad == "" {
		x.bad = fmt.Sprintf(format, args...)
	}
}
