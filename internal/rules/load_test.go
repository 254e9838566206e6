package rules

import (
	"os"
	"testing"
)

// The example is the built-in default: it must be without a warning.
func TestExampleLoads(t *testing.T) {
	data, err := os.ReadFile("../../rules.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, ps := LoadBytes("rules.example.yaml", data, "")
	for _, p := range ps {
		t.Error(p.Error())
	}
	if s == nil || len(s.Rules) == 0 || len(s.Sources) == 0 {
		t.Fatalf("the example has no rules or no sources")
	}
}
