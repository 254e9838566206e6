// Package migrate turns fail2ban's configuration into rules. It only reads; what
// it cannot convert it reports, with its place and reason.
package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"stoplog/internal/f2b"
)

// Note is something that was not carried over, or not as it was, and why.
type Note struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // 1-based; 0: the file as a whole
	Text string `json:"text"`
}

func (n Note) String() string {
	if n.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", n.File, n.Line, n.Text)
	}
	return n.File + ": " + n.Text
}

// Result is a rules file and what did not find its way into it.
type Result struct {
	Rules string // YAML that the reader of rules takes without a mistake
	Jails int    // that were enabled
	Notes []Note
}

// Fail2ban reads the configuration in dir, as /etc/fail2ban, changing nothing,
// and turns its enabled jails into rules. The error is of a directory without
// a jail.conf or jail.local that can be read.
func Fail2ban(dir string) (Result, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	m := &importer{dir: abs, told: map[string]bool{}, files: map[string]string{}, ignored: map[string][]string{}}
	var missing error
	found := false
	for _, n := range []string{"jail.conf", "jail.local"} {
		st, err := os.Stat(filepath.Join(abs, n))
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", n)
		}
		if err == nil {
			found = true
		} else if missing == nil || !errors.Is(err, fs.ErrNotExist) {
			missing = err
		}
	}
	if !found {
		return Result{}, fmt.Errorf("no fail2ban configuration: %w", missing)
	}
	c := readJails(abs)
	m.problems(c.Problems)
	jails := m.jails(c)
	m.allow(jails)
	for _, j := range jails {
		m.rule(j)
	}
	m.unknownKeys(c, jails)
	return Result{Rules: m.yaml(len(jails)), Jails: len(jails), Notes: m.notes}, nil
}

// importer gathers what becomes of a configuration.
type importer struct {
	dir     string
	notes   []Note
	told    map[string]bool
	allowed []string            // by every jail
	ignored map[string][]string // by jail, what it alone ignores
	sources []string            // YAML, one flow mapping or word each
	files   map[string]string   // the services of those that are files, "" for several
	rules   []string            // YAML blocks
	names   []string
	limited bool // a rule closes some ports only
}

func (m *importer) note(o *f2b.Option, format string, args ...any) {
	n := Note{File: filepath.Join(m.dir, "jail.conf"), Text: fmt.Sprintf(format, args...)}
	if o != nil {
		n.File, n.Line = o.File, o.Line
	}
	m.notes = append(m.notes, n)
}

func (m *importer) problems(all []f2b.Problem) {
	for _, p := range all {
		m.notes = append(m.notes, Note{p.File, p.Line, p.Msg})
	}
}

func (m *importer) noteOnce(o *f2b.Option, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !m.told[text] {
		m.told[text] = true
		m.note(o, "%s", text)
	}
}

// rule turns one jail into a rule and its sources.
func (m *importer) rule(j jail) {
	if why, ok := elsewhere[j.filter]; ok {
		m.note(j.at, "jail %s: %s", j.name, why)
		return
	}
	if j.filter == "" || strings.ContainsAny(j.filter, "/\\") || strings.HasPrefix(j.filter, ".") {
		m.note(j.at, "jail %s: there is no filter %.60q", j.name, j.filter)
		return
	}
	if m.native(j) {
		m.nativeRule(j)
		return
	}
	m.filterRule(j)
}

// elsewhere says why the jails of a filter become no rules.
var elsewhere = map[string]string{
	"recidive":             "not converted: it reads fail2ban's own log, which ends with fail2ban; to block repeat offenders longer, set multiply and max in the rules, as proposed at the end of the output",
	"apache-fakegooglebot": "not converted: it needs DNS lookups, which stoplog never does",
	"pass2allow-ftp":       "not converted: it opens ports to clients that request a page; see stoplog allow add ADDR --ttl",
	"apache-pass":          "not converted: it opens ports to clients that request a page; see stoplog allow add ADDR --ttl",
}

// stockSSHD are the SHA-256 sums of sshd.conf as fail2ban brings it, whose lines
// stoplog reads itself: one attempt is then counted once, however many lines
// tell of it. A file that was edited, or that is not known, runs as it is.
var stockSSHD = map[string]bool{
	"bc1e66be4a49b9e36adca44c3596e382905ddf19159a038f7d4ebeccf24f65ff": true, // 1.0.2
}

// native reports whether stoplog's own reader takes the place of the filter.
func (m *importer) native(j jail) bool {
	if j.filter != "sshd" || len(j.own) > 0 || len(j.params) > 1 || len(j.params) == 1 && j.params["mode"] == "" {
		return false
	}
	if mode := j.params["mode"]; mode != "" && mode != "normal" && mode != "ddos" && mode != "aggressive" {
		return false
	}
	path := filepath.Join(m.dir, "filter.d", "sshd")
	if overridden, _ := filepath.Glob(path + ".d/*"); m.exists(path+".local") || m.exists(filepath.Join(m.dir, "filter.d", "common.local")) || len(overridden) > 0 {
		return false
	}
	text, err := os.ReadFile(path + ".conf")
	if os.IsNotExist(err) {
		return true
	}
	sum := sha256.Sum256(text)
	return err == nil && stockSSHD[hex.EncodeToString(sum[:])]
}

func (m *importer) exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (m *importer) nativeRule(j jail) {
	m.addSources(j, "sshd", true, j.match)
	m.addRule(j, j.name, "service: sshd, outcome: failure", "")
	if mode := j.params["mode"]; mode == "ddos" || mode == "aggressive" {
		m.addRule(j, j.name+"-probe", "service: sshd, outcome: other, kind: probe", "")
	}
}

// filterRule lets the filter run as it is.
func (m *importer) filterRule(j jail) {
	path := filepath.Join(m.dir, "filter.d", j.filter+".conf")
	with := map[string]string{}
	for k, v := range j.params {
		if k != "mode" {
			with[k] = v
		}
	}
	for k, v := range j.own {
		with[k] = v
	}
	if j.journal && with["logtype"] == "" {
		with["logtype"] = "journal"
	}
	params := maps.Clone(with)
	if j.params["mode"] != "" {
		params["mode"] = j.params["mode"]
	}
	f, problems := f2b.Load(path, f2b.Options{Params: params, NoNames: params["usedns"] == "no"})
	for _, p := range problems[:min(len(problems), 5)] {
		m.notes = append(m.notes, Note{p.File, p.Line, "jail " + j.name + " is skipped: " + p.Msg})
	}
	if f == nil {
		return
	}
	if j.journal && len(f.JournalMatch) == 0 && j.match == "" {
		m.note(j.at, "jail %s is skipped: it reads the journal without a journalmatch, so that any program could write its lines", j.name)
		return
	}
	if !j.journal && len(j.logs) == 0 {
		m.note(j.at, "jail %s is skipped: it has no logpath", j.name)
		return
	}
	m.addSources(j, "", false, strings.Join(f.JournalMatch, " + "))
	var b strings.Builder
	fmt.Fprintf(&b, "{fail2ban: %s", quote(path))
	if mode := j.params["mode"]; mode != "" {
		fmt.Fprintf(&b, ", mode: %s", quote(mode))
	}
	if len(with) > 0 {
		var all []string
		for _, k := range slices.Sorted(maps.Keys(with)) {
			all = append(all, quote(k)+": "+quote(with[k]))
		}
		fmt.Fprintf(&b, ", with: {%s}", strings.Join(all, ", "))
	}
	b.WriteString("}")
	m.addRule(j, j.name, "", b.String())
}

var notNameRE = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// ruleName makes a rule's name of a jail's.
func ruleName(s string) string {
	s = strings.Trim(notNameRE.ReplaceAllString(s, "-"), "-._")
	if s == "" {
		s = "jail"
	}
	return s[:min(len(s), 48)]
}

// unused makes name differ from those there are.
func (m *importer) unused(name string) string {
	n := name
	for i := 2; slices.Contains(m.names, n); i++ {
		n = fmt.Sprintf("%s-%d", name, i)
	}
	m.names = append(m.names, n)
	return n
}
