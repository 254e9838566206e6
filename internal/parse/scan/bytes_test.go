package scan

import (
	"bytes"
	"testing"
)

// FuzzBytes compares with package bytes.
func FuzzBytes(f *testing.F) {
	for _, c := range [][2]string{{"a from b from c", " from "}, {"aaa", "aa"}, {"", "x"}, {"x", ""}, {"ababab", "ab"}, {"x", "xy"}} {
		f.Add([]byte(c[0]), c[1])
	}
	f.Fuzz(func(t *testing.T, b []byte, sep string) {
		if got, want := Index(b, sep), bytes.Index(b, []byte(sep)); got != want {
			t.Errorf("Index(%q, %q) = %d, want %d", b, sep, got, want)
		}
		before, after, ok := Cut(b, sep)
		wb, wa, wok := bytes.Cut(b, []byte(sep))
		if ok != wok || !bytes.Equal(before, wb) || !bytes.Equal(after, wa) {
			t.Errorf("Cut(%q, %q) = %q, %q, %v", b, sep, before, after, ok)
		}
		if len(sep) == 0 {
			return
		}
		i := bytes.LastIndex(b, []byte(sep))
		before, after, ok = Last(b, sep)
		if ok != (i >= 0) || ok && (len(before) != i || !bytes.Equal(after, b[i+len(sep):])) {
			t.Errorf("Last(%q, %q) = %q, %q, %v", b, sep, before, after, ok)
		}
	})
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ in, word, rest, head, last string }{
		{"a b c", "a", "b c", "a b", "c"},
		{"a", "a", "", "", "a"},
		{" a", "", "a", "", "a"},
		{"a ", "a", "", "a", ""},
		{"", "", "", "", ""},
	} {
		word, rest := Word([]byte(c.in))
		head, last := LastWord([]byte(c.in))
		if string(word) != c.word || string(rest) != c.rest || string(head) != c.head || string(last) != c.last {
			t.Errorf("%q: %q %q, %q %q, want %q %q, %q %q", c.in, word, rest, head, last, c.word, c.rest, c.head, c.last)
		}
	}
}

func TestUint(t *testing.T) {
	for _, c := range []struct {
		in, rest string
		want     uint64
		ok       bool
	}{
		{"12: x", ": x", 12, true},
		{"0", "", 0, true},
		{"999999999999999999", "", 999999999999999999, true},
		{"9999999999999999999", "9999999999999999999", 0, false},
		{"x", "x", 0, false},
		{"", "", 0, false},
	} {
		got, rest, ok := Uint([]byte(c.in))
		if got != c.want || string(rest) != c.rest || ok != c.ok {
			t.Errorf("Uint(%q) = %d, %q, %v, want %d, %q, %v", c.in, got, rest, ok, c.want, c.rest, c.ok)
		}
	}
}

func TestEnds(t *testing.T) {
	if rest, ok := After([]byte("error: x"), "error: "); !ok || string(rest) != "x" {
		t.Errorf("After = %q, %v", rest, ok)
	}
	if rest, ok := After([]byte("err"), "error"); ok || string(rest) != "err" {
		t.Errorf("After of another = %q, %v", rest, ok)
	}
	if head, ok := Before([]byte("x [preauth]"), " [preauth]"); !ok || string(head) != "x" {
		t.Errorf("Before = %q, %v", head, ok)
	}
	if head, ok := Before([]byte("x"), "xx"); ok || string(head) != "x" {
		t.Errorf("Before of another = %q, %v", head, ok)
	}
	if got := Trim([]byte(" \t x y \r")); string(got) != "x y" {
		t.Errorf("Trim = %q", got)
	}
	if !FoldEqual([]byte("X-Real-IP"), "x-real-ip") || FoldEqual([]byte("X-Real-IX"), "x-real-ip") || FoldEqual([]byte("X"), "xx") {
		t.Error("FoldEqual is wrong")
	}
	if !Digits([]byte("0123")) || Digits(nil) || Digits([]byte("1a")) {
		t.Error("Digits is wrong")
	}
}
