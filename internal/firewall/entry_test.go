package firewall

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNote(t *testing.T) {
	until := time.Date(2026, 11, 21, 9, 23, 10, 0, time.UTC)
	for _, tc := range []struct {
		e    Entry
		want string
	}{
		{Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: until}, "stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop"},
		{Entry{Prefix: netip.MustParsePrefix("2001:db8::/64"), Until: until, Action: Slow, Cut: true,
			Ports: []Ports{{"tcp", 22, 22}, {"", 80, 90}, {"udp", 5060, 5061}}},
			"stoplog 2001:db8::/64 until=2026-11-21T09:23:10Z action=slow ports=tcp/22,80-90,udp/5060-5061 cut"},
	} {
		if got := note(tc.e); got != tc.want {
			t.Errorf("note: got %q, want %q", got, tc.want)
		}
		back, ok := parseNote(tc.want)
		if !ok || !reflect.DeepEqual(back, tc.e) {
			t.Errorf("parseNote(%q): got %+v, %v, want %+v", tc.want, back, ok, tc.e)
		}
	}
}

// TestLongestNote: iptables' comments hold 255 characters.
func TestLongestNote(t *testing.T) {
	e := Entry{Prefix: netip.MustParsePrefix("2001:db8:1111:2222:3333:4444:5555:6666/128"), Until: latest, Action: Reject, Cut: true}
	for range MaxPorts {
		e.Ports = append(e.Ports, Ports{"tcp", 10000, 65535})
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	if n := len(note(e)); n > 255 {
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
		if e, ok := parseNote(s); ok {
			t.Errorf("parseNote(%q): got %+v, want nothing", s, e)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add("stoplog 192.0.2.0/28 until=2026-11-21T09:23:10Z action=drop ports=tcp/22,80-90 cut")
	f.Add("stoplog 2001:db8::/64 until=2026-11-21T09:23:10+01:00 action=slow")
	f.Fuzz(func(t *testing.T, s string) {
		e, ok := parseNote(s)
		if !ok {
			return
		}
		back, ok := parseNote(note(e))
		if !ok || back.Prefix != e.Prefix || !back.Until.Equal(e.Until.Truncate(time.Second)) || len(back.Ports) != len(e.Ports) {
			t.Errorf("%q: got %+v, then %+v", s, e, back)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Entry{Prefix: netip.MustParsePrefix("192.0.2.0/28"), Until: time.Unix(1<<30, 0)}
	for name, tc := range map[string]struct {
		change func(*Entry)
		want   string
	}{
		"good":          {func(*Entry) {}, ""},
		"action":        {func(e *Entry) { e.Action = 9 }, "action"},
		"mapped":        {func(e *Entry) { e.Prefix = netip.MustParsePrefix("::ffff:192.0.2.0/124") }, "mapped"},
		"unmasked":      {func(e *Entry) { e.Prefix = netip.MustParsePrefix("192.0.2.1/28") }, "bits set"},
		"far":           {func(e *Entry) { e.Until = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC) }, "ends after"},
		"proto":         {func(e *Entry) { e.Ports = []Ports{{"sctp", 1, 1}} }, "protocol"},
		"backwards":     {func(e *Entry) { e.Ports = []Ports{{"tcp", 9, 8}} }, "empty range"},
		"too many":      {func(e *Entry) { e.Ports = make([]Ports, MaxPorts+1) }, "at most"},
		"everything":    {func(e *Entry) { e.Prefix = netip.MustParsePrefix("0.0.0.0/0") }, "everything"},
		"no prefix":     {func(e *Entry) { e.Prefix = netip.Prefix{} }, "invalid"},
		"highest ports": {func(e *Entry) { e.Ports = []Ports{{"", 1, 65535}} }, ""},
	} {
		e := good
		tc.change(&e)
		err := e.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestParseAction(t *testing.T) {
	for a := Drop; a <= Slow; a++ {
		if got, err := ParseAction(a.String()); got != a || err != nil {
			t.Errorf("%s: got %v, %v", a, got, err)
		}
	}
	if _, err := ParseAction("accept"); err == nil {
		t.Error("accept: got no error")
	}
	if got := Action(7).String(); got != "action 7" {
		t.Errorf("got %q", got)
	}
}
