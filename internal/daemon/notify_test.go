package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/notify"
	"stoplog/internal/rules"
)

func TestMessage(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p, q := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("198.51.100.0/28")
	br := &detect.Breach{
		At: at.UnixNano(), Rule: "ssh-login", Key: p.String(), Prefix: p, Addr: p.Addr(), Service: "sshd", User: "root", Count: 2, Points: 6, Unit: "failure",
		Evidence: []string{"a", "b"}, Source: "auth.log", Line: 7,
	}
	got := message(br, ledger.Outcome{Changes: []ledger.Change{
		{Op: ledger.Set, Block: ledger.Block{Prefix: p, Since: at, Until: at.Add(10 * time.Minute)}},
		{Op: ledger.Lift, Block: ledger.Block{Prefix: q, Since: at, Until: at.Add(time.Hour)}},
	}})
	want := notify.Message{
		Time: time.Unix(0, at.UnixNano()), Rule: "ssh-login", Key: "192.0.2.0/28", Prefix: "192.0.2.0/28", Addr: "192.0.2.0", Service: "sshd",
		User: "root", Count: 2, Points: 6, Counted: "2 failures, 6 points", TTL: 10 * time.Minute, Source: "auth.log", Line: 7, Evidence: []string{"a", "b"}, Blocks: []netip.Prefix{p},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	none := message(&detect.Breach{Rule: "flood", Key: "all", At: at.UnixNano()}, ledger.Outcome{})
	if none.Prefix != "" || none.Addr != "" || none.TTL != 0 || none.Blocks != nil {
		t.Errorf("a breach without an address: %+v", none)
	}
}

// TestTellTrouble: a target that cannot be reached is in status.
func TestTellTrouble(t *testing.T) {
	d := &daemon{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	notifier, err := d.newNotifier(&rules.Set{Notify: []rules.Notify{{Name: "ops", Exec: []string{"/nonexistent/tell"}, Timeout: time.Second, Limit: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	d.notifier = notifier
	if got := d.notifyTrouble(); got != nil {
		t.Errorf("trouble before anything was sent: %q", got)
	}
	d.notify("ops", &detect.Breach{Rule: "r", At: 1}, ledger.Outcome{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := notifier.Run(ctx); err != nil { // sends what waits and ends
		t.Fatal(err)
	}
	if got := d.notifyTrouble(); len(got) != 1 || !strings.HasPrefix(got[0], "notify target ops: ") || !strings.Contains(got[0], "no such file") {
		t.Errorf("trouble %q, want the target and why", got)
	}
}

// TestBadTargetsStopAStart: what cannot work is said before anything runs.
func TestBadTargetsStopAStart(t *testing.T) {
	set := &rules.Set{Notify: []rules.Notify{{Name: "ops", Exec: []string{"/bin/true"}, Template: "{{.Nothing}}"}}}
	_, err := open(Options{
		StateDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Load: func() (*rules.Set, []rules.Problem) { return set, nil },
	})
	broken := (*RulesError)(nil)
	if !errors.As(err, &broken) || len(broken.Problems) != 1 || !strings.Contains(broken.Problems[0].Error(), "notify target ops") {
		t.Errorf("%v, want a mistake in the rules that names the target", err)
	}
}
