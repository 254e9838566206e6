//go:build !linux

package control

import "net"

// peerOf cannot tell who is at the other end here; the socket's mode decided.
func peerOf(net.Conn) string { return "unknown" }
