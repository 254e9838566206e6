package detect

import (
	"net/netip"
	"testing"
	"time"
)

// TestOneClientOneBucket: failures by all the addresses of an IPv4 client fill
// one bucket, and those of two clients of one translator fill two.
func TestOneClientOneBucket(t *testing.T) {
	set := load(t, "use: []\nsources: [auth]\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 3, leak: 1h}\n")
	e, g := New(set, Options{Seed: 1}), newGate()
	forms := []string{"192.0.2.1", "64:ff9b::c000:201", "2002:c000:201:5::7", "2001:0:4136:e378:8000:63bf:3fff:fdfe"}
	for i, a := range forms {
		bs := feed(e, g, failure(after(time.Duration(i)*time.Second), "sshd", "ann", a))
		if (len(bs) == 1) != (i == 3) {
			t.Fatalf("failure %d, from %s: %d breaches", i+1, a, len(bs))
		}
		if i == 3 && bs[0].Prefix != netip.MustParsePrefix("192.0.2.0/28") {
			t.Errorf("blocks %s", bs[0].Prefix)
		}
	}
	for _, a := range forms {
		if ls := e.Levels(netip.MustParseAddr(a), after(4*time.Second)); len(ls) != 1 || ls[0].Level != 4 || ls[0].Key != "192.0.2.0/28" {
			t.Errorf("levels of %s: %+v", a, ls)
		}
	}
	// Hosts behind one translator whose addresses cannot be told for sure.
	for _, pair := range [][2]string{
		{"64:ff9b:1::c000:201", "64:ff9b:1::c633:6401"}, {"64:ff9b::a00:1", "64:ff9b::a01:1"},
		{"2002:a00:1::1", "2002:a00:2::1"}, {"64:ff9b::c000:201", "64:ff9b::c633:6401"},
	} {
		e := New(set, Options{Seed: 1})
		feed(e, g, repeat(3, time.Second, "sshd", "ann", pair[0])...)
		if bs := feed(e, g, failure(after(time.Minute), "sshd", "ann", pair[1])); len(bs) != 0 {
			t.Errorf("%s is blocked for %s: %s", pair[1], pair[0], bs[0].Prefix)
		}
	}
}

// TestNetworkOfAnOperator: a prefix length for a translator of one's own holds.
func TestNetworkOfAnOperator(t *testing.T) {
	set := load(t, "use: []\nsources: [auth]\nnetworks:\n  \"64:ff9b:1::/96\": {prefix: 128}\nrules:\n  - name: r\n    match: {service: sshd, outcome: failure}\n    bucket: {capacity: 3, leak: 1h}\n")
	e := New(set, Options{Seed: 1})
	bs := feed(e, newGate(), repeat(4, time.Second, "sshd", "ann", "64:ff9b:1::c000:201")...)
	if len(bs) != 1 || bs[0].Prefix != netip.MustParsePrefix("64:ff9b:1::c000:201/128") {
		t.Errorf("got %+v", bs)
	}
}
