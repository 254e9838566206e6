package wallproc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/hostsdeny"
)

// served is a client and its server over a pipe.
func served(t *testing.T, b firewall.Backend, lim Limits) (*Client, chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	oursC, theirsC := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), theirs, theirsC, b, lim) }()
	c := NewClient(ours, oursC)
	t.Cleanup(func() { c.Close() })
	return c, done
}

// TestWallLimits plays a client that is no longer ours.
func TestWallLimits(t *testing.T) {
	d := firewall.NewDryRun()
	c, _ := served(t, d, Limits{Min4: 16, Min6: 32, MaxTTL: time.Hour})
	soon := time.Now().Add(time.Minute)
	for name, e := range map[string]firewall.Entry{
		"wide":       {Prefix: netip.MustParsePrefix("192.0.0.0/15"), Until: soon},
		"wide IPv6":  {Prefix: netip.MustParsePrefix("2001::/31"), Until: soon},
		"multicast":  {Prefix: netip.MustParsePrefix("ff02::/64"), Until: soon},
		"link-local": {Prefix: netip.MustParsePrefix("fe80::/64"), Until: soon},
		"broadcast":  {Prefix: netip.MustParsePrefix("255.255.255.255/32"), Until: soon},
		"all NAT64":  {Prefix: netip.MustParsePrefix("64:ff9b::/64"), Until: soon},
		"long":       {Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(2 * time.Hour)},
		"long ended": {Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		good := firewall.Entry{Prefix: netip.MustParsePrefix("198.51.100.0/28"), Until: soon}
		if (Limits{Min4: 16, Min6: 32, MaxTTL: time.Hour}).check(e, time.Now()) == nil { // whatever the client sends
			t.Errorf("%s: the wall's own check took it", name)
		}
		if err := c.Block(t.Context(), []firewall.Entry{e, good}); err == nil || !strings.Contains(err.Error(), e.Prefix.String()) {
			t.Errorf("%s: got %v, want a refusal that names %s", name, err, e.Prefix)
		}
		if es, _ := firewall.ListAll(t.Context(), d); len(es) != 1 || es[0].Prefix != good.Prefix {
			t.Errorf("%s: the wall holds %v", name, es)
		}
	}
	var p firewall.Policy
	p.Lockdown.Until = time.Now().Add(2 * time.Hour)
	if err := c.Setup(t.Context(), p); err == nil {
		t.Error("a long lockdown: got no error")
	}
}

func TestWallEndsWithItsClient(t *testing.T) {
	d := firewall.NewDryRun()
	c, done := served(t, d, Limits{})
	firewalltest.Block(t, c, "192.0.2.0/28", time.Hour)
	c.Close()
	if err := <-done; err != nil {
		t.Errorf("Serve: got %v, want nothing", err)
	}
	if es, _ := firewall.ListAll(t.Context(), d); len(es) != 1 {
		t.Errorf("the wall holds %v, want the block to stand", es)
	}
}

func TestWallRefusesNonsense(t *testing.T) {
	for name, frame := range map[string][]byte{
		"unknown operation": {0, 0, 0, 2, 1, 99},
		"an answer":         {0, 0, 0, 2, 1, byte(opDone)},
		"junk after list":   {0, 0, 0, 3, 1, byte(opList), 0},
		"junk block":        {0, 0, 0, 6, 1, byte(opBlock), 0xff, 0xff, 0xff, 0xff},
		"another version":   {0, 0, 0, 2, 2, byte(opList)},
		"junk":              []byte("GET / HTTP/1.0\r\n\r\n"),
	} {
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		go func() {
			done <- Serve(t.Context(), theirs, nil, firewall.NewDryRun(), Limits{})
			theirs.Close()
		}()
		go func() { _, _ = ours.Write(frame) }()
		go func() { // drain the answer
			for b := make([]byte, 512); ; {
				if _, err := ours.Read(b); err != nil {
					return
				}
			}
		}()
		if err := <-done; !errors.Is(err, errWire) {
			t.Errorf("%s: got %v, want the conversation to end", name, err)
		}
		ours.Close()
	}
}

func TestWallErrorsCross(t *testing.T) {
	left := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("2001:db8::/64")}
	for _, want := range []error{firewall.ErrBroken, firewall.ErrUnsupported} {
		c, _ := served(t, &firewalltest.Failing{Err: errors.Join(errors.New("the cause"), want)}, Limits{})
		err := c.Check(t.Context())
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "the cause") {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	c, _ := served(t, &firewalltest.Failing{Err: &firewall.FullError{Wall: "x", Max: 7, Left: left}}, Limits{})
	err := c.Block(t.Context(), []firewall.Entry{{Prefix: left[0], Until: time.Now().Add(time.Hour)}})
	var full *firewall.FullError
	if !errors.As(err, &full) || full.Max != 7 || len(full.Left) != 2 || full.Left[1] != left[1] {
		t.Errorf("got %v (%+v)", err, full)
	}
	if err := c.Unblock(t.Context(), left); err != nil {
		t.Errorf("after an error: %v", err)
	}
}

func TestWallManyAtOnce(t *testing.T) {
	d := firewall.NewDryRun()
	c, _ := served(t, d, Limits{})
	var es []firewall.Entry
	var ps []netip.Prefix
	for i := range 3*chunk + 1 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 32)
		es, ps = append(es, firewall.Entry{Prefix: p, Until: time.Now().Add(time.Hour)}), append(ps, p)
	}
	if err := c.Block(t.Context(), es); err != nil {
		t.Fatal(err)
	}
	if got, err := firewall.ListAll(t.Context(), c); len(got) != len(es) || err != nil {
		t.Errorf("List: got %d, %v, want %d", len(got), err, len(es))
	}
	if err := c.Unblock(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
	if got, err := firewall.ListAll(t.Context(), c); len(got) != 0 || err != nil {
		t.Errorf("List: got %d, %v, want none", len(got), err)
	}
}

// stuck never answers.
type stuck struct {
	firewall.DryRun
	in chan struct{}
}

func (s *stuck) Unblock(ctx context.Context, _ []netip.Prefix) error {
	close(s.in)
	<-ctx.Done()
	return ctx.Err()
}

func TestClientGivesUp(t *testing.T) {
	s := &stuck{in: make(chan struct{})}
	c, _ := served(t, s, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.in
		cancel()
	}()
	if err := c.Unblock(ctx, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := c.Check(t.Context()); err == nil {
		t.Error("an answer may be under way, but the connection is used again")
	}
}

// TestClientAwaitsTheStart: the first order waits for a wall process that starts
// slowly, and once it has answered, silence is noticed soon.
func TestClientAwaitsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := NewClient(ours, nil)
		go func() {
			time.Sleep(startPatience - time.Second) // of the bubble
			answering := &once{Conn: theirs}
			Serve(t.Context(), answering, nil, firewall.NewDryRun(), Limits{})
		}()
		if err := c.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatalf("a wall that starts slowly: %v", err)
		}
		begin := time.Now()
		if err := c.Check(t.Context()); !errors.Is(err, firewall.ErrGone) || !strings.Contains(err.Error(), patience.String()) {
			t.Errorf("a wall that hangs: got %v, want no answer for %s", err, patience)
		}
		if took := time.Since(begin); took != patience {
			t.Errorf("noticed after %s, want %s", took, patience)
		}
		c.Close()
		theirs.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := NewClient(ours, nil)
		defer c.Close()
		begin := time.Now()
		if err := c.Setup(t.Context(), firewall.Policy{}); !errors.Is(err, firewall.ErrGone) || time.Since(begin) != startPatience {
			t.Errorf("a wall that never starts: got %v after %s, want %v after %s", err, time.Since(begin), firewall.ErrGone, startPatience)
		}
	})
}

// once is a wall's connection over which one answer goes.
type once struct {
	net.Conn
	answered bool
}

func (o *once) Write(b []byte) (int, error) {
	if o.answered {
		return len(b), nil
	}
	n, err := o.Conn.Write(b)
	o.answered = err == nil
	return n, err
}

func TestClientOfADeadWall(t *testing.T) {
	ours, theirs := net.Pipe()
	theirs.Close()
	c := NewClient(ours, nil)
	if err := c.Block(t.Context(), []firewall.Entry{{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour)}}); err == nil {
		t.Error("got no error")
	}
	if _, err := firewall.ListAll(t.Context(), c); err == nil || !errors.Is(err, firewall.ErrGone) {
		t.Errorf("got %v", err)
	}
}

func TestWallTellsOfChanges(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/28")
	c, _ := served(t, &firewalltest.Telling{DryRun: *firewall.NewDryRun(), Changes: []firewall.Change{
		{Deleted: []netip.Prefix{p}},
		{Deleted: make([]netip.Prefix, chunk+1)},
		{Broken: true},
	}}, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	var got []firewall.Change
	err := c.Watch(ctx, func(ch firewall.Change) {
		if got = append(got, ch); len(got) == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(got) != 3 {
		t.Fatalf("got %v, %v", got, err)
	}
	if len(got[0].Deleted) != 1 || got[0].Deleted[0] != p || got[0].Broken || !got[1].Broken || !got[2].Broken {
		t.Errorf("got %+v", got)
	}
	if err := c.Setup(t.Context(), firewall.Policy{}); err != nil {
		t.Fatal(err)
	}
	if c.Name() != "telling" || len(c.Notes()) != 2 || c.Notes()[1] != "two" {
		t.Errorf("got %q, %q", c.Name(), c.Notes())
	}
}

// TestWallCuts: what is blocked first is cut then, but for the allowed.
func TestWallCuts(t *testing.T) {
	ours, theirs := net.Pipe()
	d := firewall.NewDryRun()
	var cut []firewall.Entry
	var allowed []netip.Prefix
	s := &server{conn: theirs, b: d, lim: Limits{}.withDefaults(), cut: func(_ context.Context, es []firewall.Entry, allow []netip.Prefix) (int, error) {
		if held, _ := firewall.ListAll(t.Context(), d); len(held) == 0 {
			t.Error("cut before it was blocked")
		}
		cut, allowed = es, allow
		return 0, errors.New("cannot cut")
	}}
	go s.serve(t.Context())
	c := NewClient(ours, nil)
	defer c.Close()
	p := firewall.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32")}}
	if err := c.Setup(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	e := firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Now().Add(time.Hour), Cut: true}
	if err := c.Block(t.Context(), []firewall.Entry{e}); err == nil || !strings.Contains(err.Error(), "cannot cut") {
		t.Errorf("got %v", err)
	}
	if len(cut) != 1 || !cut[0].Cut || len(allowed) != 1 {
		t.Errorf("got %v, %v", cut, allowed)
	}
}

// TestWallExpires: the order reaches the wall that needs it.
func TestWallExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.deny")
	w, err := hostsdeny.New(firewall.Options{HostsDeny: path})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := served(t, firewall.Multi{w, firewall.NewDryRun()}, Limits{})
	firewalltest.Block(t, c, "192.0.2.0/28", time.Hour)
	read := func() string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	text := strings.ReplaceAll(read(), "until=2", "until=1")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := read(); strings.Contains(got, "192.0.2.0") {
		t.Errorf("got %q, want it gone", got)
	}
	if err := c.Teardown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after Teardown: got %v, want no file as before", err)
	}
}
