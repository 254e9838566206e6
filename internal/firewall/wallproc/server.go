// Package wallproc runs a backend in a process of its own, the only one with
// CAP_NET_ADMIN. The client, which reads logs and is not trusted, sends orders
// over a socket; the server checks each against limits that the client cannot
// change.
package wallproc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"stoplog/internal/firewall"
)

// Limits are what the wall process holds its client to. They are set when it
// is started and cannot be changed by who talks to it.
type Limits struct {
	// Min4 and Min6 are the shortest prefix lengths that may be blocked.
	// Default 8 and 16.
	Min4, Min6 int
	// MaxTTL is how far in the future a block may end. Default 400 days.
	MaxTTL time.Duration
	// MaxOrder is how long one order may take until the client has to think that
	// it hangs. Default 20 s.
	MaxOrder time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Min4, l.Min6 = cmp.Or(l.Min4, 8), cmp.Or(l.Min6, 16)
	l.MaxTTL = cmp.Or(l.MaxTTL, 400*24*time.Hour)
	l.MaxOrder = cmp.Or(l.MaxOrder, 20*time.Second)
	return l
}

// earliest is before any clock that can be right: a block that ends before it
// is a mistake, not an old block.
var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// check judges one entry of a client that is not trusted.
func (l Limits) check(e firewall.Entry, now time.Time) error {
	if err := e.Validate(); err != nil {
		return err
	}
	floor := l.Min6
	if e.Prefix.Addr().Is4() {
		floor = l.Min4
	}
	switch {
	case e.Prefix.Bits() < floor:
		return fmt.Errorf("%s: wider than /%d", e.Prefix, floor)
	case e.Until.Before(earliest):
		return fmt.Errorf("%s: ends before %d", e.Prefix, earliest.Year())
	case e.Until.After(now.Add(l.MaxTTL)):
		return fmt.Errorf("%s: ends in more than %s", e.Prefix, l.MaxTTL)
	}
	return nil
}

// wallServer answers one client.
type server struct {
	conn  io.ReadWriter
	b     firewall.Backend
	lim   Limits
	allow []netip.Prefix // of the last Setup
	cut   func(context.Context, []firewall.Entry, []netip.Prefix) (int, error)
	mu    sync.Mutex // guards writing to conn
}

// busyEvery is how often a wall that works on an order says so.
const busyEvery = time.Second

// busy reports to the client each second that the order is worked on, for as long as
// one may take; stop ends that.
func (s *server) busy() (stop func()) {
	over, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tick := time.NewTicker(busyEvery)
		defer tick.Stop()
		for end := time.After(s.lim.MaxOrder); ; {
			select {
			case <-tick.C:
				_ = s.send(opBusy, nil) // the answer finds out that the client is gone
			case <-over:
				return
			case <-end:
				return
			}
		}
	}()
	return func() { close(over); <-told }
}

func (s *server) send(o op, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return writeFrame(s.conn, o, payload)
}

// Serve answers the client at the other end of cmds until that closes, which
// is no error, or breaks the protocol, which is. Blocks are left standing
// then: the kernel's TTLs hold. changes, when not nil, carries what others do
// to the wall, if it can tell. Only orders within lim reach b. Serve closes
// neither connection. Running connections of entries with Cut are ended after
// they are blocked.
func Serve(ctx context.Context, cmds, changes net.Conn, b firewall.Backend, lim Limits) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = cmds.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	s := &server{conn: cmds, b: b, lim: lim.withDefaults(), cut: CutConnections}
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if w, ok := b.(firewall.Watcher); ok && changes != nil {
		stop := context.AfterFunc(ctx, func() { _ = changes.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		watching.Go(func() {
			_ = w.Watch(ctx, func(c firewall.Change) { _ = sendChange(changes, c) }) // the client's own checks go on without
		})
	}
	return s.serve(ctx)
}

func (s *server) serve(ctx context.Context) error {
	for {
		o, payload, err := readFrame(s.conn)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("wall: %w", err)
		}
		stop := s.busy()
		told, err := s.handle(ctx, o, &decoder{b: payload})
		stop()
		if errors.Is(err, errWire) {
			_ = s.done(err) // it is going to hear from the closed connection anyway
			return fmt.Errorf("wall: %w", err)
		}
		if told {
			continue
		}
		if err := s.done(err); err != nil {
			return fmt.Errorf("wall: answering: %w", err)
		}
	}
}

// handle does one order. told means that the answer was sent already.
func (s *server) handle(ctx context.Context, o op, d *decoder) (told bool, err error) {
	switch o {
	case opSetup:
		return s.setup(ctx, d)
	case opBlock:
		return false, s.block(ctx, d)
	case opUnblock:
		ps := d.prefixes(chunk)
		if err := d.end(); err != nil {
			return false, err
		}
		return false, s.b.Unblock(ctx, ps)
	}
	if err := d.end(); err != nil {
		return false, err
	}
	switch o {
	case opList:
		return false, s.list(ctx)
	case opTeardown:
		return false, s.b.Teardown(ctx)
	case opCheck:
		return false, firewall.Multi{s.b}.Check(ctx)
	case opExpire:
		return false, firewall.Multi{s.b}.Expire(ctx)
	}
	return false, fmt.Errorf("%w: operation %d", errWire, o)
}

func (s *server) setup(ctx context.Context, d *decoder) (bool, error) {
	p := d.policy()
	if err := d.end(); err != nil {
		return false, err
	}
	if p.Lockdown.Until.After(time.Now().Add(s.lim.MaxTTL)) {
		return false, fmt.Errorf("lockdown: ends in more than %s", s.lim.MaxTTL)
	}
	if err := s.b.Setup(ctx, p); err != nil {
		return false, err
	}
	s.allow = p.Allow
	var e encoder
	e.text(s.b.Name())
	var notes []string
	if n, ok := s.b.(firewall.Noter); ok {
		notes = n.Notes()
	}
	notes = notes[:min(len(notes), 100)]
	e.u8(uint8(len(notes)))
	for _, n := range notes {
		e.text(n)
	}
	return true, s.send(opDone, append([]byte{0}, e...))
}

// block passes on what keeps to the limits; the rest is refused by name.
func (s *server) block(ctx context.Context, d *decoder) error {
	es := d.entries()
	if err := d.end(); err != nil {
		return err
	}
	now := time.Now()
	var errs []error
	ok := es[:0]
	for _, e := range es {
		if err := s.lim.check(e, now); err != nil {
			errs = append(errs, err)
			continue
		}
		ok = append(ok, e)
	}
	if len(ok) > 0 {
		errs = append(errs, s.b.Block(ctx, ok))
		_, err := s.cut(ctx, ok, s.allow)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// list sends what the wall lists while it lists it.
func (s *server) list(ctx context.Context) error {
	part := make([]firewall.Entry, 0, chunk)
	var unsent error
	send := func() {
		var e encoder
		e.entries(part)
		if unsent == nil && len(part) > 0 {
			unsent = s.send(opEntries, e)
		}
		part = part[:0]
	}
	err := s.b.List(ctx, func(e firewall.Entry) {
		if part = append(part, e); len(part) == chunk {
			send()
		}
	})
	send()
	return errors.Join(err, unsent)
}

// Bits of an answer's status.
const (
	failed uint8 = 1 << iota
	broken
	unsupported
	full
)

func (s *server) done(err error) error {
	var e encoder
	if err == nil {
		return s.send(opDone, []byte{0})
	}
	status := failed
	if errors.Is(err, firewall.ErrBroken) {
		status |= broken
	}
	if errors.Is(err, firewall.ErrUnsupported) {
		status |= unsupported
	}
	var f *firewall.FullError
	if errors.As(err, &f) {
		status |= full
	}
	e.u8(status)
	e.text(err.Error())
	if f != nil {
		e.text(f.Wall)
		e.u32(uint32(f.Max))
		e.prefixes(f.Left[:min(len(f.Left), chunk)])
	}
	return s.send(opDone, e)
}

func sendChange(w io.Writer, c firewall.Change) error {
	var e encoder
	if len(c.Deleted) > chunk {
		c = firewall.Change{Broken: true}
	}
	e.u8(0)
	if c.Broken {
		e[0] = 1
	}
	e.prefixes(c.Deleted)
	return writeFrame(w, opChange, e)
}
