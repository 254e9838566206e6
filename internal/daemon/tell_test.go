package daemon

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/tell"
)

func TestMessage(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p, q := netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix("198.51.100.0/28")
	br := &detect.Breach{
		At: at.UnixNano(), Rule: "ssh-login", Key: p.String(), Prefix: p, Addr: p.Addr(), Service: "sshd", User: "root", Count: 6,
		Evidence: []string{"a", "b"}, Source: "auth.log", Line: 7,
	}
	got := message(br, ledger.Outcome{Changes: []ledger.Change{
		{Op: ledger.Set, Block: ledger.Block{Prefix: p, Since: at, Until: at.Add(10 * time.Minute)}},
		{Op: ledger.Lift, Block: ledger.Block{Prefix: q, Since: at, Until: at.Add(time.Hour)}},
	}})
	want := tell.Message{
		Time: time.Unix(0, at.UnixNano()), Rule: "ssh-login", Key: "192.0.2.0/28", Prefix: "192.0.2.0/28", Addr: "192.0.2.0", Service: "sshd",
		User: "root", Count: 6, TTL: 10 * time.Minute, Source: "auth.log", Line: 7, Evidence: []string{"a", "b"}, Blocks: []netip.Prefix{p},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	none := message(&detect.Breach{Rule: "flood", Key: "all", At: at.UnixNano()}, ledger.Outcome{})
	if none.Prefix != "" || none.Addr != "" || none.TTL != 0 || none.Blocks != nil {
		t.Errorf("a breach without an address: %+v", none)
	}
}
