package metrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
)

// full is a reading in which nothing is zero.
func full() Reading {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	return Reading{
		Status: control.Status{
			Version: "1.2.3", Started: at, State: "degraded", Trouble: []string{"a", "b"}, SavedAt: &at, ReloadedAt: &at,
			DryRun: true, Lines: 100, Events: 40, Unknown: 60, Blocks: 7, Buckets: 9, BucketCap: 1000, Evicted: 3, KnownGood: 4, MemoryKiB: 2,
			Sources: []control.SourceStatus{
				{Name: "/var/log/auth.log", State: "following", Lines: 60, Events: 30, Cut: 1, LagByte: 5, SkewMs: -1500},
				{Name: "/srv/a\"b\\c\n\xff.log", State: "waiting", Lines: 40, Events: 10},
				{Name: "/var/log/auth.log", State: "following"},
			},
			RuleStats: []control.RuleStatus{{Name: "ssh-login", Matched: 30, Breaches: 2}},
			Backends:  []control.WallStatus{{Name: "nftables", State: "ok", Entries: 7}, {Name: "hosts.deny", State: "disk full"}},
			Flags:     []control.FlagEntry{{Name: "captcha", Until: at}},
		},
		Notify: []Notify{{Name: "ops", Sent: 5, Failed: 1, Waiting: 2}},
	}
}

func fixed(r Reading, err error) *Collector {
	return New(func(context.Context) (Reading, error) { return r, err })
}

// scrape asks a handler as Prometheus would.
func scrape(t *testing.T, c *Collector) string {
	t.Helper()
	w := httptest.NewRecorder()
	h, err := Handler(c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestScrape(t *testing.T) {
	got := scrape(t, fixed(full(), nil))
	for _, want := range []string{
		"stoplog_up 1", `stoplog_build_info{version="1.2.3"} 1`, `stoplog_state{state="degraded"} 1`, `stoplog_state{state="ok"} 0`,
		"stoplog_troubles 2", "stoplog_start_time_seconds 1.7951652e+09", "stoplog_dry_run 1", "stoplog_resident_memory_bytes 2048",
		"stoplog_lines_total 100", "stoplog_events_total 40", "stoplog_unrecognised_lines_total 60",
		`stoplog_source_lines_total{source="/var/log/auth.log"} 60`, `stoplog_source_skew_seconds{source="/var/log/auth.log"} -1.5`,
		`stoplog_source_lag_bytes{source="/var/log/auth.log"} 5`, `stoplog_source_following{source="/srv/a\"b\\c\n?.log"} 0`,
		`stoplog_rule_events_total{rule="ssh-login"} 30`, `stoplog_rule_breaches_total{rule="ssh-login"} 2`, "stoplog_blocks 7",
		`stoplog_backend_up{backend="nftables"} 1`, `stoplog_backend_up{backend="hosts.deny"} 0`, "stoplog_buckets 9", "stoplog_buckets_max 1000",
		"stoplog_buckets_evicted_total 3", "stoplog_known_good 4", `stoplog_flag_until_seconds{flag="captcha"} 1.7951652e+09`,
		`stoplog_notify_messages_total{result="failed",target="ops"} 1`, `stoplog_notify_waiting{target="ops"} 2`, "stoplog_series_left_out 0",
	} {
		if !strings.Contains("\n"+got, "\n"+want+"\n") {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
	// Every metric there is must have shown itself.
	for _, f := range newFamilies().all() {
		if name := nameOf(f.desc.String()); !strings.Contains(got, "\n"+name) {
			t.Errorf("%s is described and not shown", name)
		}
	}
}

var fqName = regexp.MustCompile(`fqName: "([a-z_]+)"`)

func nameOf(desc string) string {
	m := fqName.FindStringSubmatch(desc)
	if m == nil {
		return desc
	}
	return m[1]
}

func TestDown(t *testing.T) {
	got := scrape(t, fixed(Reading{}, errors.New("stopping")))
	if !strings.Contains(got, "stoplog_up 0\n") || strings.Contains(got, "stoplog_lines_total") {
		t.Errorf("a daemon that does not answer shows:\n%s", got)
	}
}

// TestSeriesAreBounded: whoever can make files cannot flood Prometheus.
func TestSeriesAreBounded(t *testing.T) {
	r := full()
	r.Sources = nil
	for i := range maxLabels + 7 {
		r.Sources = append(r.Sources, control.SourceStatus{Name: strings.Repeat("x", i+1)})
	}
	got := scrape(t, fixed(r, nil))
	if n := strings.Count(got, "\nstoplog_source_lines_total{"); n != maxLabels {
		t.Errorf("%d sources shown, want %d", n, maxLabels)
	}
	if !strings.Contains(got, "\nstoplog_series_left_out 7\n") {
		t.Error("those left out are not counted")
	}
}

// promtool returns the program's path or skips.
func promtool(t *testing.T) string {
	t.Helper()
	p, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian package prometheus)")
	}
	return p
}

func TestPromtoolLikesTheMetrics(t *testing.T) {
	c := exec.Command(promtool(t), "check", "metrics")
	c.Stdin = strings.NewReader(scrape(t, fixed(full(), nil)))
	if b, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, b)
	}
}

func TestTextfile(t *testing.T) {
	path := t.TempDir() + "/stoplog.prom"
	asked := make(chan bool, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c := New(func(context.Context) (Reading, error) { asked <- true; return full(), nil })
	done := make(chan bool)
	go func() {
		Textfile(ctx, path, c, func(err error) { t.Errorf("reported %v", err) })
		close(done)
	}()
	<-asked
	b, err := waitFile(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("\nstoplog_blocks 7\n")) {
		t.Errorf("got %s", b)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o644 {
		t.Errorf("mode %v %v, want 0644", fi.Mode(), err)
	}
	cancel()
	<-done
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file outlives the daemon: %v", err)
	}
}

// waitFile waits until the file is there; it appears as a whole.
func waitFile(t *testing.T, path string) ([]byte, error) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		b, err := os.ReadFile(path)
		if err == nil || time.Now().After(end) {
			return b, err
		}
	}
}

func TestTextfileReportsOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var got []error
	Textfile(ctx, t.TempDir()+"/none/x.prom", fixed(full(), nil), func(err error) {
		got = append(got, err)
		cancel()
	})
	if len(got) != 1 || !errors.Is(got[0], os.ErrNotExist) {
		t.Errorf("reported %v, want one: no such folder", got)
	}
}

func body(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
