package feed

import (
	"strings"
	"testing"
)

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

func FuzzAccepts(f *testing.F) {
	for _, s := range []string{"gzip;q=0.5, *", "*;q=0", ";;q", ",,,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if accepts([]string{s}, "gzip") && !strings.Contains(strings.ToLower(s), "gzip") && !strings.Contains(s, "*") {
			t.Fatalf("%q takes gzip", s)
		}
		if !accepts([]string{s, "gzip"}, "gzip") {
			t.Fatalf("%q hides the coding after it", s)
		}
	})
}
