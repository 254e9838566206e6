package feed

import (
	"strings"
	"testing"
)

func TestMatches(t *testing.T) {
	const tag = `W/"0a1b"`
	for _, c := range []struct {
		header string
		want   bool
	}{
		{``, false}, {`*`, true}, {` * `, true}, {`W/"0a1b"`, true}, {`"0a1b"`, true}, {`"x", "0a1b"`, true}, {`"x" ,W/"0a1b" , "y"`, true}, {`,, "0a1b"`, true},
		{`"a,b","0a1b"`, true}, {`"0a1b`, false}, {`0a1b`, false}, {`w/"0a1b"`, false}, {`"0a1B"`, false}, {`"x" "0a1b"`, false}, {`"x", *`, false},
		{`W/W/"0a1b"`, false}, {`"0a1b"x`, false}, {`""`, false}, {`"`, false}, {strings.Repeat(`"x",`, 4000) + `"0a1b"`, true},
	} {
		if got := matches([]string{c.header}, tag); got != c.want {
			t.Errorf("%.60s: %v, want %v", c.header, got, c.want)
		}
	}
	if matches(nil, tag) || !matches([]string{`"x"`, `"0a1b"`}, tag) {
		t.Error("several headers are one list")
	}
}

func TestAccepts(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000": false, "*": true, "*;q=0": false,
		"gzip;q=0, *": false, "*;q=0, gzip": true, "identity": false, "xgzip": false, "gzip;q=x": false, "gzip;level=9": false, "br;q=1.0, gzip ;q=0.8, *;q=0.1": true,
	} {
		if got := accepts([]string{header}, "gzip"); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

func FuzzMatches(f *testing.F) {
	for _, s := range []string{`*`, `W/"0a1b"`, `"x", "0a1b"`, `"`, `W/"`, `,,,`, `"a"b"c"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if matches([]string{s}, `W/"0a1b"`) && !strings.Contains(s, `"0a1b"`) && strings.Trim(s, " \t") != "*" {
			t.Fatalf("%q matches", s)
		}
		if strings.Count(s, `"`)%2 == 0 && !strings.ContainsAny(s, "*") && matches([]string{`"y" , ` + s}, `"y"`) != true {
			t.Fatalf("%q hides the tag before it", s)
		}
		accepts([]string{s}, "gzip")
	})
}
