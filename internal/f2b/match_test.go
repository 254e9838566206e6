package f2b

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// python runs each [expression, text] through Python's re.search, and returns
// the spans of all groups: nil for no match, an error's text for an expression
// that re refuses.
func python(t *testing.T, cases [][2]string) []pyMatch {
	t.Helper()
	path, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	cmd := exec.Command(path, "-c", `
import sys, json, re, signal
class Slow(Exception): pass
def slow(*_): raise Slow()
signal.signal(signal.SIGALRM, slow)
for line in sys.stdin:
    e, text = json.loads(line)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1) # it may take exponential time
        m = re.search(e, text)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except (re.error, Slow) as x:
        print(json.dumps({"error": str(x) or "slow"})); continue
    if m is None: print(json.dumps({})); continue
    spans = []
    for i in range(m.re.groups + 1): spans += list(m.span(i))
    print(json.dumps({"spans": spans}))
`)
	var in strings.Builder
	for _, c := range cases {
		b, _ := json.Marshal(c)
		in.Write(b)
		in.WriteByte('\n')
	}
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pyMatch
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var m pyMatch
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) != len(cases) {
		t.Fatalf("python answered %d of %d", len(all), len(cases))
	}
	return all
}

type pyMatch struct {
	Error string
	Spans []int
}

// writer makes random expressions.
type writer struct {
	*rand.Rand
	groups int
	depth  int
	open   []int
	backs  bool
}

func (w *writer) expr() string {
	var alts []string
	for range 1 + w.IntN(5)/3 {
		var b strings.Builder
		for range 1 + w.IntN(4) {
			b.WriteString(w.atom())
		}
		alts = append(alts, b.String())
	}
	return strings.Join(alts, "|")
}

func (w *writer) atom() string {
	a := ""
	n := w.IntN(20)
	if w.depth > 1 {
		n = w.IntN(8)
	}
	w.depth++
	defer func() { w.depth-- }()
	closed := func() int { // a group that may be referred to
		for range 5 {
			if w.groups == 0 {
				break
			}
			if g := 1 + w.IntN(w.groups); !slices.Contains(w.open, g) {
				return g
			}
		}
		return 0
	}
	switch {
	case n < 4:
		a = string("abc "[w.IntN(4)])
	case n < 6:
		a = []string{".", "[ab]", "[^a]", `\w`, `\s`, `\S`, `\d`, `[a-c1]`}[w.IntN(8)]
	case n == 6:
		return []string{"^", "$", `\b`, `\B`, `\A`, `\Z`}[w.IntN(6)]
	case n == 7:
		return []string{"(?<=a)", "(?<!b)", `(?<=ab)`, `(?<!^c)`, `(?<=\b.)`, `(?<=a|b)`}[w.IntN(6)]
	case n < 12:
		w.groups++
		g := w.groups
		w.open = append(w.open, g)
		a = "(" + w.expr() + ")"
		w.open = w.open[:len(w.open)-1]
	case n < 15:
		a = "(?:" + w.expr() + ")"
	case n == 15:
		return "(?!" + w.expr() + ")"
	case n == 16:
		return "(?=" + w.expr() + ")"
	case n == 17:
		if g := closed(); g > 0 {
			return fmt.Sprintf("(?(%d)%s|%s)", g, w.atom(), w.atom())
		}
		a = "a"
	case n == 18:
		if g := closed(); g > 0 && w.backs {
			return fmt.Sprintf(`(?:\%d)`, g)
		}
		a = "b"
	default:
		a = "(?i:" + w.expr() + ")"
	}
	return a + []string{"", "", "", "", "*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{,2}?"}[w.IntN(13)]
}

// TestLikePython matches random expressions on random texts as Python's re does.
func TestLikePython(t *testing.T) {
	w := &writer{Rand: rand.New(rand.NewPCG(1, 2))}
	n := 20_000
	if testing.Short() {
		n = 4000
	}
	var cases [][2]string
	for len(cases) < n {
		w.groups, w.open = 0, nil
		w.backs = w.IntN(8) == 0
		e := w.expr()
		for range 4 {
			var b strings.Builder
			for range w.IntN(10) {
				b.WriteByte("aabbccAB1 \n"[w.IntN(11)])
			}
			cases = append(cases, [2]string{e, b.String()})
		}
	}
	compared, bad := 0, 0
	for i, m := range python(t, cases) {
		e, text := cases[i][0], cases[i][1]
		r, err := Compile(e, false)
		if n, _, err := parse(e, false); m.Error != "" || err == nil && emptyLoop(n) {
			continue
		}
		if err != nil {
			if err == errChecks || strings.Contains(err.Error(), "fixed width") || strings.Contains(err.Error(), "repeat") {
				continue
			}
			t.Errorf("%q: %v", e, err)
			continue
		}
		compared++
		got, err := r.Match([]byte(text), nil)
		if err != nil || !slices.Equal(got, m.Spans) {
			if bad++; bad > 8 {
				t.Fatalf("%d of %d differ", bad, compared)
			}
			t.Errorf("%q on %q: got %v, %v; want %v", e, text, got, err, m.Spans)
		}
	}
	t.Logf("%d compared", compared)
}

// emptyLoop reports whether a part that may match nothing is repeated: which
// round of the loop a group reports then is re's own affair.
func emptyLoop(n *node) bool {
	return n.op == opRepeat && n.max != 1 && nullable(n.subs[0]) || slices.ContainsFunc(n.subs, emptyLoop)
}
