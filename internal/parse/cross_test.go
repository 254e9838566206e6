package parse

import (
	"os"
	"strings"
	"testing"

	"stoplog/internal/parse/parsetest"
	"stoplog/internal/source"
)

// crossed is a line of a family with a hole for what its client chooses.
type crossed struct{ family, format, addr string }

func crossedLines() (out []crossed) {
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			out = append(out, crossed{list[i].service, list[i].format, list[i].addr})
		}
	}
	for _, h := range parsetest.WebLines() {
		if !strings.Contains(h.Name, "nginx") && !strings.Contains(h.Name, "Apache") { // those escape, see there
			out = append(out, crossed{h.Name, h.Line("%s"), "192.0.2.7"})
		}
	}
	for _, l := range pamHostile {
		out = append(out, crossed{"pam", "Nov 20 09:23:10 h sshd[1]: " + strings.ReplaceAll(l, "@", "%s"), "192.0.2.7"})
	}
	for _, l := range []string{"Failed password for invalid user %s from 192.0.2.7 port 1 ssh2", "Invalid user %s from 192.0.2.7", "User %s from 192.0.2.7 not allowed because x",
		"Disconnecting invalid user %s 192.0.2.7 port 1: x", "error: PAM: x for %s from 192.0.2.7", "Bad protocol version identification '%s' from 192.0.2.7 port 1"} {
		out = append(out, crossed{"sshd", sshdHead + l, "192.0.2.7"})
	}
	return append(out, crossed{"nobody's", "Nov 20 09:23:10 h newd[5]: login of %s failed from 192.0.2.7", "192.0.2.7"},
		crossed{"nobody's", "2026-11-20 09:23:10 INFO login of %s failed from 192.0.2.7", "192.0.2.7"},
		crossed{"nobody's", "2026-11-20 09:23:10 %s", "192.0.2.7"})
}

// forged returns a line, or what stands behind its header, that blames nobody
// but 203.0.113.66.
func (c *crossed) forged() []string {
	whole := strings.NewReplacer("%s", "x", c.addr, "203.0.113.66").Replace(c.format)
	out := []string{whole}
	for _, end := range []string{"]: ", ": "} {
		if _, msg, ok := strings.Cut(whole, end); ok {
			out = append(out, msg)
		}
	}
	return out
}

// TestForeignLinesInFields puts whole lines and messages of every family into
// the fields that clients of every other choose, and of its own.
func TestForeignLinesInFields(t *testing.T) { crossAll(t, crossedLines()) }

// TestWrittenLinesInFields does so with the lines of testdata/written.log.
func TestWrittenLinesInFields(t *testing.T) {
	data, err := os.ReadFile("testdata/written.log")
	if err != nil {
		t.Fatal(err)
	}
	var forgers []crossed
	for _, l := range strings.Split(string(data), "\n") {
		if line, ok := strings.CutPrefix(l, "\t"); ok {
			forgers = append(forgers, crossed{"", line, "192.0.2.7"})
		}
	}
	crossAll(t, forgers)
}

// crossAll puts what forgers write into the holes of every family's lines.
func crossAll(t *testing.T, forgers []crossed) {
	t.Helper()
	lines := crossedLines()
	p := daemonParser(t, "")
	var ev Event
	for i := range lines {
		c := &lines[i]
		if c.format == "2026-11-20 09:23:10 %s" {
			continue // all of it is the program's
		}
		for j := range forgers {
			for _, text := range forgers[j].forged() {
				for _, s := range []string{text, "x " + text, text + " x", "x\n" + text} {
					if c.family == "postgres" {
						s = s[:min(len(s), 63)] // NAMEDATALEN
					}
					line := strings.ReplaceAll(c.format, "%s", s)
					if p.Parse(&source.Line{Text: []byte(line)}, captured, &ev) && ev.Addr.String() == "203.0.113.66" {
						t.Errorf("%s, as %s:\n%s", c.family, ev.Service, line)
					}
					p.Reset()
				}
			}
		}
	}
}
