package cmd

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"stoplog/internal/control"
)

type running struct {
	control.Daemon
	dry bool
}

func (r running) Status(context.Context) (control.Status, error) {
	return control.Status{PID: 4711, DryRun: r.dry}, nil
}

// TestTeardownUnderADaemon: who tears down what a daemon restores is told so.
func TestTeardownUnderADaemon(t *testing.T) {
	for _, c := range []struct {
		name string
		d    control.Daemon
		want bool
	}{{"none", nil, false}, {"dry", running{dry: true}, false}, {"one", running{}, true}} {
		e, errs := &env{socket: filepath.Join(t.TempDir(), "s")}, &bytes.Buffer{}
		e.errw = errs
		if c.d != nil {
			serveOn(t, e.socket, c.d)
		}
		warnOfRunning(t.Context(), e)
		if got := strings.Contains(errs.String(), "(pid 4711)"); got != c.want {
			t.Errorf("%s: got %q", c.name, errs)
		}
	}
}
