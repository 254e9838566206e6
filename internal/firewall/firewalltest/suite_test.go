//go:build linux

package firewalltest_test

import (
	"testing"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/firewalltest"
)

func TestDryRun(t *testing.T) {
	firewalltest.Run(t, func(*testing.T) firewall.Backend { return firewall.NewDryRun() }, firewalltest.Caps{})
}
