package day

import (
	"bytes"
	"testing"
)

// TestOrder: the lines of a long log are in order, too.
func TestOrder(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, 200_000); err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range bytes.Lines(b.Bytes()) {
		if at := string(line[:15]); at < last {
			t.Fatalf("%s comes after %s", at, last)
		} else {
			last = at
		}
	}
}

// TestWrite: so many lines, the same each time, and the shorter log is no
// beginning of the longer, for both last a day.
func TestWrite(t *testing.T) {
	var a, b bytes.Buffer
	for _, w := range []*bytes.Buffer{&a, &b} {
		if err := Write(w, 500); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two runs differ")
	}
	lines := bytes.Split(bytes.TrimSuffix(a.Bytes(), []byte("\n")), []byte("\n"))
	if len(lines) != 500 {
		t.Errorf("got %d lines, want 500", len(lines))
	}
	if first, last := lines[0], lines[499]; !bytes.HasPrefix(first, []byte("Nov 19 00:00:00 ")) || !bytes.HasPrefix(last, []byte("Nov 19 23:57:")) {
		t.Errorf("got a day from %.15s to %.15s", first, last)
	}
}
