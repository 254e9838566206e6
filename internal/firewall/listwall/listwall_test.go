package listwall

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/firewalltest"
)

func TestExecTranscript(t *testing.T) {
	w, err := NewExec(firewall.Options{Exec: firewall.ExecOptions{Setup: []string{"/x/setup"}, Block: []string{"/x/block", "-v"}, Unblock: []string{"/x/unblock"}}})
	if err != nil {
		t.Fatal(err)
	}
	x := &firewalltest.Transcript{Want: []firewalltest.Exchange{
		{Argv: "/x/setup"},
		{Argv: "/x/block -v", Stdin: "192.0.2.0/29 3599 drop -\n192.0.2.8/31 3599 drop -\n192.0.2.11/32 3599 drop -\n192.0.2.12/30 3599 drop -\n2001:db8::/64 3599 reject tcp/22,80-90\n"},
		{Argv: "/x/unblock", Stdin: "192.0.2.0/29\n192.0.2.8/31\n192.0.2.11/32\n192.0.2.12/30\n"},
	}}
	w.l.(*execList).x = x
	if err := w.Setup(t.Context(), firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/32")}}); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	if err := w.Block(t.Context(), []firewall.Entry{
		{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: until},
		{Prefix: netip.MustParsePrefix("2001:db8::/64"), Until: until, Action: firewall.Reject, Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "", From: 80, To: 90}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}); err != nil {
		t.Fatal(err)
	}
	if x.Bad != "" || len(x.Want) > 0 {
		t.Errorf("%s; left: %v", x.Bad, x.Want)
	}
}

// TestExecRetries: what a program failed at is tried again with the next order.
func TestExecRetries(t *testing.T) {
	w, err := NewExec(firewall.Options{Exec: firewall.ExecOptions{Block: []string{"/x/block"}, Unblock: []string{"/x/unblock"}}})
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no route")
	line := "192.0.2.0/28 3599 drop -\n"
	x := &firewalltest.Transcript{Want: []firewalltest.Exchange{{Argv: "/x/block", Stdin: line, Err: cause}, {Argv: "/x/block", Stdin: line}}}
	w.l.(*execList).x = x
	e := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour)}
	if err := w.Block(t.Context(), []firewall.Entry{e}); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "exec: ") {
		t.Errorf("got %v", err)
	}
	if err := w.Expire(t.Context()); err != nil || x.Bad != "" || len(x.Want) > 0 {
		t.Errorf("got %v; %s; left %v", err, x.Bad, x.Want)
	}
}

func TestExecRefuses(t *testing.T) {
	for _, o := range []firewall.ExecOptions{{}, {Block: []string{"/x"}}, {Block: []string{"x"}, Unblock: []string{"/x"}}, {Block: []string{"/x"}, Unblock: []string{"/x"}, Setup: []string{"sh", "-c", "x"}}} {
		if _, err := NewExec(firewall.Options{Exec: o}); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}

func TestRealExec(t *testing.T) {
	dir := t.TempDir()
	script := func(text string) []string {
		path := filepath.Join(dir, "x")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return []string{path, "a b", "$(x)"}
	}
	x := base.Runner{Timeout: 10 * time.Second}
	t.Setenv("SECRET", "1")
	out, err := x.Run(t.Context(), script(`printf '%s|' "$@" "$PWD" "${SECRET-none}" "$(cat)"`), []byte("in"))
	if want := "a b|$(x)|/|none|in|"; string(out) != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	_, err = x.Run(t.Context(), script("echo first >&2; echo second >&2; exit 3"), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: first") {
		t.Errorf("got %v", err)
	}
	if _, err = x.Run(t.Context(), script("head -c 100000 /dev/zero >&2; exit 1"), nil); err == nil || len(err.Error()) > 5000 {
		t.Errorf("got an error of %d bytes", len(err.Error()))
	}
	if _, err = x.Run(t.Context(), []string{"/nonexistent/x"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	_, err = base.Runner{Timeout: 50 * time.Millisecond}.Run(t.Context(), script("exec sleep 60"), nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timed out after 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestSetOnlyRefuses(t *testing.T) {
	for _, spec := range []string{"mine", "ipset:", "ipset:-f", "ipset:a b", "ipset:a\nflush", "nft:inet:filter", "nft:bridge:t:s", "nft:inet:t:-s", "pf:x", "ipset:" + strings.Repeat("x", 32)} {
		if _, err := NewSetOnly(firewall.Options{Set4: spec}); err == nil {
			t.Errorf("%q: got no error", spec)
		}
	}
	if _, err := NewSetOnly(firewall.Options{}); err == nil {
		t.Error("no set: got no error")
	}
}
