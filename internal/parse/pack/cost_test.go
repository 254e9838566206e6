package pack

import (
	"strings"
	"testing"
)

// BenchmarkHostile is the worst that names of four thousand bytes were found
// to cost: many addresses where one may stand, and words that look like some.
func BenchmarkHostile(b *testing.B) {
	s, err := Builtin()
	if err != nil {
		b.Fatal(err)
	}
	for name, user := range map[string]string{
		"addresses": strings.Repeat("from 198.51.100.1: ", 14) + strings.Repeat("y", 3000),
		"readings":  strings.Repeat("x from 198.51.100.1 ", 14) + strings.Repeat("y", 3000),
		"too many":  strings.Repeat("x from 198.51.100.1 ", 300),
		"words":     strings.Repeat("a:", 1900),
	} {
		b.Run(name, func(b *testing.B) {
			var m Match
			line := []byte("2024-05-01 10:11:12 ...auth.go:220:SignInPost() [W] Failed authentication attempt for " + user + " from 192.0.2.7:41922: user does not exist [uid: 0, name: x]")
			b.ReportAllocs()
			for b.Loop() {
				s.MatchBare(line, &m)
			}
		})
	}
}
