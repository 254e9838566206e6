//go:build linux

package wallproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
)

// Messages and sizes of the socket monitor (sock_diag(7), linux/inet_diag.h).
const (
	sockDiagByFamily = 20
	sockDestroy      = 21
	diagReqLen       = 56 // struct inet_diag_req_v2
	diagIDAt         = 8  // of the socket's id in it
	diagIDLen        = 48
	diagMsgIDAt      = 4 // of the id in struct inet_diag_msg
	stateListen      = 10
	stateTimeWait    = 6
)

// CutConnections ends the running TCP connections that came to this machine
// from the entries' prefixes, to their ports: both ends see them aborted.
// Connections that we opened, those of allowed sources, and other entries than
// those with Cut set are left alone. It returns how many it ended.
//
// Sockets are destroyed rather than conntrack's entries deleted: the next
// packet of a connection whose entry is gone makes a new one, in whose eyes we
// opened it if that packet was ours, and so the blocked side's packets would
// pass as replies.
func CutConnections(ctx context.Context, es []firewall.Entry, allow []netip.Prefix) (int, error) {
	es = slices.DeleteFunc(slices.Clone(es), func(e firewall.Entry) bool { return !e.Cut })
	if len(es) == 0 {
		return 0, nil
	}
	c, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return 0, fmt.Errorf("cutting connections: %w", err)
	}
	defer c.Close()
	n := 0
	for _, fam := range []byte{unix.AF_INET, unix.AF_INET6} {
		if err := ctx.Err(); err != nil {
			return n, fmt.Errorf("cutting connections: %w", err)
		}
		socks, err := tcpSockets(c, fam)
		if err != nil {
			return n, fmt.Errorf("cutting connections: listing sockets: %w", err)
		}
		for _, s := range toCut(socks, es, allow) {
			err := destroy(c, fam, s)
			switch {
			case err == nil:
				n++
			case errors.Is(err, unix.ENOENT): // it ended by itself meanwhile
			case errors.Is(err, unix.EOPNOTSUPP):
				return n, fmt.Errorf("cutting connections: this kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)")
			default:
				return n, fmt.Errorf("cutting connections: %w", err)
			}
		}
	}
	return n, nil
}

// tcpSocket is one line of the kernel's list.
type tcpSocket struct {
	id        [diagIDLen]byte
	listening bool
	localPort uint16
	remote    netip.Addr
}

// tcpSockets lists the sockets of one family, in every state but the dying.
func tcpSockets(c *netlink.Conn, fam byte) ([]tcpSocket, error) {
	req := make([]byte, diagReqLen)
	req[0], req[1] = fam, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(req[4:], ^uint32(1<<stateTimeWait))
	msgs, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump}, Data: req,
	})
	if err != nil {
		return nil, err
	}
	var socks []tcpSocket
	for _, m := range msgs {
		if s, ok := parseSocket(m.Data); ok {
			socks = append(socks, s)
		}
	}
	return socks, nil
}

// parseSocket reads a struct inet_diag_msg.
func parseSocket(b []byte) (tcpSocket, bool) {
	if len(b) < diagMsgIDAt+diagIDLen {
		return tcpSocket{}, false
	}
	s := tcpSocket{id: [diagIDLen]byte(b[diagMsgIDAt:]), listening: b[1] == stateListen}
	s.localPort = binary.BigEndian.Uint16(s.id[:])
	switch b[0] {
	case unix.AF_INET:
		s.remote = netip.AddrFrom4([4]byte(s.id[20:]))
	case unix.AF_INET6: // also of IPv4, mapped
		s.remote = netip.AddrFrom16([16]byte(s.id[20:])).Unmap()
	default:
		return tcpSocket{}, false
	}
	return s, true
}

// toCut chooses. A connection came in if something listens on its local port.
func toCut(socks []tcpSocket, es []firewall.Entry, allow []netip.Prefix) []tcpSocket {
	served := map[uint16]bool{}
	for _, s := range socks {
		if s.listening {
			served[s.localPort] = true
		}
	}
	var cut []tcpSocket
	for _, s := range socks {
		client := addr.Of(s.remote)
		from := func(p netip.Prefix) bool { return p.Contains(s.remote) || p.Contains(client) }
		if s.listening || !served[s.localPort] || slices.ContainsFunc(allow, from) {
			continue
		}
		if slices.ContainsFunc(es, func(e firewall.Entry) bool { return from(e.Prefix) && concerns(e.Ports, s.localPort) }) {
			cut = append(cut, s)
		}
	}
	return cut
}

// concerns reports whether an entry's ports include a TCP port.
func concerns(ps []firewall.Ports, port uint16) bool {
	return len(ps) == 0 || slices.ContainsFunc(ps, func(p firewall.Ports) bool {
		return p.Proto != "udp" && p.From <= port && port <= p.To
	})
}

func destroy(c *netlink.Conn, fam byte, s tcpSocket) error {
	req := make([]byte, diagReqLen)
	req[0], req[1] = fam, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0))
	copy(req[diagIDAt:], s.id[:])
	_, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDestroy, Flags: netlink.Request | netlink.Acknowledge}, Data: req,
	})
	return err
}
