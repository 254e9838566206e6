package pack

import (
	"slices"
	"strings"
	"testing"
)

// found returns the literals that occur, each once, in order of their index.
func found(f *finder, line string) []int {
	var got []int
	it := f.search([]byte(line))
	for i := it.next(); i >= 0; i = it.next() {
		if !slices.Contains(got, i) {
			got = append(got, i)
		}
	}
	slices.Sort(got)
	return got
}

func TestFinder(t *testing.T) {
	lits := []string{"failed login", "login", "Failed password for ", "aaa", "password"}
	tests := []struct {
		line string
		want []int
	}{
		{"", nil},
		{"ab", nil},
		{"a failed login here", []int{0, 1}},
		{"login", []int{1}},
		{"logi", nil},
		{"xlogin", []int{1}},
		{"Failed password for ", []int{2, 4}},
		{"Failed password fo", []int{4}},
		{"aaaa", []int{3}},
		{strings.Repeat("login", 3), []int{1}},
	}
	f := newFinder(lits)
	for _, tt := range tests {
		if got := found(f, tt.line); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.line, got, tt.want)
		}
	}
}

func FuzzFinder(f *testing.F) {
	f.Add("failed,login,from", "a failed login from x")
	f.Add("aaa,aab,baa", "aaabaaab")
	f.Fuzz(func(t *testing.T, lits, line string) {
		var ls []string
		for _, l := range strings.Split(lits, ",") {
			if len(l) >= minLiteral && len(ls) < 100 {
				ls = append(ls, l)
			}
		}
		if len(ls) == 0 {
			return
		}
		var want []int
		for i, l := range ls {
			if strings.Contains(line, l) {
				want = append(want, i)
			}
		}
		if got := found(newFinder(ls), line); !slices.Equal(got, want) {
			t.Errorf("%q in %q: got %v, want %v", ls, line, got, want)
		}
	})
}

func TestRequired(t *testing.T) {
	tests := []struct {
		expr string
		want []string
	}{
		{`^Failed login for <user> from <ip>$`, []string{"Failed login for "}},
		{`(?:Invalid|Wrong) user`, []string{"Invalid user", "Wrong user"}},
		{`x?failure`, []string{"xfailure", "failure"}},
		{`(?i)failure`, nil},
		{`\S+ \d+`, nil},
		{`(?:ab|failure) of .*`, []string{"ab of ", "failure of "}},
		{`.*one.*longer text.*`, []string{"longer text"}},
		{`(?:abcd)+`, []string{"abcd"}},
		{`(?:abcd)*`, nil},
		{`(?:abc.*|def.*)`, []string{"abc", "def"}},
	}
	for _, tt := range tests {
		e, _, err := parseExpression(tt.expr, false)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(e.literal, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.expr, e.literal, tt.want)
		}
	}
}
