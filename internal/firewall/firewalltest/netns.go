//go:build linux

package firewalltest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// RequireEnv turns every skipped kernel test into a failure.
const RequireEnv = "STOPLOG_REQUIRE_KERNEL_TESTS"

// SkipKernel skips a test that this machine cannot run, saying why; where
// kernel tests are required, that is a failure.
func SkipKernel(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("%s, and %s=1", why, RequireEnv)
	}
	t.Skip(why)
}

// NeedPrograms skips without them.
func NeedPrograms(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			SkipKernel(t, "needs the program "+n)
		}
	}
}

// Namespace moves the calling goroutine into an empty network namespace of
// its own, with lo up, for the rest of its life; programs and sockets that it
// starts are in there too. Needs root.
func Namespace(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		SkipKernel(t, "needs root for a network namespace")
	}
	NeedPrograms(t, "ip")
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		SkipKernel(t, "needs a network namespace: "+err.Error())
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("lo up: %v: %s", err, out)
	}
}

const insideEnv = "STOPLOG_TEST_IN_NAMESPACE"

// InNamespace is for tests that start threads or processes of their own: it
// runs the test once more, in a process whose network namespace is its own,
// and reports whether this is that process. Needs root.
func InNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		SkipKernel(t, "needs root for a network namespace")
	}
	NeedPrograms(t, "ip", "unshare")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-n", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", self, "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in a namespace of its own: %v\n%s", err, out)
	}
	return false
}

// Host is another machine: a goroutine in a network namespace of its own.
type Host struct {
	do   chan func()
	done chan struct{}
	pid  string // of its thread
}

// NewHost makes a machine that is linked to the calling goroutine's
// namespace: device dev here with the address gateway, eth0 there with addr,
// both in a network of the given length, and routes to everywhere by us.
func NewHost(t *testing.T, dev, addr, gateway, bits string) *Host {
	t.Helper()
	h := &Host{do: make(chan func()), done: make(chan struct{})}
	ready := make(chan bool)
	go func() {
		defer close(h.done)
		runtime.LockOSThread()
		ok := unix.Unshare(unix.CLONE_NEWNET) == nil
		h.pid = strconv.Itoa(unix.Gettid())
		ready <- ok
		for f := range h.do {
			f()
		}
	}()
	t.Cleanup(func() { close(h.do); <-h.done })
	if !<-ready {
		SkipKernel(t, "needs a network namespace")
	}
	Output(t, "ip", "link", "add", dev, "type", "veth", "peer", "name", "eth0", "netns", "/proc/"+strconv.Itoa(os.Getpid())+"/task/"+h.pid+"/ns/net")
	Output(t, "ip", "addr", "add", gateway+"/"+bits, "dev", dev)
	Output(t, "ip", "link", "set", dev, "up")
	h.In(func() {
		Output(t, "ip", "addr", "add", addr+"/"+bits, "dev", "eth0")
		Output(t, "ip", "link", "set", "eth0", "up")
		Output(t, "ip", "route", "add", "default", "via", gateway)
	})
	return h
}

// In runs f on that machine and waits for it. If f ends the test, so do the
// later calls, at once.
func (h *Host) In(f func()) {
	ran := make(chan struct{})
	select {
	case h.do <- func() { defer close(ran); f() }:
		<-ran
	case <-h.done:
	}
}
