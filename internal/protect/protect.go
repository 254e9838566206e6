// Package protect finds the addresses that must never be blocked whatever
// they do: the machine's own, its gateways and resolvers, and the peers of
// people who are logged in over SSH now. It reads the kernel's and the
// system's own files and nothing that an outsider writes.
package protect

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Addr is one protected address and why.
type Addr struct {
	Addr netip.Addr
	Why  string // "own", "gateway", "resolver", "ssh peer"
}

// loopback4 is all this machine, whatever address of it is used (RFC 1122
// section 3.2.1.3): local resolvers and proxies have their own.
var loopback4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)

// Prefix is what is protected with the address: itself, or all of loopback.
func (a Addr) Prefix() netip.Prefix {
	if loopback4.Contains(a.Addr) {
		return loopback4
	}
	return netip.PrefixFrom(a.Addr, a.Addr.BitLen())
}

// Finder knows where to look; the zero value looks at the running system.
type Finder struct {
	// Root is put before every path, for tests.
	Root string
	// Interfaces lists the machine's own addresses; nil asks the kernel.
	Interfaces func() ([]net.Addr, error)
	// Alive reports whether a process id exists; nil asks the kernel.
	Alive func(pid int32) bool
}

// maxFile bounds what is read of any one file.
const maxFile = 1 << 20

// Find returns all protected addresses, each once, sorted. What cannot be
// read is left out: a machine without IPv6 or utmp has no such file.
func (f Finder) Find(own, peers bool) []Addr {
	var as []Addr
	if own {
		as = append(as, f.own()...)
		as = append(as, f.gateways4()...)
		as = append(as, f.gateways6()...)
		as = append(as, f.resolvers()...)
	}
	if peers {
		as = append(as, f.utmp()...)
		as = append(as, f.sessions()...)
	}
	slices.SortFunc(as, func(a, b Addr) int {
		if c := a.Addr.Compare(b.Addr); c != 0 {
			return c
		}
		return strings.Compare(a.Why, b.Why)
	})
	return slices.CompactFunc(as, func(a, b Addr) bool { return a.Addr == b.Addr })
}

func (f Finder) read(path string) []byte {
	file, err := os.Open(filepath.Join("/", f.Root, path))
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil
	}
	return b
}

// add keeps addresses that could be the source of a packet from elsewhere.
func add(as []Addr, a netip.Addr, why string) []Addr {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() {
		return as
	}
	return append(as, Addr{a, why})
}

func (f Finder) own() []Addr {
	list := f.Interfaces
	if list == nil {
		list = net.InterfaceAddrs
	}
	nets, err := list()
	if err != nil {
		return nil
	}
	as := []Addr{{netip.AddrFrom4([4]byte{127, 0, 0, 1}), "own"}, {netip.IPv6Loopback(), "own"}}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			as = add(as, p.Addr(), "own")
		}
	}
	return as
}

// gateways4 reads /proc/net/route (proc_pid_net(5)): the third column is the
// gateway as a hexadecimal number in the machine's byte order.
func (f Finder) gateways4() (as []Addr) {
	for line := range bytes.Lines(f.read("proc/net/route")) {
		w := bytes.Fields(line)
		if len(w) < 3 || len(w[2]) != 8 {
			continue
		}
		var b [4]byte
		if _, err := hex.Decode(b[:], w[2]); err == nil {
			as = add(as, netip.AddrFrom4(hostOrder(b)), "gateway")
		}
	}
	return as
}

// gateways6 reads /proc/net/ipv6_route: the fifth column is the next hop.
func (f Finder) gateways6() (as []Addr) {
	for line := range bytes.Lines(f.read("proc/net/ipv6_route")) {
		w := bytes.Fields(line)
		if len(w) < 5 || len(w[4]) != 32 {
			continue
		}
		var b [16]byte
		if _, err := hex.Decode(b[:], w[4]); err == nil {
			as = add(as, netip.AddrFrom16(b), "gateway")
		}
	}
	return as
}

// resolvers reads resolv.conf(5).
func (f Finder) resolvers() (as []Addr) {
	s := bufio.NewScanner(bytes.NewReader(f.read("etc/resolv.conf")))
	for s.Scan() {
		w := strings.Fields(s.Text())
		if len(w) < 2 || w[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(w[1]); err == nil {
			as = add(as, a, "resolver")
		}
	}
	return as
}
