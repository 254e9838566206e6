package daemon

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"stoplog/internal/rules"
)

// TestMetricsFollowTheRules moves the listener by a reload and ends it.
func TestMetricsFollowTheRules(t *testing.T) {
	d := &daemon{log: slog.New(slog.NewTextHandler(io.Discard, nil)), asks: make(chan func()), stopped: make(chan struct{})}
	d.api = d.newAPI()
	close(d.stopped) // nobody answers asks: the listener shows "down"
	notifier, err := d.newNotifier(&rules.Set{})
	if err != nil {
		t.Fatal(err)
	}
	d.notifier = notifier
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := newService(d.showMetrics)
	go func() { done <- s.run(ctx) }()
	for _, name := range []string{"a.sock", "b.sock"} {
		m := rules.Metrics{Listener: rules.Listener{Addr: filepath.Join(t.TempDir(), name)}}
		s.set(m)
		s.set(m) // again: nothing changes
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			for {
				c, err := (&net.Dialer{}).DialContext(ctx, "unix", m.Addr)
				if err == nil || ctx.Err() != nil || t.Context().Err() != nil {
					return c, err
				}
			}
		}}}
		a, err := client.Get("http://stoplog/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if want := "# HELP stoplog_up"; len(b) < len(want) || string(b[:len(want)]) != want {
			t.Errorf("%s shows %q", name, b)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("metrics = %v, want nil", err)
	}
}
