package priv

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Capabilities that a Plan may keep (capabilities(7)).
const (
	NetAdmin      = unix.CAP_NET_ADMIN
	NetRaw        = unix.CAP_NET_RAW
	DACReadSearch = unix.CAP_DAC_READ_SEARCH
)

// Become replaces the running program by argv[0] with argv and env, as
// another user with no capability but p.Keep, no way to gain any by executing
// other programs (no_new_privs, prctl(2)), and with the descriptors keep left
// open. It returns only on error, and the process must then end: some rights
// may be gone already.
func Become(p Plan, path string, argv, env []string, keep []*os.File) error {
	// Credentials belong to threads. Only this one changes, and execve ends
	// all others, so no moment exists in which half of a program has rights.
	runtime.LockOSThread()
	for _, f := range keep {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keeping %s open: %w", f.Name(), err)
		}
	}
	if err := shed(p); err != nil {
		return err
	}
	err := syscall.Exec(path, argv, env)
	return fmt.Errorf("executing %s: %w", path, err)
}

// shed changes the calling thread's credentials to the plan's.
func shed(p Plan) error {
	steps := []struct {
		what string
		do   func() error
	}{
		{"keeping capabilities over setuid", func() error { return unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0) }},
		{"emptying the bounding set", func() error { return dropBounding(p.Keep) }},
		{"setting groups", func() error { return setIDs(p) }},
		{"setting capabilities", func() error { return setCaps(p.Keep) }},
		{"setting ambient capabilities", func() error { return setAmbient(p.Keep) }},
		{"setting no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// setIDs uses the raw calls: the syscall package's change every thread. A
// process that is that user already needs (and may have) no right to.
func setIDs(p Plan) error {
	if os.Geteuid() != 0 {
		return nil
	}
	gids := make([]uint32, len(p.Groups)+1)
	for i, g := range p.Groups {
		gids[i] = uint32(g)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(p.Groups)), uintptr(unsafe.Pointer(&gids[0])), 0); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(p.GID), uintptr(p.GID), uintptr(p.GID)); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(p.UID), uintptr(p.UID), uintptr(p.UID)); e != 0 {
		return e
	}
	return nil
}

func mask(caps []int) (m [2]uint32) {
	for _, c := range caps {
		m[c/32] |= 1 << (c % 32)
	}
	return m
}

func dropBounding(keep []int) error {
	m := mask(keep)
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if m[c/32]&(1<<(c%32)) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		// EPERM: without CAP_SETPCAP there is nothing above us to drop from.
		if err != nil && err != unix.EINVAL && err != unix.EPERM {
			return err
		}
	}
	return nil
}

func setCaps(keep []int) error {
	held, err := Held()
	if err != nil {
		return err
	}
	m := mask(keep)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		have := uint32(held >> (32 * i))
		if missing := m[i] &^ have; missing != 0 {
			return fmt.Errorf("capability bits %#x are missing", missing)
		}
		data[i] = unix.CapUserData{Effective: m[i], Permitted: m[i], Inheritable: m[i]}
	}
	return unix.Capset(&hdr, &data[0])
}

func setAmbient(keep []int) error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for _, c := range keep {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// Held returns the calling thread's permitted capabilities as bits.
func Held() (uint64, error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return 0, fmt.Errorf("reading capabilities: %w", err)
	}
	return uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32, nil
}

// DropAmbient empties the ambient set of every thread, so that programs this
// one starts hold no capability, whatever it holds itself. It fails in a
// program linked with cgo, which must then hold none.
func DropAmbient() error {
	held, err := Held()
	if err != nil || held == 0 {
		return err
	}
	_, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("clearing the ambient capabilities: %w", e)
	}
	return nil
}

// Names prints capability bits as capabilities(7) names them, for status.
func Names(bits uint64) string {
	if bits == 0 {
		return "none"
	}
	known := map[int]string{
		unix.CAP_NET_ADMIN: "CAP_NET_ADMIN", unix.CAP_NET_RAW: "CAP_NET_RAW",
		unix.CAP_DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH", unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE",
		unix.CAP_CHOWN: "CAP_CHOWN", unix.CAP_FOWNER: "CAP_FOWNER",
	}
	var names []string
	for c := 0; c < 64; c++ {
		if bits&(1<<c) == 0 {
			continue
		}
		if n := known[c]; n != "" {
			names = append(names, n)
		} else {
			names = append(names, fmt.Sprintf("capability %d", c))
		}
	}
	return strings.Join(names, ", ")
}
