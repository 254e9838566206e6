package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"stoplog/internal/fleet"
)

// ErrNoDaemon: nobody answers on the socket.
var ErrNoDaemon = errors.New("no stoplog is running")

// Client talks to a daemon. Its methods block until the answer is there, ctx
// ends, or half a minute is over.
type Client struct {
	socket string
	http   http.Client
}

// Dial returns a client for the socket; it connects when first used.
func Dial(socket string) *Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
	return &Client{socket: socket, http: http.Client{Transport: t, Timeout: 30 * time.Second}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/status", nil)
}

func (c *Client) List(ctx context.Context) ([]Block, error) {
	return call[[]Block](ctx, c, http.MethodGet, "/list", nil)
}

func (c *Client) Explain(ctx context.Context, addr string) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodPost, "/explain", Order{Target: addr})
}

func (c *Client) History(ctx context.Context, q HistoryQuery) ([]AuditEntry, error) {
	return call[[]AuditEntry](ctx, c, http.MethodPost, "/history", q)
}

func (c *Client) Block(ctx context.Context, o Order) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/block", o)
}

func (c *Client) Unblock(ctx context.Context, o Order) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/unblock", o)
}

func (c *Client) Allow(ctx context.Context, o Order) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/allow", o)
}

func (c *Client) Disallow(ctx context.Context, o Order) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/disallow", o)
}

func (c *Client) Allowed(ctx context.Context) ([]AllowEntry, error) {
	return call[[]AllowEntry](ctx, c, http.MethodGet, "/allow", nil)
}

func (c *Client) Flags(ctx context.Context) ([]FlagEntry, error) {
	return call[[]FlagEntry](ctx, c, http.MethodGet, "/flags", nil)
}

func (c *Client) SetFlag(ctx context.Context, o FlagOrder) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/flag/set", o)
}

func (c *Client) ClearFlag(ctx context.Context, o FlagOrder) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/flag/clear", o)
}

func (c *Client) FleetOrder(ctx context.Context, o fleet.Order) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/fleet/order", o)
}

func (c *Client) Reload(ctx context.Context) (Answer, error) {
	return call[Answer](ctx, c, http.MethodPost, "/reload", nil)
}

func call[A any](ctx context.Context, c *Client, method, path string, q any) (a A, err error) {
	var body io.Reader
	if q != nil {
		b, err := json.Marshal(q)
		if err != nil {
			return a, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://stoplog"+path, body)
	if err != nil {
		return a, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return a, c.explain(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return a, refused(resp)
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("reading the daemon's answer: %w", err)
	}
	return a, nil
}

// explain tells a daemon that is not there from other faults.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w (no answer on %s; start it with: stoplog run)", ErrNoDaemon, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("opening %s: permission denied (only root and the group stoplog can use it)", c.socket)
	}
	return fmt.Errorf("asking the daemon on %s: %w", c.socket, err)
}

func refused(resp *http.Response) error {
	var f failure
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if json.Unmarshal(b, &f) != nil || f.Error == "" {
		return fmt.Errorf("the daemon answered %s", resp.Status)
	}
	if resp.StatusCode == http.StatusBadRequest {
		return badOrder{f.Error}
	}
	return errors.New(f.Error)
}
