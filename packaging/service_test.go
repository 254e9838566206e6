package packaging

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait. It is long, because nothing is gained by giving
// up early on a busy machine: a program that ends is noticed at once.
const patience = 3 * time.Minute

// service is the program under a service manager, which receives its states and
// keeps its output. When a wait fails, the test prints both, the goroutines of
// both processes and the end of the trace.
type service struct {
	t      *testing.T
	cmd    *exec.Cmd
	output string      // file with standard output and standard error
	trace  string      // strace's file; "": cmd is the program itself
	told   chan string // states
	heard  []string    // states received so far
	ended  chan struct{}
	err    error // how it ended, once ended is closed
}

// launch starts c, which finds the socket at path notify.
func launch(t *testing.T, c *exec.Cmd, notify string) *service {
	t.Helper()
	os.Remove(notify) // of an earlier run
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(notify, 0o777); err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, cmd: c, output: filepath.Join(t.TempDir(), "output"), told: make(chan string), ended: make(chan struct{})}
	f, err := os.Create(s.output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go s.listen(conn, over)
	go func() { s.err = c.Wait(); close(s.ended) }()
	t.Cleanup(func() {
		for _, pid := range s.processes() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		<-s.ended
		close(over)
		conn.Close()
		if t.Failed() {
			t.Logf("output:\n%s", s.said())
		}
	})
	return s
}

// listen reads without waiting for the test, as the socket's queue is short and
// the program waits when it is full.
func (s *service) listen(conn *net.UnixConn, over <-chan struct{}) {
	states, buf := make(chan string), make([]byte, 4096)
	go func() {
		defer close(states)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			states <- string(buf[:n])
		}
	}()
	var queue []string
	for {
		var out chan string
		var next string
		if len(queue) > 0 {
			out, next = s.told, queue[0]
		}
		select {
		case st, ok := <-states:
			if !ok {
				return
			}
			queue = append(queue, st)
		case out <- next:
			queue = queue[1:]
		case <-over:
			for range states {
			}
			return
		}
	}
}

// said is the output so far.
func (s *service) said() string {
	b, _ := os.ReadFile(s.output)
	return string(b)
}

// processes are the program's, the one that reads logs first; none once it ended.
func (s *service) processes() (pids []int) {
	select {
	case <-s.ended:
		return nil
	default:
	}
	pid := s.cmd.Process.Pid
	if s.trace != "" { // strace is the parent
		pids = children(pid)
	} else {
		pids = []int{pid}
	}
	for _, p := range pids {
		pids = append(pids, children(p)...)
	}
	return pids
}

// children are a process's child processes.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, f := range strings.Fields(string(b)) {
			if p, err := strconv.Atoi(f); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}

// await waits for a state that contains want.
func (s *service) await(want string) {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case st := <-s.told:
			if s.heard = append(s.heard, st); strings.Contains(st, want) {
				return
			}
		case <-s.ended:
			s.fail("it ended (%v) before it sent %s", s.err, want)
		case <-deadline:
			s.fail("no %s within %s", want, patience)
		}
	}
}

// end waits until it ends, and returns its output and how it ended.
func (s *service) end() (string, error) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.fail("it did not end within %s", patience)
	}
	return s.said(), s.err
}

// stop ends it as a service manager does, and returns its output.
func (s *service) stop() string {
	s.t.Helper()
	pids := s.processes()
	if len(pids) == 0 {
		s.fail("it ended (%v) before it was stopped", s.err)
	}
	if err := syscall.Kill(pids[0], syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	said, err := s.end()
	if err != nil {
		s.t.Errorf("the end: %v\n%s", err, said)
	}
	return said
}

// fail ends the test with what was seen. The output, which the cleanup prints,
// then has the goroutines of both processes.
func (s *service) fail(format string, args ...any) {
	s.t.Helper()
	pids := s.processes()
	for i := len(pids) - 1; i >= 0; i-- { // the wall first: it ends with the other
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[i]))
		s.t.Logf("process %d:\n%s", pids[i], b)
		syscall.Kill(pids[i], syscall.SIGQUIT)
	}
	if len(pids) > 0 {
		select {
		case <-s.ended:
		case <-time.After(patience / 6):
			s.t.Log("SIGQUIT did not end it")
		}
	}
	if s.trace != "" {
		b, _ := os.ReadFile(s.trace)
		lines := bytes.Split(b, []byte("\n"))
		s.t.Logf("the trace has %d lines; the last:\n%s", len(lines), bytes.Join(lines[max(0, len(lines)-200):], []byte("\n")))
	}
	s.t.Fatalf(format+"; states so far: %q", append(args, s.heard)...)
}
