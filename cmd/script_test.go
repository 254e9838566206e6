package cmd

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts call the command line as the program stoplog.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stoplog": func() {
			example, err := os.ReadFile(os.Getenv("EXAMPLE"))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(99)
			}
			os.Exit(Main(example, os.Args[1:]))
		},
	})
}

// TestScripts runs the command line as people do; each script of
// testdata/script is a case.
func TestScripts(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("EXAMPLE", wd+"/../rules.example.yaml")
			e.Setenv("TZ", "UTC")
			return nil
		},
		RequireExplicitExec: true,
	})
}
