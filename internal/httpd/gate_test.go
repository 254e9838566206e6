package httpd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newRequest(from string, header ...string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = from
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// try is the status that a gate answers; 200: it lets in.
func try(g *Gate, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	if g.Admit(w, r) {
		w.WriteHeader(http.StatusOK)
	}
	return w
}

// TestTheRightTokenIsNeverLockedOut: guesses slow down who guesses; who shows
// the right token, from the same address or another, is let in.
func TestTheRightTokenIsNeverLockedOut(t *testing.T) {
	path := write(t, "s3cret\n")
	g, err := NewGate(nil, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[int]int{}
	for range 50 {
		w := try(g, newRequest("192.0.2.1:9", "Authorization", "Bearer wrong"))
		codes[w.Code]++
		if w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") == "" || w.Header().Get("Retry-After") == "0") {
			t.Fatalf("429 with Retry-After %q", w.Header().Get("Retry-After"))
		}
	}
	if codes[401] != maxGuesses || codes[429] != 50-maxGuesses {
		t.Errorf("50 guesses gave %v", codes)
	}
	for _, from := range []string{"192.0.2.1:9", "192.0.2.2:9"} {
		if w := try(g, newRequest(from, "Authorization", "Bearer s3cret")); w.Code != 200 {
			t.Errorf("the right token from %s: %d", from, w.Code)
		}
	}
	if w := try(g, newRequest("192.0.2.2:9", "Authorization", "Bearer wrong")); w.Code != 401 {
		t.Errorf("the first guess of another address: %d, want 401", w.Code)
	}
	if w := try(g, newRequest("192.0.2.1:9")); w.Code != 401 {
		t.Errorf("a request without a token is no guess: %d, want 401", w.Code)
	}
}

func TestGuessesDrain(t *testing.T) {
	g, now, r := NewGuesses(), time.Now(), newRequest("192.0.2.1:9")
	for range maxGuesses {
		if w := g.Wrong(r, now); w != 0 {
			t.Fatalf("must wait %s too early", w)
		}
	}
	for range 3 {
		if w := g.Wrong(r, now); w != guessLeak {
			t.Errorf("after %d: %s, want %s", maxGuesses, w, guessLeak)
		}
	}
	if w := g.Wrong(r, now.Add(guessLeak)); w != 0 {
		t.Errorf("%s later: must wait %s", guessLeak, w)
	}
	for i := range 3 * maxHosts {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 9)
		g.Wrong(newRequest(from.String()), now)
	}
	if n := len(g.empty); n > maxHosts+1 {
		t.Errorf("%d hosts are kept, want at most %d", n, maxHosts+1)
	}
	if g.Wrong(newRequest("203.0.113.1:9"), now.Add(time.Hour)); len(g.empty) > 2 {
		t.Errorf("%d buckets are kept that are empty", len(g.empty))
	}
}

// TestTokenFileIsFollowed: what is removed from the file, or put into it, holds
// at the next request; while it cannot be read nobody is let in.
func TestTokenFileIsFollowed(t *testing.T) {
	path := write(t, "first\n")
	var problem error
	g, err := NewGate(nil, path, func(err error) { problem = err })
	if err != nil {
		t.Fatal(err)
	}
	check := func(secret string, want int) {
		t.Helper()
		if w := try(g, newRequest("192.0.2.1:9", "Authorization", "Bearer "+secret)); w.Code != want {
			t.Errorf("%s: %d, want %d", secret, w.Code, want)
		}
	}
	check("first", 200)
	if err := os.WriteFile(path, []byte("2nd!!\n"), 0o600); err != nil { // as long as the one before
		t.Fatal(err)
	}
	check("first", 401)
	check("2nd!!", 200)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("2nd!!", 401)
	if !errors.Is(problem, os.ErrNotExist) {
		t.Errorf("a file that is gone was reported as %v", problem)
	}
	secret, err := AddToken(path, "proxy", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	check(secret, 200)
	check("2nd!!", 401)
	if problem != nil {
		t.Errorf("it can be read again: %v", problem)
	}
	if _, err := RemoveToken(path, "proxy"); err != nil {
		t.Fatal(err)
	}
	check(secret, 401)
	header, _ := os.ReadFile(path)
	check(strings.TrimSpace(string(header)), 401) // and the comment that is left is no token
}

func TestSecrets(t *testing.T) {
	named := "anna " + strings.Repeat("ab", 32) + " 2026-11-20T09:00:00Z"
	for text, want := range map[string]string{
		"": "is empty", "\n": "is empty", "\nsecret": "is empty",
		named + "\nnonsense\n":              "was not written by stoplog token",
		strings.Repeat("x", maxTokenFile+1): "is larger than",
		"secret":                            "", "a b c\n": "", "# none\n": "", named: "", "#x\n": "",
	} {
		_, err := readSecrets(write(t, text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
	if _, err := readSecrets(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("a folder: %v", err)
	}
	for _, file := range []string{"/none/token", "/dev/zero"} {
		if _, err := NewGate(nil, file, nil); err == nil {
			t.Errorf("%s was taken for a file of tokens", file)
		}
	}
}

func TestClients(t *testing.T) {
	g, err := NewGate([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("::ffff:198.51.100.0/120")}, write(t, "s3cret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]int{"192.0.2.1:9": 200, "[::ffff:192.0.2.1]:9": 200, "198.51.100.7:9": 200, "203.0.113.1:9": 403, "@": 403} {
		if w := try(g, newRequest(from, "Authorization", "bearer s3cret")); w.Code != want {
			t.Errorf("%s: %d, want %d", from, w.Code, want)
		}
	}
	r := newRequest("@")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{}))
	if w := try(g, r); w.Code != 401 {
		t.Errorf("by a unix socket, without the token: %d, want 401", w.Code)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
