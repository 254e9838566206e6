package rules

import "testing"

// BenchmarkLoad is the built-in default, all ready rules on: what every start
// and reload costs.
func BenchmarkLoad(b *testing.B) {
	text := []byte(goodFiles(b)["rules.example.yaml"])
	b.ReportAllocs()
	for b.Loop() {
		if s, problems := LoadBytes("x", text, ""); s == nil {
			b.Fatal(problems)
		}
	}
}
