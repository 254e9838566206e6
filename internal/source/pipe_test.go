package source

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	r := startSet(t, Options{MaxLine: 1000}, Spec{Pipe: path})
	if st := r.state(path, Waiting); !strings.Contains(st.Why, "no such file") {
		t.Errorf("got %q, want the cause", st.Why)
	}
	must(t, unix.Mkfifo(path, 0o600))
	for _, text := range []string{"one\ntwo\n", "three\n" + strings.Repeat("x", 200_000) + "\nfour\n"} {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(t, err)
		_, err = w.WriteString(text)
		must(t, err)
		w.Close()
	}
	r.wantTexts("one", "two", "three", strings.Repeat("x", 1000), "four")
	r.state(path, Following)
}

func TestPipeThatIsNone(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "file"), "")
	r := startSet(t, Options{}, Spec{Pipe: path})
	if st := r.state(path, Waiting); !strings.Contains(st.Why, "not a named pipe") {
		t.Errorf("got %q", st.Why)
	}
}

// Standard input is the test's own, so it is read by its descriptor.
func TestStandardInput(t *testing.T) {
	in, w, err := os.Pipe()
	must(t, err)
	old, err := unix.Dup(0)
	must(t, err)
	must(t, unix.Dup2(int(in.Fd()), 0))
	defer func() { must(t, unix.Dup2(old, 0)) }()

	r := startSet(t, Options{}, Spec{Stdin: true, Service: "sshd"})
	_, err = w.WriteString("one\nhalf")
	must(t, err)
	r.wantTexts("one")
	_, err = w.WriteString(" and half\nlast without a newline")
	must(t, err)
	w.Close()
	in.Close()
	// When its only source has ended, so has the Set.
	if err := <-r.done; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.done <- nil
	r.wantTexts("one", "half and half", "last without a newline")
	if st := r.Status(); len(st) != 1 || st[0].State != Ended {
		t.Errorf("got status %+v, want ended", st)
	}
}

func TestStandardInputIsLeftWhenAskedTo(t *testing.T) {
	in, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	old, err := unix.Dup(0)
	must(t, err)
	must(t, unix.Dup2(int(in.Fd()), 0))
	defer func() { must(t, unix.Dup2(old, 0)) }()
	r := startSet(t, Options{}, Spec{Stdin: true})
	r.state("stdin", Following)
	r.stop() // though nothing comes and nothing ends
}

// Without the right to write to it, a pipe ends with its last writer. Closed
// then, it would lose what the next one writes, or turn it away.
func TestPipeIsKeptOpenBetweenItsWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	defer unix.Close(fd)
	set, err := New(nil, Options{})
	must(t, err)
	out := make(chan *Batch, 1)
	st := &stream{name: path, set: set, out: out}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, ended := make(chan bool, 1), make(chan error, 1)
	go func() {
		ended <- st.readFD(ctx, fd, false, func() bool {
			select {
			case asked <- true:
			default:
			}
			return true
		})
	}()
	for _, tt := range []struct{ text, want string }{{"one\nhalf a ", "one"}, {"line\n", "half a line"}} {
		w, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0)
		must(t, err)
		_, err = w.WriteString(tt.text)
		must(t, err)
		b := <-out
		if got := string(b.Lines[0].Text); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		b.Release()
		w.Close()
		select {
		case <-asked:
		case err := <-ended:
			t.Fatalf("without a writer it is given up: %v", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
