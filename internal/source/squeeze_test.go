package source

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// caddyLine is what Caddy writes about a request with a long header.
func caddyLine(pad string) string {
	quoted, _ := json.Marshal(pad)
	return fmt.Sprintf(`{"level":"info","ts":1795172400,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","headers":{"X-Pad":[%s]}},"user_id":"","status":401}`, quoted)
}

// A client that makes its line long is seen all the same, and what it wrote stays
// within its own string.
func TestLongJSONKeepsItsFields(t *testing.T) {
	forged := `","status":200,"remote_ip":"198.51.100.66","x":"`
	for _, pad := range []string{
		strings.Repeat("x", 5000) + forged, strings.Repeat(forged, 500), strings.Repeat(`\`, 20_000), strings.Repeat("ä", 9000),
		strings.Repeat("\x01", 9000), strings.Repeat("\U0001F512", 9000), strings.Repeat("x", 4095) + "\x01\x01\\\"" + strings.Repeat("x", 9000),
	} {
		line := caddyLine(pad)
		for _, packed := range []bool{false, true} {
			path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
			s := startStepped(t, Options{MaxLine: 8192}, Spec{File: path})
			if packed {
				must(t, os.Rename(path, path+".2"))
				pack(t, "gzip", path+".1.gz", line+"\nnext\n")
				writeFile(t, path, "")
			} else {
				appendTo(t, path, line+"\nnext\n")
			}
			s.step()
			if len(s.lines) != 2 || s.lines[1].text != "next" {
				t.Fatalf("packed %v: got %d lines", packed, len(s.lines))
			}
			var got struct {
				Request struct {
					IP      string `json:"remote_ip"`
					Headers map[string][]string
				}
				Status int
				X      string
			}
			if err := json.Unmarshal([]byte(s.lines[0].text), &got); err != nil {
				t.Fatalf("%.60q: %v", pad, err)
			}
			if got.Request.IP != "192.0.2.7" || got.Status != 401 || got.X != "" || len(s.lines[0].text) > 8192 {
				t.Errorf("%.60q: got %+v in %d bytes", pad, got.Request.IP, len(s.lines[0].text))
			}
			if kept := got.Request.Headers["X-Pad"][0]; !strings.HasPrefix(pad, strings.TrimRight(kept, "\ufffd")) {
				t.Errorf("%.60q: what is kept is not its beginning", pad)
			}
			s.closeAll()
		}
	}
}

// What is over the limit without long strings is cut.
func TestJSONOfManyShortStringsIsCut(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
	s := startStepped(t, Options{MaxLine: 8192}, Spec{File: path})
	appendTo(t, path, `{"a":[`+strings.Repeat(`"x",`, 5000)+"1]}\nnext\n")
	s.step()
	if len(s.lines) != 2 || len(s.lines[0].text) != 8192 || s.list[0].snapshot().Cut != 1 {
		t.Errorf("got %d lines, cut %d", len(s.lines), s.list[0].snapshot().Cut)
	}
}

// A line of a MiB is read whole.
func TestLineOfOneMebibyteIsWhole(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "access.log"), "")
	s := startStepped(t, Options{}, Spec{File: path})
	long := strings.Repeat("x", 1<<20)
	appendTo(t, path, long[:300_000])
	s.step()
	appendTo(t, path, long[300_000:]+"\nnext\n")
	s.step()
	if len(s.lines) != 2 || s.lines[0].text != long || s.lines[1].text != "next" {
		t.Errorf("got %d lines", len(s.lines))
	}
}

func FuzzSqueeze(f *testing.F) {
	f.Add(caddyLine(strings.Repeat(`\"`, 5000)), 7)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !json.Valid([]byte(text)) || !strings.HasPrefix(text, "{") {
			return
		}
		whole, ok := squeeze([]byte(text), 1<<20)
		if !ok || !json.Valid(whole) {
			t.Fatalf("%q became %q, %v", text, whole, ok)
		}
		q := squeezer{max: 1 << 20}
		cut = max(0, cut) % (len(text) + 1)
		q.add([]byte(text[:cut]))
		q.add([]byte(text[cut:]))
		if parts, _ := q.line(); string(parts) != string(whole) {
			t.Fatalf("in parts %q, at once %q", parts, whole)
		}
	})
}
