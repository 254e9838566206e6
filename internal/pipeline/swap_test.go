package pipeline

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// TestSwap: other rules hold from the next line on, for detection and for the
// readers that were made by the old ones; what was counted stays.
func TestSwap(t *testing.T) {
	m := machine(t)
	app, auth := &source.Origin{Name: "app.log", Spec: -1}, &source.Origin{Name: "auth.log", Spec: -1}
	want(t, "before", take(t, m, batch(auth, false, failures(3, "192.0.2.1", noon.Add(-20*time.Second))...)))
	want(t, "nobody's line", take(t, m, batch(app, false, "2026-11-20T11:59:50Z h app[1]: refused 203.0.113.7")))
	text := strings.Replace(testRules, `login failed user=(?P<user>\S+) ip=(?P<ip>\S+)$`, `refused (?P<ip>\S+)$`, 1)
	text = strings.Replace(text, "capacity: 2, leak: 1m", "capacity: 0, leak: 1m", 1)
	set, problems := rules.LoadBytes("test", []byte(text), "")
	if set == nil {
		t.Fatal(problems)
	}
	compiled, err := Compile(set, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	m.Swap(compiled)
	want(t, "by the new pattern", take(t, m, batch(app, false, "2026-11-20T11:59:51Z h app[1]: refused 203.0.113.7")), "203.0.113.0/28 my-app 11:59:51")
	want(t, "counted on", take(t, m, batch(auth, false, failures(3, "192.0.2.1", noon.Add(-10*time.Second))...)), "192.0.2.0/28 ssh-login 11:59:52")
	if s := m.Stats("auth.log"); s.Lines != 6 || s.Events != 6 {
		t.Errorf("counted %+v, want 6 lines and events", s)
	}
	if v := m.Ledger.Verdict(netip.MustParseAddr("192.0.2.1"), "sshd", nil, noon.UnixNano()); v != detect.Blocked {
		t.Errorf("verdict %d", v)
	}
}
