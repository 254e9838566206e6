package feed

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoplog/internal/export"
)

func newFeed(t testing.TB, v View, o Options) *Feed {
	t.Helper()
	f, err := New(v, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFeedFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Snapshot
		s.Set(block("192.0.2.0/28", time.Hour), block("2001:db8::/64", time.Hour))
		if err := s.SetAllow(prefixes("192.0.2.8/29")); err != nil {
			t.Fatal(err)
		}
		f := newFeed(t, &s, Options{})
		es, _ := s.Entries()
		for _, x := range append(export.Formats(), export.Format{Name: "txt"}) {
			name, mime := x.Name, x.MIME
			if name == "txt" {
				name, mime = "plain", "text/plain; charset=utf-8"
			}
			var want bytes.Buffer
			if _, err := export.Write(&want, name, es, export.Options{Allow: s.AllowList(), Now: time.Now()}); err != nil {
				t.Fatal(err)
			}
			w := ask(f, "GET", "/blocklist."+x.Name, "192.0.2.1:1")
			if w.Code != 200 || w.Body.String() != want.String() || w.Header().Get("Content-Type") != mime || strings.Contains(w.Body.String(), "192.0.2.8") {
				t.Errorf("%s: %d %v\n%s\nwant\n%s", x.Name, w.Code, w.Header(), w.Body, &want)
			}
			head := ask(f, "HEAD", "/blocklist."+x.Name, "192.0.2.1:1")
			if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != strconv.Itoa(want.Len()) {
				t.Errorf("HEAD %s: %d, %d bytes, length %s", x.Name, head.Code, head.Body.Len(), head.Header().Get("Content-Length"))
			}
		}
	})
}

func TestFeedRequests(t *testing.T) {
	var s Snapshot
	s.Set(block("192.0.2.1/32", time.Hour), block("192.0.2.3/32", time.Hour), block("192.0.2.5/32", time.Hour))
	f := newFeed(t, &s, Options{})
	for _, x := range []struct {
		method, target string
		want           int
	}{
		{"GET", "/blocklist.txt?cap=2&x=y", 200}, {"GET", "/", 404}, {"GET", "/blocklist", 404}, {"GET", "/blocklist.", 404}, {"GET", "/blocklist.exe", 404},
		{"GET", "/blocklist.txt/", 404}, {"GET", "/x/blocklist.txt", 404}, {"GET", "/check", 404}, {"POST", "/blocklist.txt", 405}, {"DELETE", "/blocklist.txt", 405},
		{"GET", "/blocklist.txt?cap=0", 400}, {"GET", "/blocklist.txt?cap=-1", 400}, {"GET", "/blocklist.txt?cap=1e3", 400}, {"GET", "/blocklist.txt?cap=99999999999999999999", 400},
	} {
		if w := ask(f, x.method, x.target, "192.0.2.1:1"); w.Code != x.want {
			t.Errorf("%s %s: %d, want %d", x.method, x.target, w.Code, x.want)
		}
	}
	w := ask(f, "GET", "/blocklist.cidr?cap=2", "192.0.2.1:1")
	if w.Header().Get("X-Stoplog-Left-Out") != "1" || strings.Count(w.Body.String(), "\n") != 2 {
		t.Errorf("a cap of 2: %v\n%s", w.Header(), w.Body)
	}
}

func TestFeedTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Snapshot
		s.Set(block("192.0.2.0/28", 10*time.Second), block("198.51.100.0/28", time.Hour))
		f := newFeed(t, &s, Options{})
		tag, body := "", ""
		fetch := func(what, path string, want int) {
			t.Helper()
			w := ask(f, "GET", path, "127.0.0.1:1", "If-None-Match", tag, "Accept-Encoding", "gzip")
			if w.Code != want {
				t.Errorf("%s: %d, want %d", what, w.Code, want)
			}
			if w.Code == 304 && (w.Body.Len() > 0 || w.Header().Get("ETag") == "") {
				t.Errorf("%s: 304 with %q and the tag %q", what, w.Body, w.Header().Get("ETag"))
			}
			if w.Code == 200 {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				b, _ := io.ReadAll(z)
				tag, body = w.Header().Get("ETag"), string(b)
				if w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Encoding") != "gzip" {
					t.Errorf("%s: %v", what, w.Header())
				}
			}
		}
		fetch("first", "/blocklist.txt", 200)
		fetch("again", "/blocklist.txt", 304)
		fetch("another format", "/blocklist.nft", 200)
		time.Sleep(2 * time.Second)
		fetch("seconds went on", "/blocklist.nft", 304)
		tag = ""
		fetch("without a tag", "/blocklist.nft", 200)
		if !strings.Contains(body, "192.0.2.0/28 timeout 8s") {
			t.Errorf("two seconds later it should last 8 s:\n%s", body)
		}
		tag = ""
		fetch("plain", "/blocklist.txt", 200)
		s.Set(block("203.0.113.0/28", time.Hour))
		fetch("one more", "/blocklist.txt", 200)
		time.Sleep(8 * time.Second)
		fetch("one ended by itself", "/blocklist.txt", 200)
		if strings.Contains(body, "192.0.2.0/28") {
			t.Errorf("ended, and still there:\n%s", body)
		}
		if err := s.SetAllow(prefixes("203.0.113.0/28")); err != nil {
			t.Fatal(err)
		}
		fetch("allowed", "/blocklist.txt", 200)
		if body != "# stoplog: 1 prefixes\n198.51.100.0/28\n" {
			t.Errorf("got\n%s", body)
		}
		if got, want := f.Counts(), (Counts{Served: 7, Unchanged: 2}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
	})
}

func TestFeedAccess(t *testing.T) {
	for _, x := range []struct {
		name   string
		o      Options
		peer   string
		target string
		header []string
		want   int
	}{
		{"open", Options{}, "203.0.113.1:1", "", nil, 200},
		{"a client", Options{Clients: prefixes("10.0.0.0/8")}, "10.1.2.3:1", "", nil, 200},
		{"a client, mapped", Options{Clients: prefixes("10.0.0.0/8")}, "[::ffff:10.1.2.3]:1", "", nil, 200},
		{"another", Options{Clients: prefixes("10.0.0.0/8")}, "203.0.113.1:1", "", nil, 403},
		{"nobody", Options{Clients: prefixes("10.0.0.0/8")}, "", "", nil, 403},
		{"no token", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", nil, 401},
		{"bearer", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "Bearer s3cret"}, 200},
		{"bearer in small letters", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "bearer s3cret"}, 200},
		{"bearer and more", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "Bearer s3cret x"}, 401},
		{"an empty bearer", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "Bearer "}, 401},
		{"basic", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "Basic YW55OnMzY3JldA=="}, 200},
		{"a wrong password", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "", []string{"Authorization", "Basic YW55OnMzY3JlZA=="}, 401},
		{"query", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "?token=s3cret", nil, 200},
		{"a wrong query", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "?token=S3cret", nil, 401},
		{"an empty query", Options{TokenFile: tokenFile(t, "s3cret")}, "10.0.0.1:1", "?token=", nil, 401},
		{"both", Options{TokenFile: tokenFile(t, "s3cret"), Clients: prefixes("10.0.0.0/8")}, "10.0.0.1:1", "?token=s3cret", nil, 200},
		{"the token alone", Options{TokenFile: tokenFile(t, "s3cret"), Clients: prefixes("10.0.0.0/8")}, "192.0.2.1:1", "?token=s3cret", nil, 403},
		{"the address alone", Options{TokenFile: tokenFile(t, "s3cret"), Clients: prefixes("10.0.0.0/8")}, "10.0.0.1:1", "", nil, 401},
	} {
		f := newFeed(t, &Snapshot{}, x.o)
		w := ask(f, "GET", "/blocklist.txt"+x.target, x.peer, x.header...)
		if w.Code != x.want {
			t.Errorf("%s: %d, want %d", x.name, w.Code, x.want)
		}
		want := Counts{Served: 1}
		if x.want != 200 {
			want = Counts{Refused: 1}
		}
		if got := f.Counts(); got != want {
			t.Errorf("%s: counts %+v, want %+v", x.name, got, want)
		}
		if w.Code != 200 && strings.Contains(w.Body.String(), "s3cret") || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %v\n%s", x.name, w.Header(), w.Body)
		}
	}
	if _, err := New(&Snapshot{}, Options{Clients: []netip.Prefix{{}}}); err == nil {
		t.Error("an invalid client was taken")
	}
}

// broken is a view whose list cannot be written.
type broken struct{ Snapshot }

func (*broken) Entries() ([]export.Entry, uint64) { return []export.Entry{{}}, 1 }

func TestFeedBroken(t *testing.T) {
	f := newFeed(t, &broken{}, Options{})
	for range 2 {
		if w := ask(f, "GET", "/blocklist.txt", "127.0.0.1:1"); w.Code != 500 || w.Header().Get("ETag") != "" {
			t.Errorf("%d %v; want 500, and no empty list", w.Code, w.Header())
		}
	}
}

// TestCacheIsBounded asks for more lists than are kept, and finds each right.
func TestCacheIsBounded(t *testing.T) {
	var s Snapshot
	for i := range 20 {
		s.Set(block(fmt.Sprintf("192.0.2.%d/32", 2*i), time.Hour))
	}
	f := newFeed(t, &s, Options{})
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 3, 12, 1, 11, 2} {
		w := ask(f, "GET", "/blocklist.cidr?cap="+strconv.Itoa(n), "127.0.0.1:1")
		if got := strings.Count(w.Body.String(), "\n"); got != n {
			t.Errorf("a cap of %d: %d lines", n, got)
		}
		if got := len(f.lists.lists); got > maxLists || f.lists.lists[0].cap != n {
			t.Errorf("a cap of %d: %d lists kept, the first of cap %d", n, got, f.lists.lists[0].cap)
		}
	}
	kept := f.lists.lists[0]
	ask(f, "GET", "/blocklist.cidr?cap=2", "127.0.0.1:1")
	if f.lists.lists[0] != kept {
		t.Error("nothing changed, and the list was written anew")
	}
}

func TestCompress(t *testing.T) {
	want := strings.Repeat("192.0.2.0/28\n", 1000)
	b, err := compress([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); string(got) != want || err != nil && !errors.Is(err, io.EOF) || len(b) > len(want)/10 {
		t.Errorf("%d bytes from %d, %v", len(got), len(b), err)
	}
}
