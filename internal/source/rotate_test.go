package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rotation is one way that a log is rotated. It is called with lines in the
// file, writes more as it likes, and leaves the writer open.
type rotation struct {
	name string
	run  func(t *testing.T, c *counter, w *os.File, path string, i int, r *running) *os.File
}

var rotations = []rotation{
	{"rename and create", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		w.Close()
		return openAppend(t, path)
	}},
	{"late writer", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, i)))
		n := openAppend(t, path)
		for range 5 { // two processes, of which one did not notice yet
			c.write(w, 3)
			pause(4)
			c.write(n, 1)
		}
		w.Close()
		return n
	}},
	{"delete and create", func(t *testing.T, c *counter, w *os.File, path string, _ int, _ *running) *os.File {
		must(t, os.Remove(path))
		c.write(w, 3)
		w.Close()
		return openAppend(t, path)
	}},
	{"shifted numbers", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		for n := min(i, 9); n > 0; n-- {
			_ = os.Rename(fmt.Sprintf("%s.%d", path, n), fmt.Sprintf("%s.%d", path, n+1))
		}
		must(t, os.Rename(path, path+".1"))
		c.write(w, 1)
		w.Close()
		return openAppend(t, path)
	}},
	{"two at once", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		for n := range 2 { // nobody can look in between
			must(t, os.Rename(path, fmt.Sprintf("%s.%d", path, 2*i+n)))
			w.Close()
			w = openAppend(t, path)
			c.write(w, 2)
		}
		return w
	}},
	{"copytruncate", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		copyFile(t, path, fmt.Sprintf("%s.%d", path, i))
		must(t, os.Truncate(path, 0))
		return w
	}},
	{"truncate and grow past", func(t *testing.T, c *counter, w *os.File, path string, _ int, r *running) *os.File {
		r.until("all lines", func() bool { return len(r.lines) == c.next })
		info, err := w.Stat()
		must(t, err)
		must(t, os.Truncate(path, 0))
		for grown := int64(0); grown <= info.Size(); {
			text := c.line()
			grown += int64(len(text))
			_, err := w.WriteString(text)
			must(t, err)
		}
		return w
	}},
	{"truncate without append", func(t *testing.T, c *counter, w *os.File, path string, i int, r *running) *os.File {
		if i == 0 {
			w.Close()
			var err error
			w, err = os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = w.Seek(0, io.SeekEnd)
			must(t, err)
		}
		r.until("all lines", func() bool { return len(r.lines) == c.next })
		must(t, os.Truncate(path, 0))
		return w
	}},
	{"symlink switched", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		target := filepath.Join(filepath.Dir(path), fmt.Sprintf("real-%d-of-it", i))
		n := openAppend(t, target)
		must(t, os.Symlink(target, path+".new"))
		must(t, os.Rename(path+".new", path))
		c.write(w, 2)
		w.Close()
		return n
	}},
	{"directory swapped", func(t *testing.T, c *counter, w *os.File, path string, i int, _ *running) *os.File {
		dir := filepath.Dir(path)
		must(t, os.Rename(dir, fmt.Sprintf("%s-%d", dir, i)))
		must(t, os.Mkdir(dir, 0o755))
		c.write(w, 2)
		w.Close()
		return openAppend(t, path)
	}},
}

// leavesNoName reports that after the rotation nothing by the log's name leads
// to the file: one that comes and goes before it was opened once is lost.
func (rot rotation) leavesNoName() bool {
	return rot.name == "delete and create" || rot.name == "symlink switched" || rot.name == "directory swapped"
}

func pause(maxMs int) { time.Sleep(time.Duration(rand.IntN(maxMs*1000)) * time.Microsecond) }

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o644))
}

func TestNoLineIsLostOrDoubledByRotation(t *testing.T) {
	for _, rot := range rotations {
		t.Run(rot.name, func(t *testing.T) {
			t.Parallel()
			testRotation(t, rot, Options{})
		})
	}
}

func TestNoLineIsLostOrDoubledWhenPolling(t *testing.T) {
	for _, rot := range rotations {
		t.Run(rot.name, func(t *testing.T) {
			t.Parallel()
			testRotation(t, rot, Options{NoInotify: true, Poll: 5 * time.Millisecond})
		})
	}
}

func testRotation(t *testing.T, rot rotation, o Options) {
	dir := filepath.Join(t.TempDir(), "log")
	must(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "app.log")
	w := openAppend(t, path)
	c := &counter{t: t}
	r := startSet(t, o, Spec{File: path})
	r.caughtUp()
	for i := range rounds() {
		c.write(w, 5)
		pause(10)
		if rot.leavesNoName() {
			r.until("the file to be open", func() bool { return len(r.lines) == c.next })
		}
		w = rot.run(t, c, w, path, i, r)
		c.write(w, 5)
		pause(10)
	}
	c.check(r)
}

// daemon is a real program that writes a log, and how it is told to open it
// again.
type daemon struct {
	name, program string
	// start starts it, writing to log, and returns what makes it write a line
	// with a number, and the file with its process's number.
	start func(t *testing.T, program, dir, log string) (write func(n int), pidFile string)
	// signal is what logrotate's postrotate sends.
	signal string
}

var daemons = []daemon{
	{"nginx", "nginx", startNginx, "USR1"},
	{"rsyslogd", "rsyslogd", startRsyslog, "HUP"},
}

// ways are logrotate's ways to rotate.
var ways = []struct{ name, options string }{
	{"create", "create"},
	{"compress", "create\ncompress"},
	{"dateext", "create\ndateext\ndateformat -%Y%m%d-%s"},
	{"nocreate and delaycompress", "nocreate\ncompress\ndelaycompress"},
	{"copytruncate", "copytruncate"},
}

func TestLogrotate(t *testing.T) {
	logrotate := need(t, "logrotate")
	if os.Getuid() != 0 {
		unmet(t, "only root can run the daemons")
	}
	for _, d := range daemons {
		for _, way := range ways {
			t.Run(d.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				dir := openDir(t)
				log := filepath.Join(dir, "logs", "daemon.log")
				must(t, os.Mkdir(filepath.Dir(log), 0o755))
				write, pidFile := d.start(t, need(t, d.program), dir, log)
				r := startSet(t, Options{}, Spec{File: log})
				r.caughtUp()
				rotate := rotator(t, logrotate, dir, log, pidFile, way.options, d.signal)
				n := 0
				for i := range max(4, rounds()/5) {
					for range 25 {
						n++
						write(n)
					}
					if way.name != "create" {
						// What is written between copy and truncate is lost by
						// design, and so is what a late writer adds to a file that
						// was packed and deleted before anybody opened it
						// (logrotate.conf(5), delaycompress); and rotating twice in
						// a second, logrotate moves what bears that second's name
						// over its last backup.
						r.until(fmt.Sprintf("%d lines", n), func() bool { return len(r.lines) >= n })
					}
					rotate(i)
				}
				r.until(fmt.Sprintf("%d lines", n), func() bool { return len(r.lines) >= n })
				checkNumbers(t, r.texts(), n)
			})
		}
	}
}

var numberPattern = regexp.MustCompile(`number-(\d+)-`)

func checkNumbers(t *testing.T, texts []string, n int) {
	t.Helper()
	seen := map[int]int{}
	for _, text := range texts {
		if m := numberPattern.FindStringSubmatch(text); m != nil {
			i, _ := strconv.Atoi(m[1])
			seen[i]++
		}
	}
	for i := 1; i <= n; i++ {
		if seen[i] != 1 {
			t.Errorf("line %d of %d came %d times", i, n, seen[i])
		}
	}
}

// rotator returns what rotates the log by logrotate.
func rotator(t *testing.T, logrotate, dir, log, pidFile, options, signal string) func(int) {
	conf := filepath.Join(dir, "logrotate.conf")
	post := fmt.Sprintf("postrotate\nkill -%s $(cat %s)\nendscript\n", signal, pidFile)
	if strings.Contains(options, "copytruncate") {
		post = ""
	}
	writeFile(t, conf, fmt.Sprintf("%s {\nmissingok\nrotate 99\nsu root root\n%s\n%s}\n", log, options, post))
	return func(i int) {
		out, err := exec.Command(logrotate, "--force", "--state", filepath.Join(dir, "state"), conf).CombinedOutput()
		if err != nil && !bytes.Contains(out, []byte("already exists")) {
			t.Fatalf("logrotate: %v: %s", err, out)
		}
	}
}

func startDaemon(t *testing.T, pidFile string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if data, err := os.ReadFile(pidFile); err == nil && len(bytes.TrimSpace(data)) > 0 {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("%s ended: %v: %s", argv[0], err, out.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not start: %s", argv[0], out.String())
		}
	}
}

func startNginx(t *testing.T, program, dir, log string) (func(int), string) {
	pid, socket := filepath.Join(dir, "nginx.pid"), filepath.Join(dir, "http")
	conf := writeFile(t, filepath.Join(dir, "nginx.conf"), fmt.Sprintf(`
daemon off; worker_processes 2; pid %s; error_log %s/error.log;
events { worker_connections 64; }
http { access_log %s combined; server { listen unix:%s; return 200 ok; } }
`, pid, dir, log, socket))
	startDaemon(t, pid, program, "-e", filepath.Join(dir, "error.log"), "-p", dir, "-c", conf)
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	return func(n int) {
		resp, err := client.Get(fmt.Sprintf("http://test/number-%d-", n))
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}, pid
}

func startRsyslog(t *testing.T, program, dir, log string) (func(int), string) {
	pid, socket := filepath.Join(dir, "rsyslog.pid"), filepath.Join(dir, "log.sock")
	conf := writeFile(t, filepath.Join(dir, "rsyslog.conf"), fmt.Sprintf(`
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="%s" RateLimit.Interval="0")
global(workDirectory="%s")
*.* action(type="omfile" file="%s")
`, socket, dir, log))
	startDaemon(t, pid, program, "-n", "-i", pid, "-f", conf)
	var conn net.Conn
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var err error
		if conn, err = net.Dial("unixgram", socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { conn.Close() })
	return func(n int) {
		_, err := fmt.Fprintf(conn, "<38>Nov 20 10:00:00 sshd[1]: number-%d-", n)
		must(t, err)
	}, pid
}
