package firewall

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

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
		"proto":         {func(e *Entry) { e.Ports = []Ports{{Proto: "sctp", From: 1, To: 1}} }, "protocol"},
		"backwards":     {func(e *Entry) { e.Ports = []Ports{{Proto: "tcp", From: 9, To: 8}} }, "empty range"},
		"too many":      {func(e *Entry) { e.Ports = make([]Ports, MaxPorts+1) }, "at most"},
		"everything":    {func(e *Entry) { e.Prefix = netip.MustParsePrefix("0.0.0.0/0") }, "everything"},
		"no prefix":     {func(e *Entry) { e.Prefix = netip.Prefix{} }, "invalid"},
		"highest ports": {func(e *Entry) { e.Ports = []Ports{{Proto: "", From: 1, To: 65535}} }, ""},
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
