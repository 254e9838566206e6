package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

func hook(t *testing.T, url string, headers map[string]string) *webhook {
	t.Helper()
	w, err := newWebhook(rules.Notify{Webhook: url, Headers: headers})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWebhookPosts(t *testing.T) {
	type got struct{ method, path, body, typ, auth, host string }
	seen := make(chan got, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen <- got{r.Method, r.URL.Path, string(b), r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.Host}
	}))
	defer s.Close()
	w := hook(t, s.URL+"/in", map[string]string{"authorization": "Bearer x", "host": "chat.example"})
	if err := w.send(t.Context(), letter{body: []byte(`{"a":1}`), typ: "application/json"}); err != nil {
		t.Fatal(err)
	}
	want := got{"POST", "/in", `{"a":1}`, "application/json", "Bearer x", "chat.example"}
	if g := <-seen; g != want {
		t.Errorf("got %+v, want %+v", g, want)
	}
}

// TestWhole goes from Send to a real server.
func TestWhole(t *testing.T) {
	bodies := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
	}))
	defer s.Close()
	x, err := New([]rules.Notify{{Name: "ops", Webhook: s.URL, Limit: 60, Timeout: 10 * time.Second, Template: `{"text": {{.JSON .Text}}}`}}, options())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	x.Send("ops", breach(1))
	if got, want := <-bodies, `{"text": "web1: 1 block (ssh-login)\n10.0.0.16/28"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := stats(t, x, "ops"); s.Sent != 1 || s.LastSent.IsZero() {
		t.Errorf("stats %+v", s)
	}
}

func TestWebhookAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		after  string
		good   bool // for good: no other try
		wait   time.Duration
	}{
		{400, "", true, 0}, {404, "", true, 0}, {401, "", true, 0},
		{500, "", false, 0}, {503, "30", false, 30 * time.Second}, {429, "7", false, 7 * time.Second}, {503, "soon", false, 0}, {304, "", true, 0},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
			if c.status != 304 {
				fmt.Fprint(w, "no\x1b[2J")
			}
		}))
		err := hook(t, s.URL+"/secret", nil).send(t.Context(), letter{})
		s.Close()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(c.status)) || strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %q, want the status, no escape, and not the URL", c.status, err)
		}
		if got := errors.As(err, new(permanent)); got != c.good {
			t.Errorf("%d: for good %v, want %v", c.status, got, c.good)
		}
		l := later{}
		if errors.As(err, &l); l.wait != c.wait {
			t.Errorf("%d: asked to wait %s, want %s", c.status, l.wait, c.wait)
		}
	}
}

func TestWebhookRedirects(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another server was asked, with %v", r.Header)
	}))
	defer other.Close()
	posted := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/same", http.RedirectHandler("/end", http.StatusPermanentRedirect))
	mux.Handle("/get", http.RedirectHandler("/end", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
	mux.Handle("/other", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/scheme", http.RedirectHandler("file:///etc/passwd", http.StatusTemporaryRedirect))
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		posted <- r.Method + " " + string(b)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	l := letter{body: []byte("x")}
	if err := hook(t, s.URL+"/same", nil).send(t.Context(), l); err != nil {
		t.Error(err)
	} else if got := <-posted; got != "POST x" {
		t.Errorf("got %q after a redirect, want POST x", got)
	}
	for path, want := range map[string]string{"/get": "GET", "/loop": "three times", "/other": "another host", "/scheme": "another host"} {
		err := hook(t, s.URL+path, map[string]string{"X-Token": "secret"}).send(t.Context(), l)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(permanent)) {
			t.Errorf("%s: %v, want %q, for good", path, err, want)
		}
	}
}

// TestWebhookBounds: a server that answers without end, or never.
func TestWebhookBounds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	err := hook(t, s.URL, nil).send(t.Context(), letter{})
	s.Close()
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("an endless answer: %.100v", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	x, err := newTarget(rules.Notify{Name: "n", Webhook: "http://" + ln.Addr().String() + "/secret", Timeout: 50 * time.Millisecond}, options(), wayOf)
	if err != nil {
		t.Fatal(err)
	}
	err = x.once(t.Context(), letter{})
	if err == nil || err.Error() != "timed out after 50ms" || errors.As(err, new(permanent)) {
		t.Errorf("a silent server: %v, want a time limit that may pass", err)
	}
	ln.Close()
	if err = x.once(t.Context(), letter{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v, want an error without the URL", err)
	}
}

// TestWebhookTLS: a certificate that nobody vouches for is refused.
func TestWebhookTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the message was sent") }))
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	err := hook(t, s.URL, nil).send(t.Context(), letter{})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v, want a complaint about the certificate", err)
	}
}
