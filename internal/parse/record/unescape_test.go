package record

import "testing"

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
