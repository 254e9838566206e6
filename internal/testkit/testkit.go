// Package testkit is what tests of several packages share.
package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// RequireEnv turns every test that is skipped for what the machine lacks into a
// failure.
const RequireEnv = "STOPLOG_REQUIRE_KERNEL_TESTS"

// Skip skips a test that cannot run here, or fails it where all must run.
func Skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(RequireEnv) != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// NeedRoot skips a test unless it runs as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
}

// Need skips a test when a program is missing.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			Skip(t, "needs the program "+p)
		}
	}
}
