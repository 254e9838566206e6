package wallproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"stoplog/internal/firewall"
)

// Client is the wall in another process, as a Backend. Orders are sent one at
// a time. One that is not answered in time, or whose context ends, breaks the
// connection, and every later order fails with ErrGone. It is used from one
// goroutine, Watch from another.
type Client struct {
	cmds, changes net.Conn
	name          string
	notes         []string
	dead          error
	answered      atomic.Int64 // Unix nanoseconds
}

// patience is how long a wall process may say nothing while it is asked
// something: one that works says so each second.
const patience = 5 * time.Second

// startPatience is how long the wall process may take to start. Nobody hears
// from it meanwhile: the client sends its first order while the other process
// still loads and tries its walls, which takes long on a busy machine.
const startPatience = 45 * time.Second

// Answered is when the other side was heard of last; zero: never. It may be
// called from any goroutine.
func (c *Client) Answered() time.Time {
	if at := c.answered.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// NewClient talks to Serve at the other ends. changes may be nil. Close
// closes both.
func NewClient(cmds, changes net.Conn) *Client {
	return &Client{cmds: cmds, changes: changes, name: "wall"}
}

// Close ends the conversation, whereupon the wall process exits.
func (c *Client) Close() error {
	err := c.cmds.Close()
	if c.changes != nil {
		err = errors.Join(err, c.changes.Close())
	}
	return err
}

// Name is the other side's, once Setup has succeeded.
func (c *Client) Name() string { return c.name }

// Notes are the other side's, as of the last Setup.
func (c *Client) Notes() []string { return c.notes }

// Setup passes the policy on.
func (c *Client) Setup(ctx context.Context, p firewall.Policy) error {
	if len(p.Allow) > maxList || len(p.Lockdown.Known) > maxList {
		return fmt.Errorf("wall: allowlist of %d prefixes exceeds the limit of %d", max(len(p.Allow), len(p.Lockdown.Known)), maxList)
	}
	var e encoder
	e.policy(p)
	d, err := c.ask(ctx, opSetup, e, nil)
	if err != nil {
		return err
	}
	name := d.text()
	notes := make([]string, d.u8())
	for i := range notes {
		notes[i] = d.text()
	}
	if err := d.end(); err != nil {
		return c.kill(err)
	}
	c.name, c.notes = name, notes
	return nil
}

// Block passes entries on, in bounded pieces.
func (c *Client) Block(ctx context.Context, es []firewall.Entry) error {
	var errs []error
	for len(es) > 0 && c.dead == nil {
		n := min(len(es), chunk)
		live, _, err := firewall.Prepare(es[:n], time.Time{})
		var e encoder
		e.entries(live)
		_, asked := c.ask(ctx, opBlock, e, nil)
		errs = append(errs, err, asked)
		es = es[n:]
	}
	return errors.Join(append(errs, c.dead)...)
}

// Unblock passes prefixes on, in bounded pieces.
func (c *Client) Unblock(ctx context.Context, ps []netip.Prefix) error {
	var errs []error
	for len(ps) > 0 && c.dead == nil {
		n := min(len(ps), chunk)
		var e encoder
		e.prefixes(ps[:n])
		_, err := c.ask(ctx, opUnblock, e, nil)
		errs = append(errs, err)
		ps = ps[n:]
	}
	return errors.Join(append(errs, c.dead)...)
}

// List passes on what the other side lists, piece by piece.
func (c *Client) List(ctx context.Context, emit func(firewall.Entry)) error {
	_, err := c.ask(ctx, opList, nil, emit)
	return err
}

// Teardown passes the order on.
func (c *Client) Teardown(ctx context.Context) error {
	_, err := c.ask(ctx, opTeardown, nil, nil)
	return err
}

// Check asks whether the wall stands as it was set up.
func (c *Client) Check(ctx context.Context) error {
	_, err := c.ask(ctx, opCheck, nil, nil)
	return err
}

// Expire passes the order on.
func (c *Client) Expire(ctx context.Context) error {
	_, err := c.ask(ctx, opExpire, nil, nil)
	return err
}

// kill remembers why the connection cannot be used any more.
func (c *Client) kill(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		err = errors.New("it exited")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("no answer for %s", c.patience())
	}
	c.dead = fmt.Errorf("%w: %w", firewall.ErrGone, err)
	return c.dead
}

// ask sends one order and reads its answer. Entries that come before the end
// of it are given to emit.
func (c *Client) ask(ctx context.Context, o op, payload []byte, emit func(firewall.Entry)) (*decoder, error) {
	if c.dead != nil {
		return nil, c.dead
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("wall: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.cmds.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c.wait(ctx)
	if err := writeFrame(c.cmds, o, payload); err != nil {
		return nil, c.kill(orCause(ctx, err))
	}
	for {
		c.wait(ctx)
		got, b, err := readFrame(c.cmds)
		if err != nil {
			return nil, c.kill(orCause(ctx, err))
		}
		c.answered.Store(time.Now().UnixNano())
		d := &decoder{b: b}
		switch {
		case got == opBusy:
		case got == opDone:
			return c.answer(d)
		case got == opEntries && emit != nil:
			es := d.entries()
			if err := d.end(); err != nil {
				return nil, c.kill(err)
			}
			for _, e := range es {
				emit(e)
			}
		default:
			return nil, c.kill(fmt.Errorf("%w: answer %d", errWire, got))
		}
	}
}

// patience is how long the other side may say nothing now.
func (c *Client) patience() time.Duration {
	if c.Answered().IsZero() {
		return startPatience
	}
	return patience
}

// wait bounds the next read or write.
func (c *Client) wait(ctx context.Context) {
	_ = c.cmds.SetDeadline(time.Now().Add(c.patience()))
	if ctx.Err() != nil { // it may have ended just before
		_ = c.cmds.SetDeadline(time.Unix(1, 0))
	}
}

// orCause prefers the context's own error to the deadline it caused.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// wallError is an error that crossed the socket.
type wallError struct {
	text   string
	causes []error
}

func (e *wallError) Error() string   { return e.text }
func (e *wallError) Unwrap() []error { return e.causes }

func (c *Client) answer(d *decoder) (*decoder, error) {
	status := d.u8()
	if status == 0 {
		return d, d.err
	}
	err := &wallError{text: d.text()}
	if status&broken != 0 {
		err.causes = append(err.causes, firewall.ErrBroken)
	}
	if status&unsupported != 0 {
		err.causes = append(err.causes, firewall.ErrUnsupported)
	}
	if status&full != 0 {
		err.causes = append(err.causes, &firewall.FullError{Wall: d.text(), Max: int(d.u32()), Left: d.prefixes(chunk)})
	}
	if bad := d.end(); bad != nil {
		return nil, c.kill(bad)
	}
	return nil, err
}

// Watch passes on what the other side tells, until it closes or ctx is done.
func (c *Client) Watch(ctx context.Context, emit func(firewall.Change)) error {
	if c.changes == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = c.changes.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		o, b, err := readFrame(c.changes)
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("wall: changes: %w", err)
		}
		d := &decoder{b: b}
		ch := firewall.Change{Broken: d.u8() != 0, Deleted: d.prefixes(chunk)}
		if err := d.end(); err != nil || o != opChange {
			return fmt.Errorf("wall: changes: %w", errors.Join(err, errWire))
		}
		emit(ch)
	}
}
