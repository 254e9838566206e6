//go:build linux

package firewalltest

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

// must turns a constructor's answer into a value or the end of the test.
func Must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// benchmarkEntries makes n blocks of single addresses.
func BenchmarkEntries(n int, at byte) []firewall.Entry {
	es := make([]firewall.Entry, n)
	for i := range es {
		a := netip.AddrFrom4([4]byte{at, byte(i >> 12), byte(i >> 4), byte(i << 4)})
		es[i] = firewall.Entry{Prefix: netip.PrefixFrom(a, 28), Until: time.Now().Add(24 * time.Hour)}
	}
	return es
}

// list is what a wall holds, sorted.
func List(t *testing.T, w firewall.Backend) (out []string) {
	t.Helper()
	es, err := firewall.ListAll(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		out = append(out, e.Prefix.String())
	}
	slices.Sort(out)
	return out
}
