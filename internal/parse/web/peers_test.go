package web

import (
	"net/netip"
	"testing"
)

func addrN(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)})
}

func TestPeerCountSuspectsAProxy(t *testing.T) {
	var c PeerCount
	proxy := netip.MustParseAddr("10.0.0.1")
	for i := range 5000 {
		if i%20 == 0 {
			c.Add(addrN(i))
		} else {
			c.Add(proxy)
		}
		if _, _, ok := c.Suspect(); ok && i+1 < peerEnough {
			t.Fatalf("suspected after %d requests", i+1)
		}
	}
	addr, share, ok := c.Suspect()
	if !ok || addr != proxy || share < 0.9 || share > 0.96 {
		t.Errorf("got %v %.3f %v, want %v about 0.95 true", addr, share, ok, proxy)
	}
}

func TestPeerCountLeavesTheBusyAlone(t *testing.T) {
	var c PeerCount
	for i := range 20000 {
		if i%10 < 8 { // four fifths are a large office's
			c.Add(netip.MustParseAddr("10.0.0.1"))
		} else {
			c.Add(addrN(i))
		}
	}
	if addr, share, ok := c.Suspect(); ok {
		t.Errorf("suspected %v with %.2f", addr, share)
	}
}

func TestPeerCountForgets(t *testing.T) {
	var c PeerCount
	for i := range 10 * peerHorizon {
		c.Add(addrN(i)) // years without a proxy
	}
	proxy := netip.MustParseAddr("10.0.0.1")
	for range 20 * peerHorizon {
		c.Add(proxy)
	}
	if addr, _, ok := c.Suspect(); !ok || addr != proxy {
		t.Errorf("got %v %v, want %v", addr, ok, proxy)
	}
}
