// Package hostile runs real servers against a client that puts other programs'
// log lines, and whole records of the server itself, into every field that it
// controls. What stoplog then reads from the servers' logs must blame nobody
// but that client.
//
// The tests run in a network and a /dev, /var/log, /run and /tmp of their own:
// TestMain executes itself again in new namespaces.
package hostile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stoplog/internal/testkit"
)

// The addresses of the two sides. No sample names them.
const (
	serverAddr = "10.213.77.1"
	clientAddr = "10.213.77.9"
	// victimAddr is whom the client tries to have blamed by records of the
	// attacked program itself.
	victimAddr = "198.51.100.66"
)

// patience bounds every wait for a server.
const patience = 3 * time.Minute

// inside marks the process that runs in the namespaces.
const inside = "STOPLOG_HOSTILE_INSIDE"

// room prepares the namespaces: no file of the machine's logs or sockets can be
// reached from there.
const room = `set -e
mount --make-rprivate /
ip link set lo up
ip addr add ` + serverAddr + `/32 dev lo
ip addr add ` + clientAddr + `/32 dev lo
for d in /var/log /run /var/spool /var/cache; do mount -t tmpfs -o mode=755 tmpfs $d; done
D=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs $D
for n in "null c 1 3" "zero c 1 5" "random c 1 8" "urandom c 1 9" "tty c 5 0"; do mknod -m 666 $D/$n; done
mkdir $D/pts $D/shm; chmod 1777 $D/shm; mount --bind /dev/pts $D/pts; ln -s pts/ptmx $D/ptmx
ln -s /proc/self/fd $D/fd; ln -s /proc/self/fd/0 $D/stdin; ln -s /proc/self/fd/1 $D/stdout; ln -s /proc/self/fd/2 $D/stderr
mount --move $D /dev; rmdir $D
exec "$@"`

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	c := exec.Command("unshare", append([]string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", room, "sh"}, os.Args...)...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// need skips a test that cannot run here.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv(inside) == "" {
		testkit.Skip(t, "needs root")
	}
	testkit.Need(t, programs...)
}

// server is a program that runs until the test ends.
type server struct {
	cmd  *exec.Cmd
	said *os.File
	done chan struct{}
}

// start runs a program; what it prints goes to a file that failures show.
func start(t *testing.T, argv ...string) *server {
	t.Helper()
	said, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	return startInto(t, said, argv...)
}

// startInto is start with the program's output in a file of the caller's.
func startInto(t *testing.T, said *os.File, argv ...string) *server {
	t.Helper()
	s := &server{cmd: exec.Command(argv[0], argv[1:]...), said: said, done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = said, said
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() { s.stop(); said.Close() })
	return s
}

// stop ends the program and its children and waits for it.
func (s *server) stop() {
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(patience / 12):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
	}
}

// listening waits until the server accepts connections on the port.
func (s *server) listening(t *testing.T, port string) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var c net.Conn
		if c, err = dial(port); err == nil {
			c.Close()
			return
		}
		select {
		case <-s.done:
			t.Fatalf("%s ended:\n%s", s.cmd.Path, s.output())
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen on %s: %v\n%s", s.cmd.Path, port, err, s.output())
}

func (s *server) output() string {
	b, _ := os.ReadFile(s.said.Name())
	return string(b)
}

// must runs a program to its end.
func must(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// dir makes a directory that processes of any user can use.
func dir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// scratch is a directory of the test's that processes of other users reach.
func scratch(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "stoplog-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(d) })
	return dir(t, d)
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// dial connects as the client. The connection fails by itself when the server
// does not answer.
func dial(port string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientAddr)}, Timeout: patience}
	c, err := d.Dial("tcp", net.JoinHostPort(serverAddr, port))
	if err == nil {
		err = c.SetDeadline(time.Now().Add(patience))
	}
	return c, err
}

// answer bounds the wait for an answer to a text, which may be none that the
// server answers.
const answer = 2 * time.Second

// say sends each text and waits for some answer to it, until the server hangs
// up. A server that hangs up on hostile input does nothing wrong.
func say(port string, greeted bool, texts ...string) error {
	c, err := dial(port)
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 16<<10)
	if greeted {
		if _, err := c.Read(buf); err != nil {
			return nil
		}
	}
	for _, text := range texts {
		if _, err := io.WriteString(c, text); err != nil {
			return nil
		}
		if err := c.SetReadDeadline(time.Now().Add(answer)); err != nil {
			return err
		}
		if _, err := c.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
	}
	return nil
}
