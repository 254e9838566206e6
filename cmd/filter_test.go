package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilterOfFail2ban: a rule runs a filter of fail2ban unmodified, on the logs
// that it names and on no others, and counts the lines of a connection together.
func TestFilterOfFail2ban(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var lines strings.Builder
	for _, pid := range []string{"7", "8", "9"} {
		lines.WriteString("Nov 20 10:00:0" + pid + " host app[" + pid + "]: connect from 192.0.2.1\n")
		lines.WriteString("Nov 20 10:00:0" + pid + " host app[" + pid + "]: wrong password for joe from 198.51.100.9\n")
	}
	for name, text := range map[string]string{
		"app.conf": "[Definition]\nprefregex = ^\\s*\\S+ <F-MLFID>app\\[\\d+\\]</F-MLFID>: <F-CONTENT>.+</F-CONTENT>$\n" +
			"failregex = ^<F-NOFAIL>connect from</F-NOFAIL> <HOST>$\n            ^wrong password for <F-USER>.*</F-USER>$\n",
		"broken.conf": "[Definition]\nfailregex = ^(x <HOST>$\n",
		"a.log":       lines.String(), "b.log": lines.String(),
		"rules.yaml": "use: []\nsources:\n  - {file: " + at("a.log") + "}\n  - {file: " + at("b.log") + "}\nrules:\n" +
			"  - name: app\n    match: {source: " + at("a.log") + "}\n    pattern: {fail2ban: app.conf}\n    prefix: {ipv4: 32, ipv6: 128}\n    window: {count: 3, within: 10m}\n" +
			"  - name: broken\n    match: {source: " + at("b.log") + "}\n    pattern: {fail2ban: broken.conf}\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := run(t, "", "check", at("rules.yaml"))
	if code != exitOK || !strings.Contains(out+errs, "rule broken does not run: "+at("broken.conf")+":2: failregex") {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
	_, out, _ = run(t, "", "replay", "--json", "--config", at("rules.yaml"), at("a.log"))
	if !strings.Contains(out, `"rule":"app","prefix":"192.0.2.1/32"`) || strings.Contains(out, `"prefix":"198.51.100.9`) {
		t.Errorf("a.log: the address of the connection was not blocked, or that in a user's name was:\n%s", out)
	}
	if _, out, _ = run(t, "", "replay", "--json", "--config", at("rules.yaml"), at("b.log")); strings.Contains(out, `"prefix"`) {
		t.Errorf("the filter read a log that its rule does not name:\n%s", out)
	}
}
