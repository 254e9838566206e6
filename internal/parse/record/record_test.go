package record

import (
	"strings"
	"testing"
)

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain", `a\tb\r\n\b\f`: "a\tb\r\n\b\f", `\\\"\/`: `\"/`, `\u0041\x42`: "AB",
		`\ud83d\ude00`: "😀", `\ud83d`: "\ufffd", `\ud83dx`: "\ufffdx", `\u12`: `\u12`, `\xg0`: `\xg0`, `\q`: `\q`, `\`: `\`,
	} {
		if got := string(Unescape(nil, []byte(in))); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestStringEnd(t *testing.T) {
	for in, want := range map[string]int{
		`"" x`: 2, `"a"`: 3, `"\""`: 4, `"\\"`: 4, `"\\\""x`: 6, `"a`: -1, `"a\"`: -1, `x`: -1, ``: -1, `"`: -1, `"\`: -1,
		`"` + strings.Repeat(`\a`, 1000) + `"`: 2002,
	} {
		if got := StringEnd([]byte(in), 0); got != want {
			t.Errorf("%.20s: got %d, want %d", in, got, want)
		}
	}
}
