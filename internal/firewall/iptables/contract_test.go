package iptables_test

import (
	"net"
	"path/filepath"
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
	"stoplog/internal/firewall/hostsdeny"
	"stoplog/internal/firewall/iptables"
	"stoplog/internal/firewall/wallproc"
)

func TestIPTablesFake(t *testing.T) {
	var dump func() string
	var flush func()
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		var w *iptables.Wall
		w, dump, flush = iptables.Fake(firewall.Options{MaxRules: 12})
		return w
	}, firewalltest.Caps{
		Max:    12,
		Others: func(*testing.T) string { return dump() },
		Break:  func(*testing.T) { flush() },
	})
}

// TestWall runs the contract through the socket.
func TestWall(t *testing.T) {
	var dump func() string
	var flush func()
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		var w *iptables.Wall
		w, dump, flush = iptables.Fake(firewall.Options{MaxRules: 12})
		ours, theirs := net.Pipe()
		done := make(chan error)
		go func() { done <- wallproc.Serve(t.Context(), theirs, nil, w, wallproc.Limits{}) }()
		c := wallproc.NewClient(ours, nil)
		t.Cleanup(func() {
			c.Close()
			<-done
		})
		return c
	}, firewalltest.Caps{
		Max:    12,
		Others: func(*testing.T) string { return dump() },
		Break:  func(*testing.T) { flush() },
	})
}

func TestMulti(t *testing.T) {
	firewalltest.Run(t, func(t *testing.T) firewall.Backend {
		w, _, _ := iptables.Fake(firewall.Options{})
		d := firewalltest.Must(hostsdeny.New(firewall.Options{HostsDeny: filepath.Join(t.TempDir(), "hosts.deny")}))(t)
		return firewall.Multi{d, w, firewall.NewDryRun()}
	}, firewalltest.Caps{})
}
