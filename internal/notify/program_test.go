package notify

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// script writes a program.
func script(t *testing.T, body string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProgramGetsTheMessage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	p := program{argv: []string{script(t, `printf '%s|' "$@" "$STOPLOG_SUBJECT" "${HOME-none}" >"$1"; cat >>"$1"`), out, "$(id)", "a;b"}}
	if err := p.send(t.Context(), letter{subject: "s", body: []byte(`{"x":1}`)}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := out + `|$(id)|a;b|s|none|{"x":1}`; string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
}

func TestProgramOwnGroup(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	// Field 5 of /proc/pid/stat is the process group (proc_pid_stat(5)).
	p := program{argv: []string{script(t, `read -r pid _ _ _ group _ </proc/self/stat; echo "$group $$" >"$1"`), out}}
	if err := p.send(t.Context(), letter{}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(string(b)); len(f) != 2 || f[0] != f[1] {
		t.Errorf("group and process %q, want the same", b)
	}
}

func TestProgramFails(t *testing.T) {
	for _, c := range []struct {
		body, want string
		good       bool
	}{
		{`echo "no \033[2J route" >&2; exit 3`, `exit status 3: no \x1b[2J route`, true},
		{"exit 75", "exit status 75", false},
		{"exit 0", "", false},
		{"exec true <&-", "", false}, // reads nothing: that is its business
	} {
		err := program{argv: []string{script(t, c.body)}}.send(t.Context(), letter{body: make([]byte, 1<<18)})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v, want nil", c.body, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, new(permanent)) != c.good {
			t.Errorf("%s: %v, want %q, for good %v", c.body, err, c.want, c.good)
		}
	}
	if err := (program{argv: []string{"/nonexistent"}}).send(t.Context(), letter{}); !errors.As(err, new(permanent)) {
		t.Errorf("no such program: %v, want an error for good", err)
	}
}

// TestProgramIsEnded: at the time limit it and its children go.
func TestProgramIsEnded(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "end")
	x, err := newTarget(rules.Notify{Name: "n", Exec: []string{script(t, `exec 3>"$1"; sleep 1000 & wait`), fifo}, Timeout: 300 * time.Millisecond}, options(), wayOf)
	if err != nil {
		t.Fatal(err)
	}
	closed := whenClosed(t, fifo)
	err = x.once(t.Context(), letter{})
	if err == nil || err.Error() != "timed out after 300ms" || !errors.As(err, new(permanent)) {
		t.Errorf("%v, want the time limit, for good", err)
	}
	<-closed // the last process that held the pipe is gone
}
