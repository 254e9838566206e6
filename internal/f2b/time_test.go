package f2b

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostileLines are lines of the limit's length that backtracking matchers, and
// automata that are built as needed, take long for.
func hostileLines(r *rand.Rand, f *Filter) (out [][]byte) {
	fill := func(unit string) {
		out = append(out, []byte(strings.Repeat(unit, MaxLine/len(unit)+1)[:MaxLine]))
	}
	for _, u := range []string{" ", "a", "a ", "1.", "1:", ": ", "[1]", "::", "(", "\"", "f0:1.", "Nov 22 10:20:01 ", " from 1.2.3.4", "2026-"} {
		fill(u)
	}
	for _, e := range f.fail {
		s := sample(r, e.Regex, nil)
		if f.prefix != nil {
			s = sample(r, f.prefix, map[string]func() string{"content": func() string { return strings.TrimSpace(s) }})
		}
		s = strings.ReplaceAll(s, "\n", " ")
		if len(s) == 0 {
			continue
		}
		fill(s)
		// One that begins as it should and goes on with what is in it.
		for range 2 {
			i, j := r.IntN(len(s)), 1+r.IntN(12)
			part := s[i:min(i+j, len(s))]
			out = append(out, []byte((s[:i] + strings.Repeat(part, MaxLine/len(part)+1) + s[i:])[:MaxLine]))
		}
		random := make([]byte, MaxLine)
		for k := range random {
			random[k] = s[r.IntN(len(s))]
		}
		copy(random, s)
		out = append(out, random)
	}
	return out
}

// TestHostileLines: no expression takes exponential time for a line of the
// limit's length.
func TestHostileLines(t *testing.T) {
	files, _ := filepath.Glob("/etc/fail2ban/filter.d/*.conf")
	if testing.Short() {
		files = files[:len(files)/8]
	}
	if len(files) == 0 {
		t.Skip("fail2ban is not installed")
	}
	r := rand.New(rand.NewPCG(3, 3))
	n, slow := 0, 0
	var worst, worstLine time.Duration
	var which, line, whichLine string
	for _, path := range files {
		f, _ := Load(path, Options{})
		if f == nil {
			continue
		}
		all := append(append([]*expression{}, f.fail...), f.ignore...)
		if f.prefix != nil {
			all = append(all, &expression{Regex: f.prefix})
		}
		for _, l := range hostileLines(r, f) {
			text := append(bytes.Clone(l), '\n')
			for _, e := range all {
				n++
				d := time.Hour
				for range 3 { // the least of three: others work here too
					e.mu.Lock()
					e.flush()
					begin := time.Now()
					e.match(text, nil)
					d = min(d, time.Since(begin))
					e.mu.Unlock()
				}
				if d > time.Millisecond {
					slow++
				}
				if d > worst {
					worst, which, line = d, filepath.Base(path)+": "+e.src, string(l[:200])
				}
			}
			d := time.Hour
			for range 2 {
				begin := time.Now()
				f.Session(nil).Line(l, 0, agreeNow)
				d = min(d, time.Since(begin))
			}
			if d > worstLine {
				worstLine, whichLine = d, filepath.Base(path)
			}
		}
	}
	if worst > time.Second { // what is exponential takes for ever; the figures are for the reader
		t.Errorf("a match took %s", worst)
	}
	t.Logf("%d matches, %d over 1 ms, worst %s (%s on %q), a whole filter %s (%s)", n, slow, worst, which, line, worstLine, whichLine)
}

// TestHostileExpressions: an expression of few bytes that stands for very many is
// compiled or refused at once.
func TestHostileExpressions(t *testing.T) {
	nest := func(s string, n int, quantifier string) string {
		for range n {
			s = "(?:" + s + ")" + quantifier
		}
		return s
	}
	refs, many := "(a*)", ""
	for i := 1; i < 60; i++ {
		refs += fmt.Sprintf(`(\%d\%d)`, i, i)
		many += "(a|b)"
	}
	for i := 1; i < 60; i++ {
		many += fmt.Sprintf(`\%d`, i)
	}
	for _, x := range []string{
		nest("", 20, "{1000}"), nest("a{0}", 20, "{1000}"), nest("(?:)(?:)", 20, "{1000}?"), nest("", 20, "{1,1000}"),
		"(?<=" + nest("", 20, "{1000}") + ")a", nest("^", 20, "{1000}"), nest("(?:|)", 20, "{1000}"), nest("a?", 20, "{1000}"),
		nest("a*", 90, "*"), nest("(?=a)", 20, "{1000}"), nest("a", 90, "{2}"), "(" + strings.Repeat("a|", 2000) + "b){100}",
		"(?P<a>a|b|c|d|e|f|g|h)" + strings.Repeat("(?P=a)", 2000), refs, many, strings.Repeat("(a)?", 6) + strings.Repeat("(?(1)b|c)", 2000),
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = Compile(x, true)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%.60q is not compiled within 20 s", x)
		}
	}
}
