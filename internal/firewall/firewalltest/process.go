//go:build linux

package firewalltest

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stoplog/internal/firewall"
)

// Spawned is a backend in a wall process.
type Spawned interface {
	firewall.Backend
	firewall.Checker
	Close() error
	Wait() error
	Pid() int
}

// Process says how to test a backend in a wall process.
type Process struct {
	// Spawn starts it, each time in the same network namespace with the same
	// options.
	Spawn func(t *testing.T) Spawned
	// Shows reports whether a prefix is blocked, without asking the backend.
	Shows func(t *testing.T, prefix string) bool
	// Leftovers finds what stands when another backend is in use. Nil: the
	// backend marks nothing as its own.
	Leftovers func(t *testing.T) []firewall.Leftover
	// Forgets: the backend knows what it holds from memory, so that a new process
	// lists nothing.
	Forgets bool
}

// RunProcess runs the part of the contract that only a process can break. The
// steps build on each other: what one process blocked, the next ones find.
func RunProcess(t *testing.T, p Process) {
	es := []firewall.Entry{Entry("192.0.2.0/28", time.Hour), Entry("2001:db8::/64", time.Hour)}
	w := p.Spawn(t)
	ok := t.Run("works with the rights of the unit", func(t *testing.T) {
		rightsOfUnit(t, w.Pid())
		if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatalf("Setup: %v", err)
		}
		if err := w.Check(t.Context()); err != nil {
			t.Errorf("Check: %v", err)
		}
	})
	ok = ok && t.Run("answers when the kernel has it", func(t *testing.T) {
		for _, e := range es {
			if err := w.Block(t.Context(), []firewall.Entry{e}); err != nil {
				t.Fatalf("Block: %v", err)
			}
			if !p.Shows(t, e.Prefix.String()) {
				t.Errorf("Block of %s was answered before it was there", e.Prefix)
			}
		}
		extra := Entry("198.51.100.0/28", time.Hour)
		if err := w.Block(t.Context(), []firewall.Entry{extra}); err != nil {
			t.Fatalf("Block: %v", err)
		}
		if err := w.Unblock(t.Context(), []netip.Prefix{extra.Prefix}); err != nil {
			t.Fatalf("Unblock: %v", err)
		}
		if p.Shows(t, extra.Prefix.String()) {
			t.Error("Unblock was answered before it was done")
		}
	})
	ok = ok && t.Run("stalled", func(t *testing.T) { stalled(t, w) })
	if !ok {
		return
	}
	w = p.Spawn(t)
	t.Run("a new process lists what the old one blocked", func(t *testing.T) {
		if err := w.Setup(t.Context(), firewall.Policy{}); err != nil {
			t.Fatalf("Setup: %v", err)
		}
		got, err := firewall.ListAll(t.Context(), w)
		if err != nil && !errors.Is(err, firewall.ErrBroken) {
			t.Fatalf("List: %v", err)
		}
		if p.Forgets {
			if len(got) > 0 {
				t.Errorf("got %v of a backend that forgets", got)
			}
			return
		}
		wall{t, w}.holds(es...)
		if len(got) != len(es) {
			t.Errorf("got %d, want %d: nothing could be adopted", len(got), len(es))
		}
	})
	w.Close()
	if err := w.Wait(); err != nil {
		t.Errorf("the wall process: %v", err)
	}
	if p.Leftovers == nil {
		return
	}
	t.Run("leftovers", func(t *testing.T) {
		if !p.Shows(t, es[0].Prefix.String()) {
			t.Fatal("the blocks did not survive the process")
		}
		left := p.Leftovers(t)
		if len(left) == 0 {
			t.Fatal("found nothing")
		}
		for _, l := range left {
			if err := l.Remove(t.Context()); err != nil {
				t.Errorf("removing %s: %v", l.What, err)
			}
		}
		for _, e := range es {
			if p.Shows(t, e.Prefix.String()) {
				t.Errorf("%s still stands after %v", e.Prefix, left)
			}
		}
		if left := p.Leftovers(t); len(left) > 0 {
			t.Errorf("found again: %v", left)
		}
	})
}

// rightsOfUnit fails unless a process has at most what the unit grants, and can
// gain no more.
func rightsOfUnit(t *testing.T, pid int) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const unit = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW
	seen := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		k, v, _ := strings.Cut(s.Text(), ":")
		v = strings.TrimSpace(v)
		switch k {
		case "CapBnd", "CapEff", "CapPrm":
			seen++
			if caps, err := strconv.ParseUint(v, 16, 64); err != nil || caps&^unit != 0 {
				t.Errorf("%s: got %s, want no more than CAP_NET_ADMIN and CAP_NET_RAW", k, v)
			}
		case "NoNewPrivs":
			if seen++; v != "1" {
				t.Errorf("NoNewPrivs: got %s, want 1", v)
			}
		}
	}
	if seen != 4 {
		t.Errorf("read %d of 4 fields of /proc/%d/status", seen, pid)
	}
}

// stalled stops the process. An order must fail within seconds, and later ones at
// once; the process can then be killed. Its blocks stand.
func stalled(t *testing.T, w Spawned) {
	if err := unix.Kill(w.Pid(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus // every thread has stopped once the parent is told
	if _, err := unix.Wait4(w.Pid(), &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("waiting for the process to stop: %v, %v", status, err)
	}
	defer func() {
		if err := unix.Kill(w.Pid(), unix.SIGKILL); err != nil {
			t.Error(err)
		}
		if err := w.Wait(); err == nil {
			t.Error("the killed process ended without an error")
		}
	}()
	answer := make(chan error, 1)
	go func() { answer <- w.Block(t.Context(), []firewall.Entry{Entry("203.0.113.0/28", time.Hour)}) }()
	select {
	case err := <-answer:
		if !errors.Is(err, firewall.ErrGone) {
			t.Errorf("Block of a stalled wall: got %v, want ErrGone", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Block of a stalled wall: no answer within 10 s")
		return
	}
	began := time.Now()
	if err := w.Unblock(t.Context(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}); !errors.Is(err, firewall.ErrGone) {
		t.Errorf("the next order: got %v, want ErrGone", err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the next order took %s, want it refused at once", took)
	}
}
