package protect

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// hostOrder turns a number that the kernel printed in the machine's byte
// order into network order.
func hostOrder(b [4]byte) [4]byte {
	var n [4]byte
	binary.NativeEndian.PutUint32(n[:], binary.BigEndian.Uint32(b[:]))
	return n
}

// Offsets in a record of /run/utmp (utmp(5), glibc's bits/utmp.h on 64-bit
// Linux; the struct is the same on all of Debian's architectures).
const (
	utmpSize    = 384
	utmpPID     = 4
	utmpAddr    = 348
	userProcess = 7
)

// utmp lists the peers of logins that are still alive. Only root and group
// utmp can write the file, so being in it means being authenticated.
func (f Finder) utmp() (as []Addr) {
	b := f.read("run/utmp")
	for ; len(b) >= utmpSize; b = b[utmpSize:] {
		if int16(binary.NativeEndian.Uint16(b)) != userProcess {
			continue
		}
		if !f.alive(int32(binary.NativeEndian.Uint32(b[utmpPID:]))) {
			continue
		}
		if a, ok := utmpPeer(b[utmpAddr : utmpAddr+16]); ok {
			as = add(as, a, "ssh peer")
		}
	}
	return as
}

// utmpPeer reads ut_addr_v6: IPv4 stands in the first word, the rest zero.
func utmpPeer(b []byte) (netip.Addr, bool) {
	a := netip.AddrFrom16([16]byte(b))
	if a.IsUnspecified() {
		return a, false
	}
	if bytes.Equal(b[4:], make([]byte, 12)) {
		return netip.AddrFrom4([4]byte(b[:4])), true
	}
	return a, true
}

func (f Finder) alive(pid int32) bool {
	if f.Alive != nil {
		return f.Alive(pid)
	}
	return pid > 0 && syscall.Kill(int(pid), 0) != syscall.ESRCH
}

// sessions reads logind's own files, for systems whose utmp is gone and for
// sessions without a terminal. Logind makes one for each authenticated login
// (systemd's src/login/logind-session.c, session_save).
func (f Finder) sessions() (as []Addr) {
	dir := filepath.Join("/", f.Root, "run/systemd/sessions")
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".ref") {
			continue
		}
		if a, ok := sessionPeer(f.read(filepath.Join("run/systemd/sessions", n.Name()))); ok {
			as = add(as, a, "ssh peer")
		}
	}
	return as
}

func sessionPeer(b []byte) (netip.Addr, bool) {
	var a netip.Addr
	remote, live := false, false
	for line := range bytes.Lines(b) {
		k, v, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch k {
		case "REMOTE":
			remote = v == "1"
		case "STATE":
			live = v == "active" || v == "online"
		case "ACTIVE": // older versions write no STATE for background sessions
			live = live || v == "1"
		case "REMOTE_HOST":
			a, _ = netip.ParseAddr(strings.Trim(v, `"`))
		}
	}
	return a, remote && live && a.IsValid()
}
