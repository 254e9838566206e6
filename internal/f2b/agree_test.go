package f2b

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// theirs runs fail2ban's own code on lines, one failure a line at most.
const theirs = `
import sys, json, logging, os, time
os.environ["TZ"] = "UTC"; time.tzset()
logging.disable(logging.CRITICAL)
from fail2ban.client.filterreader import FilterReader
from fail2ban.server.filter import Filter
from fail2ban.server.mytime import MyTime
job = json.load(sys.stdin)
MyTime.setTime(job["now"])
for j in job["filters"]:
    name = os.path.basename(j["path"])[:-5]
    r = FilterReader(name, "jail", dict(j["params"]), basedir=os.path.dirname(os.path.dirname(j["path"])))
    r.read(); r.applyAutoOptions(""); r.getOptions({})
    out = []
    dates = "{DEFAULT}"
    try:
        f = Filter(None)
        f.checkFindTime = False
        f.setUseDns("raw")
        for c in r.convert():
            if c[0] == "multi-set":
                for v in c[3]: getattr(f, {"addfailregex": "addFailRegex", "addignoreregex": "addIgnoreRegex"}[c[2]])(v)
            elif c[2] == "addfailregex": f.addFailRegex(c[3])
            elif c[2] == "addignoreregex": f.addIgnoreRegex(c[3])
            elif c[2] == "prefregex": f.prefRegex = c[3]
            elif c[2] == "maxlines": f.setMaxLines(c[3])
            elif c[2] == "datepattern": dates = c[3]
    except Exception as x:
        print(json.dumps({"error": str(x)})); continue
    for group in j["lines"]:
        # Each group begins with a fresh state.
        f._Filter__mlfidCache = None; f._Filter__lineBuffer = []; f._Filter__lastDate = None
        f.setDatePattern(dates)
        for line in group:
            try:
                found = f.processLine(line)
            except Exception as x:
                out.append(["error", str(x)]); continue
            if not found: out.append(None); continue
            i, fid, when, fail = found[0]
            out.append([str(fid), when, fail.get("user"), i])
    print(json.dumps({"out": out}))
`

// sampler writes texts that an expression matches, mostly.
type sampler struct {
	*rand.Rand
	p      *parser
	groups map[int]string
	give   map[string]func() string // the text of groups by name
	names  map[int]string
}

func (s *sampler) write(b *strings.Builder, n *node) {
	switch n.op {
	case opSet:
		b.WriteByte(s.one(n.set))
	case opCat:
		for _, x := range n.subs {
			s.write(b, x)
		}
	case opAlt:
		s.write(b, n.subs[s.IntN(len(n.subs))])
	case opRepeat:
		hi := n.max
		if hi < 0 || hi > n.min+6 {
			hi = n.min + 6
		}
		for range n.min + s.IntN(hi-n.min+1) {
			s.write(b, n.subs[0])
		}
	case opGroup:
		var in strings.Builder
		if f := s.give[s.names[n.group]]; f != nil {
			in.WriteString(f())
		} else {
			s.write(&in, n.subs[0])
		}
		s.groups[n.group] = in.String()
		b.WriteString(in.String())
	case opBackref:
		b.WriteString(s.groups[n.group])
	case opCond:
		i := 1
		if _, ok := s.groups[n.group]; ok {
			i = 0
		}
		s.write(b, n.subs[i])
	}
}

func (s *sampler) one(set *set) byte {
	for range 20 {
		if c := "abcdefgx019 -_./:[]()'\"=,<>"[s.IntN(27)]; set.has(c) {
			return c
		}
	}
	for c := byte(0x20); c < 0x7f; c++ {
		if set.has(c) {
			return c
		}
	}
	for c := range 256 {
		if set.has(byte(c)) {
			return byte(c)
		}
	}
	return '?'
}

func sample(r *rand.Rand, re *Regex, give map[string]func() string) string {
	n, p, err := parse(re.src, false)
	if err != nil {
		panic(err)
	}
	s := &sampler{Rand: r, p: p, groups: map[int]string{}, give: give, names: map[int]string{}}
	for name, g := range p.names {
		s.names[g] = name
	}
	var b strings.Builder
	s.write(&b, n)
	return b.String()
}

var agreeNow = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// lines writes lines for each expression of a filter, in groups that a fresh
// session reads.
func (f *Filter) samples(r *rand.Rand, each int) (groups [][]string) {
	ips := []string{"192.0.2.7", "198.51.100.23", "203.0.113.250"}
	give := map[string]func() string{
		"ip4": func() string { return ips[r.IntN(3)] },
		"ip6": func() string { return []string{"2001:db8::7", "2001:db8:0:1::beef"}[r.IntN(2)] },
		"dns": func() string { return ips[r.IntN(3)] },
	}
	stamps := []string{"2026-11-22 10:20:%02d", "Nov 22 10:20:%02d", "22/Nov/2026:10:20:%02d +0100", "Sun Nov 22 10:20:%02d 2026", "2026-11-22T10:20:%02d.123456+01:00", "17959295%02d"}
	custom := len(f.dates) < 10
	stamp := func() string {
		if custom && r.IntN(4) > 0 {
			return sample(r, f.dates[r.IntN(len(f.dates))].re, nil)
		}
		return fmt.Sprintf(stamps[r.IntN(len(stamps))], r.IntN(60))
	}
	for _, e := range append(slices.Clone(f.fail), f.ignore...) {
		for range each {
			text := sample(r, e.Regex, give)
			if f.prefix != nil {
				text = sample(r, f.prefix, map[string]func() string{"content": func() string { return strings.TrimSpace(text) }})
			}
			var group []string
			for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
				if r.IntN(3) == 0 {
					l = mutate(r, l)
				}
				switch at := strings.Index(l, "[]"); {
				case at >= 0:
					l = l[:at+1] + stamp() + l[at+1:]
				case i == 0 || r.IntN(2) == 0:
					l = stamp() + sep(l) + l
				}
				group = append(group, l)
			}
			groups = append(groups, group)
		}
	}
	return groups
}

func sep(l string) string {
	if l == "" || l[0] != ' ' {
		return " "
	}
	return ""
}

func mutate(r *rand.Rand, l string) string {
	if len(l) < 4 {
		return l
	}
	i := r.IntN(len(l))
	switch r.IntN(4) {
	case 0:
		return l[:i] + l[i+1:]
	case 1:
		return l[:i] + string("a1 :\"["[r.IntN(6)]) + l[i:]
	case 2:
		return l + " from 203.0.113.250 port 22"
	}
	return l[:i]
}

// TestAgreesWithFail2ban gives every filter that fail2ban comes with lines made
// for each of its expressions, right and damaged ones, and compares what fail2ban
// finds in them with what we find. Only the differences listed here are allowed.
func TestAgreesWithFail2ban(t *testing.T) {
	if _, err := os.Stat("/usr/lib/python3/dist-packages/fail2ban/server/filter.py"); err != nil {
		t.Skip("fail2ban is not installed")
	}
	files, _ := filepath.Glob("/etc/fail2ban/filter.d/*.conf")
	type job struct {
		Path   string            `json:"path"`
		Params map[string]string `json:"params"`
		Lines  [][]string        `json:"lines"`
	}
	var jobs []job
	var filters []*Filter
	r := rand.New(rand.NewPCG(7, 7))
	each := 12
	if testing.Short() {
		each = 4
	}
	for _, path := range files {
		modes := []string{""}
		text, _ := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^mdre-(\w+)`).FindAllStringSubmatch(string(text), -1) {
			modes = append(modes, m[1])
		}
		for _, mode := range modes {
			params := map[string]string{}
			if mode != "" {
				params["mode"] = mode
			}
			f, problems := Load(path, Options{Params: params})
			if f == nil {
				if !strings.HasSuffix(path, "-common.conf") && filepath.Base(path) != "common.conf" {
					t.Errorf("%v", problems)
				}
				continue
			}
			filters = append(filters, f)
			jobs = append(jobs, job{path, params, f.samples(r, each)})
		}
	}
	in, _ := json.Marshal(map[string]any{"now": agreeNow.Unix(), "filters": jobs})
	cmd := exec.Command("/usr/bin/python3", "-c", theirs)
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(strings.NewReader(string(out)))
	sc.Buffer(nil, 64<<20)
	total, equal, found, shown := 0, 0, 0, 0
	reasons := map[string]int{}
	bad := map[string]bool{}
	for i := 0; sc.Scan(); i++ {
		var want struct {
			Error string
			Out   []*[4]any
		}
		if err := json.Unmarshal(sc.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if want.Error != "" {
			t.Errorf("%s: fail2ban says %s", jobs[i].Path, want.Error)
			continue
		}
		k := 0
		for _, group := range jobs[i].Lines {
			s := filters[i].Session(nil)
			for _, line := range group {
				got, v := s.Line([]byte(line), 0, agreeNow)
				w := want.Out[k]
				k++
				total++
				if w != nil {
					found++
				}
				d, dated := find(filters[i].dates, []byte(line), agreeNow, time.UTC, nil)
				ok, why := agrees(got, v, w, dated && d.from < d.to)
				if ok {
					equal++
					continue
				}
				if why != "" {
					reasons[why]++
					continue
				}
				bad[filepath.Base(jobs[i].Path)] = true
				if shown++; shown <= 12 {
					t.Errorf("%s %v: %q: got %v, verdict %d; fail2ban %v", filepath.Base(jobs[i].Path), jobs[i].Params, line, got, v, w)
				}
			}
		}
	}
	t.Logf("%d filters and modes, %d lines, %d failures by fail2ban, %d equal, allowed differences %v, others %d in %d filters", len(jobs), total, found, equal, reasons, shown, len(bad))
}

// agrees compares a verdict; why names a difference that is meant.
func agrees(got Failure, v Verdict, want *[4]any, hasDate bool) (ok bool, why string) {
	if want == nil {
		return v != Counted, ""
	}
	id, _ := want[0].(string)
	if id == "error" {
		return false, ""
	}
	a, err := netip.ParseAddr(id)
	if p, perr := netip.ParsePrefix(id); perr == nil {
		a, err = p.Addr(), nil
	}
	switch {
	case v == Named && err != nil:
		return false, "no address"
	case v == Ambiguous:
		return false, "two addresses"
	case v != Counted || err != nil || a.Unmap() != got.Addr:
		return false, ""
	}
	if user, _ := want[2].(string); user != string(got.User) {
		return false, ""
	}
	when, dated := want[1].(float64)
	if dated && (when < 0 || when > 7e9) {
		dated = false // no log's
	}
	if !dated && got.Time == 0 || int64(when) == got.Time/1e9 {
		return true, ""
	}
	if !hasDate {
		return false, "a line without a date has that of the line before"
	}
	return false, ""
}
