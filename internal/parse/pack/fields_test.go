package pack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// show prints fields in order.
func show(fs []fieldValue) string {
	var parts []string
	for _, f := range fs {
		parts = append(parts, fmt.Sprintf("%s=%s", f.path, f.value))
	}
	return strings.Join(parts, ";")
}

func TestReadJSON(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{}`, ""},
		{`{"a":"b"}`, "a=b"},
		{`{"a":{"b":[1,{"c":true}],"d":null}, "e" : -1.5e3 }`, "a.b.0=1;a.b.1.c=true;a.d=;e=-1.5e3"},
		{`{"a.b":"x\"y\\z\u00e9\ud83d\ude00\n"}`, "a.b=x\"y\\zé😀\n"},
		{`{"a":"b"} trailing`, ""},
		{`{"a":"b"`, ""},
		{`{"a":}`, ""},
		{`{"a" "b"}`, ""},
		{`{"a":"\q"}`, ""},
		{`{"a":"\u12"}`, ""},
		{strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20), ""},
		{`{"a":[` + strings.Repeat("1,", 600) + `1]}`, ""},
	}
	for _, tt := range tests {
		if got := show(readJSON([]byte(tt.text), &Match{})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestReadLogfmt(t *testing.T) {
	tests := []struct{ text, want string }{
		{`a=b c="d e" f= g="h\"i"`, `a=b;c=d e;f=;g=h"i`},
		{`a=b words c=d`, ""},
		{`a="b"c=d`, ""},
		{`a="b`, ""},
		{`=b`, ""},
		{`a=b"c`, ""},
	}
	for _, tt := range tests {
		if got := show(readLogfmt([]byte(tt.text), &Match{})); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

const fieldPack = `
name: app
patterns:
  - fields: {event: login, ok: 'false', msg: '/^bad password of <user>$/'}
    ip: [peer.addr, addr]
    time: ts
`

func TestFields(t *testing.T) {
	p, ps := Load("app.yaml", []byte(fieldPack))
	if p == nil {
		t.Fatal(ps)
	}
	s := NewSet(p)
	tests := []struct{ line, want string }{
		{`{"event":"login","ok":false,"msg":"bad password of alice","peer":{"addr":"192.0.2.7:99"},"ts":1714551072.5}`, "192.0.2.7 alice"},
		{`event=login ok=false msg="bad password of alice" addr=192.0.2.7 ts=1714551072.5`, "192.0.2.7 alice"},
		{`2024-05-01 10:11:12 {"event":"login","ok":false,"msg":"bad password of alice","addr":"192.0.2.7"}`, "192.0.2.7 alice"},
		{`{"event":"login","ok":true,"msg":"bad password of alice","addr":"192.0.2.7"}`, ""},
		{`{"event":"login","ok":false,"msg":"bad password of alice"}`, ""},
		{`{"event":"login","ok":false,"msg":"bad password of alice","addr":"host"}`, ""},
		{`{"event":"login","ok":false,"msg":"bad password of a","addr":"192.0.2.7","addr":"198.51.100.1"}`, ""},
		{`event=login ok=false msg="bad password of a" addr=192.0.2.7 addr=198.51.100.1`, ""},
	}
	for _, tt := range tests {
		var m Match
		got := ""
		if s.MatchBare([]byte(tt.line), &m) {
			got = m.Addr.String() + " " + string(m.User)
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestStampNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"1714551072":          1714551072e9,
		"1714551072.5":        1714551072.5e9,
		"1714551072345":       1714551072345e6,
		"1714551072345000000": 1714551072345000000,
		"-1":                  0,
		"soon":                0,
	} {
		if got := (&Match{}).stamp([]byte(text)); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

// FuzzJSON compares with encoding/json: what it refuses is refused, and a
// string at the top is read alike.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":"b\u00e9\ud83d\ude00"}`)
	f.Add(`{"a":[1,2,{"b":null}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got := readJSON([]byte(text), &Match{})
		if got == nil {
			return
		}
		var want map[string]any
		if json.Unmarshal([]byte(text), &want) != nil {
			return // ours is more lenient about numbers and control bytes
		}
		for k, v := range want {
			s, ok := v.(string)
			if !ok || strings.ContainsRune(text, '\ufffd') || strings.Contains(text, `\u`) {
				continue
			}
			n, val := 0, ""
			for _, g := range got {
				if g.path == k {
					n, val = n+1, string(g.value)
				}
			}
			if n == 1 && strings.ToValidUTF8(val, "\ufffd") != s && strings.ToValidUTF8(val, "") == val {
				t.Errorf("%q of %s: got %q, want %q", k, text, val, s)
			}
		}
	})
}
