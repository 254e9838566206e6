package cmd

import (
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
)

// TestExplainOfOneAddress: an address that is blocked alone is not part of
// anything.
func TestExplainOfOneAddress(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for prefix, want := range map[string]string{
		"192.0.2.7/32": "192.0.2.7 is blocked by the rule ssh since",
		"192.0.2.0/28": "192.0.2.7 is blocked as part of 192.0.2.0/28 by the rule ssh since",
		"192.0.2.9/32": "192.0.2.7 is blocked as part of 192.0.2.9/32 by the rule ssh since", // another form of the same client
	} {
		var b strings.Builder
		x := control.Explanation{Addr: "192.0.2.7", Blocked: []control.Block{{Prefix: prefix, Rule: "ssh", Since: now, Until: now.Add(time.Hour)}}}
		if err := printExplanation(&b, x, now, 80); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(b.String(), want) {
			t.Errorf("%s: got %q, want %q…", prefix, b.String(), want)
		}
	}
}
