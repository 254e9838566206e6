package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// record is a Daemon that remembers the last order and answers it.
type record struct {
	Daemon // the rest is not called
	order  Order
	flag   FlagOrder
}

func (r *record) Status(context.Context) (Status, error) { return Status{State: "ok", PID: 7}, nil }
func (r *record) List(context.Context) ([]Block, error) {
	return []Block{{Prefix: "192.0.2.0/28", Rule: "ssh-login", Count: 6}}, nil
}
func (r *record) Block(_ context.Context, o Order) (Answer, error) {
	r.order = o
	if o.Target == "nonsense" {
		return Answer{}, BadOrder("%q is no address", o.Target)
	}
	if o.Target == "broken" {
		return Answer{}, errors.New("writing the journal: no space left on device")
	}
	return Answer{Lines: []string{"blocked"}}, nil
}
func (r *record) SetFlag(_ context.Context, o FlagOrder) (Answer, error) {
	r.flag = o
	return Answer{}, nil
}

// door serves d on a fresh socket until the test ends.
func door(t *testing.T, d Daemon) (*Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := Listen(path, -1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, d) }()
	c := Dial(path)
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c, path
}

func TestOrdersArrive(t *testing.T) {
	r := &record{}
	c, _ := door(t, r)
	ctx := context.Background()
	want := Order{Target: "192.0.2.7", TTL: time.Hour, Reason: "because"}
	a, err := c.Block(ctx, want)
	if err != nil || len(a.Lines) != 1 || a.Lines[0] != "blocked" {
		t.Fatalf("Block = %v, %v", a, err)
	}
	want.By = peerName(uint32(os.Getuid()))
	if r.order != want {
		t.Errorf("the daemon got %+v, want %+v", r.order, want)
	}
	if _, err := c.SetFlag(ctx, FlagOrder{Name: "captcha", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if r.flag.Name != "captcha" || r.flag.For != time.Minute || r.flag.By != want.By {
		t.Errorf("the daemon got %+v", r.flag)
	}
	bs, err := c.List(ctx)
	if err != nil || len(bs) != 1 || bs[0].Prefix != "192.0.2.0/28" {
		t.Errorf("List = %v, %v", bs, err)
	}
	st, err := c.Status(ctx)
	if err != nil || st.PID != 7 {
		t.Errorf("Status = %+v, %v", st, err)
	}
}

func TestErrorsKeepTheirClass(t *testing.T) {
	c, _ := door(t, &record{})
	_, err := c.Block(context.Background(), Order{Target: "nonsense"})
	if !errors.Is(err, ErrBadOrder) || err.Error() != `"nonsense" is no address` {
		t.Errorf("a malformed order: %v, want ErrBadOrder in the daemon's words", err)
	}
	_, err = c.Block(context.Background(), Order{Target: "broken"})
	if err == nil || errors.Is(err, ErrBadOrder) || err.Error() != "writing the journal: no space left on device" {
		t.Errorf("a failing order: %v", err)
	}
}

func TestNoDaemon(t *testing.T) {
	_, err := Dial(filepath.Join(t.TempDir(), "none")).Status(context.Background())
	if !errors.Is(err, ErrNoDaemon) {
		t.Errorf("without a socket: %v, want ErrNoDaemon", err)
	}
	path := filepath.Join(t.TempDir(), "stale")
	makeStale(t, path)
	if _, err := Dial(path).Status(context.Background()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("with a stale socket: %v, want ErrNoDaemon", err)
	}
}

// makeStale leaves a socket that nobody answers on, as a kill -9 does.
func makeStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	makeStale(t, stale)
	l, err := Listen(stale, -1)
	if err != nil {
		t.Fatalf("over a stale socket: %v", err)
	}
	defer l.Close()
	fi, err := os.Stat(stale)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v; want 0600", fi.Mode(), err)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	if _, err := Listen(stale, -1); !errors.Is(err, ErrRunning) {
		t.Errorf("beside a live daemon: %v, want ErrRunning", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(file, -1); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file was touched: %q", b)
	}
	grp := filepath.Join(dir, "sub", "grp")
	lg, err := Listen(grp, os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	defer lg.Close()
	if fi, _ := os.Stat(grp); fi.Mode().Perm() != 0o660 {
		t.Errorf("mode for a group = %v, want 0660", fi.Mode())
	}
}

func TestHostileRequests(t *testing.T) {
	r := &record{}
	c, _ := door(t, r)
	for _, body := range []string{
		"{", `{"target":1}`, `{"target":"192.0.2.1","by":"mallory"}`,
		`{"target":"` + strings.Repeat("x", maxBody) + `"}`, "null x", "[]",
	} {
		resp, err := c.http.Post("http://stoplog/block", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatalf("%.40q: %v", body, err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK && body != "null x" {
			t.Errorf("%.40q was accepted", body)
		}
	}
	if r.order.By == "mallory" {
		t.Error("a request chose its own name")
	}
	resp, err := c.http.Get("http://stoplog/block")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET of an order: %s", resp.Status)
	}
}
