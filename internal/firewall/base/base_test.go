package base

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"stoplog/internal/firewall"
)

func TestNote(t *testing.T) {
	until := time.Date(2026, 11, 21, 9, 23, 10, 0, time.UTC)
	for _, tc := range []struct {
		e    firewall.Entry
		want string
	}{
		{firewall.Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: until}, "stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop"},
		{firewall.Entry{Prefix: netip.MustParsePrefix("2001:db8::/64"), Until: until, Action: firewall.Slow, Cut: true,
			Ports: []firewall.Ports{{Proto: "tcp", From: 22, To: 22}, {Proto: "", From: 80, To: 90}, {Proto: "udp", From: 5060, To: 5061}}},
			"stoplog 2001:db8::/64 until=2026-11-21T09:23:10Z action=slow ports=tcp/22,80-90,udp/5060-5061 cut"},
	} {
		if got := Note(tc.e); got != tc.want {
			t.Errorf("Note: got %q, want %q", got, tc.want)
		}
		back, ok := ParseNote(tc.want)
		if !ok || !reflect.DeepEqual(back, tc.e) {
			t.Errorf("ParseNote(%q): got %+v, %v, want %+v", tc.want, back, ok, tc.e)
		}
	}
}

// TestLongestNote: iptables' comments hold 255 characters.
func TestLongestNote(t *testing.T) {
	e := firewall.Entry{Prefix: netip.MustParsePrefix("2001:db8:1111:2222:3333:4444:5555:6666/128"), Until: time.Unix(1<<31-1, 0).UTC(), Action: firewall.Reject, Cut: true}
	for range firewall.MaxPorts {
		e.Ports = append(e.Ports, firewall.Ports{Proto: "tcp", From: 10000, To: 65535})
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := len(Note(e)); n > 255 {
		t.Errorf("got %d characters, want at most 255", n)
	}
}

func TestParseNoteRefuses(t *testing.T) {
	for _, s := range []string{
		"", "stoplog", "stoplog allow 192.0.2.0/28", "fail2ban 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop",
		"stoplog 192.0.2.1/28 until=2026-11-21T09:23:10Z action=drop",
		"stoplog 0.0.0.0/0 until=2026-11-21T09:23:10Z action=drop",
		"stoplog 192.0.2.0/28 until=soon action=drop",
		"stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=accept",
		"stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop ports=0",
		"stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop ports=99999",
		"stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop ports=icmp/1",
		"stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop x=1",
		"stoplog 192.0.2.0/28 action=drop cut",
	} {
		if e, ok := ParseNote(s); ok {
			t.Errorf("ParseNote(%q): got %+v, want nothing", s, e)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add("stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop ports=tcp/22,80-90 cut")
	f.Add("stoplog 2001:db8::/64 until=2026-11-21T09:23:10+01:00 action=slow")
	f.Fuzz(func(t *testing.T, s string) {
		e, ok := ParseNote(s)
		if !ok {
			return
		}
		back, ok := ParseNote(Note(e))
		if !ok || back.Prefix != e.Prefix || !back.Until.Equal(e.Until.Truncate(time.Second)) || len(back.Ports) != len(e.Ports) {
			t.Errorf("%q: got %+v, then %+v", s, e, back)
		}
	})
}

func TestSubtract(t *testing.T) {
	in := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/29"), netip.MustParsePrefix("192.0.2.8/29"), netip.MustParsePrefix("2001:db8::/126")}
	allow := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32"), netip.MustParsePrefix("2001:db8::/127")}
	got := fmt.Sprint(Subtract(in, allow))
	if want := "[192.0.2.0/29 192.0.2.8/32 192.0.2.10/31 192.0.2.12/30 2001:db8::2/127]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
