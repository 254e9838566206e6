package registry

import (
	"testing"

	"stoplog/internal/firewall"
)

func TestWallsThatLockDown(t *testing.T) {
	for name, want := range map[string]bool{
		"nftables": true, "ipset": true, "iptables": true,
		"hosts.deny": false, "set-only": false, "exec": false, "none": false,
	} {
		if got := firewall.LocksDown(name); got != want {
			t.Errorf("%s: locks down: got %v, want %v", name, got, want)
		}
	}
}
