//go:build unix

package cmd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReadingEndsAtOnce: what reads for long ends by ^C and SIGTERM in the
// midst of it. The other end of a named pipe opens once it reads.
func TestReadingEndsAtOnce(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "p"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pipe string
		sig  syscall.Signal
		args []string
	}{
		{"p", syscall.SIGINT, []string{"parse", "p"}},
		{"p", syscall.SIGTERM, []string{"replay", "p"}},
		{"p", syscall.SIGTERM, []string{"check", "p"}},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "stoplog", c.args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "EXAMPLE="+example(t))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w, err := os.OpenFile(filepath.Join(dir, c.pipe), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := cmd.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if st := cmd.ProcessState.Sys().(syscall.WaitStatus); st.Signal() != c.sig {
				t.Errorf("got %s, want an end by %s", cmd.ProcessState, c.sig)
			}
		})
	}
}

// example is where the built-in rules are.
func example(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../rules.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
