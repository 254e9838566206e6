package parse

import (
	"fmt"
	"strings"
	"testing"

	"stoplog/internal/parse/parsetest"
)

func TestFieldMap(t *testing.T) {
	fields := map[string]string{"ip": "net.peer.addr", "user": "who", "outcome": "auth.result", "country": "geo.cc", "method": "verb"}
	for _, c := range []struct{ format, line, want string }{
		{"json", `{"net":{"peer":{"addr":"192.0.2.7:40"}},"who":"ann","auth":{"result":"FAILED"},"geo":{"cc":"CH"}}`, "failure 192.0.2.7 user=ann [{country CH}]"},
		{"json", `{"net.peer.addr":"192.0.2.7","who":"ann","auth.result":"ok"}`, "success 192.0.2.7 user=ann []"},
		{"json", `{"net":{"peer":{"addr":"192.0.2.7"}},"auth":{"result":"what"},"geo":{"cc":"C\"H"}}`, `other 192.0.2.7 [{country C"H}]`},
		{"json", `{"net":{"peer":{"addr":"192.0.2.7"}},"verb":"GET","uri":"/","status":401,"user":"bob"}`, "other 192.0.2.7 []"},
		{"logfmt", `net.peer.addr=192.0.2.7 who=ann auth.result=denied geo.cc=CH`, "failure 192.0.2.7 user=ann [{country CH}]"},

		// what is guessed elsewhere does not count
		{"json", `{"remote_addr":"203.0.113.66","who":"ann","auth":{"result":"failed"}}`, "-"},
		{"json", `{"remote_addr":"203.0.113.66","net":{"peer":{"addr":"192.0.2.7"}},"auth":{"result":"failed"},"msg":"login ok"}`, "failure 192.0.2.7 []"},
		{"json", `{"net":{"peer":{"addr":{"x":"192.0.2.7"}}},"auth":{"result":"failed"}}`, "-"},
		// two that differ are none
		{"json", `{"net":{"peer":{"addr":"192.0.2.7"}},"net":{"peer":{"addr":"203.0.113.66"}},"auth":{"result":"failed"}}`, "failure []"},
		{"json", `{"net":{"peer":{"addr":"192.0.2.7"}},"net.peer.addr":"203.0.113.66","auth":{"result":"failed"}}`, "failure []"},
		// another's "addr"
		{"json", `{"net":{"addr":"203.0.113.66"},"peer":{"addr":"203.0.113.66"},"addr":"203.0.113.66","auth":{"result":"failed"}}`, "-"},
	} {
		ev, ok := readLine(t, Options{Format: c.format, Map: fields}, c.line)
		got := brief(&ev, ok)
		if ok {
			got += " " + fieldList(&ev)
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

func fieldList(ev *Event) string {
	var out []string
	for _, f := range ev.Fields {
		out = append(out, fmt.Sprintf("{%s %s}", f.Name, f.Value))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func TestFieldMapMistakes(t *testing.T) {
	many := map[string]string{}
	for i := range 16 + 1 {
		many[fmt.Sprint("f", i)] = "a"
	}
	for _, c := range []struct {
		format string
		m      map[string]string
		want   string
	}{
		{"json", map[string]string{"ip": ""}, `field "ip": "" is no dotted path of keys`},
		{"json", map[string]string{"ip": "a..b"}, `field "ip": "a..b" is no dotted path of keys`},
		{"combined", map[string]string{"ip": "a"}, `format "combined": fields are for json and logfmt`},
		{"", map[string]string{"ip": "a"}, `format "": fields are for json and logfmt`},
		{"json", map[string]string{"uri": "a", "path": "b"}, `field "uri": path and uri are one, and named twice`},
		{"json", many, `field "f9": more than 16 fields of your own`},
	} {
		_, err := New(Options{Format: c.format, Map: c.m})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.m, err, c.want)
		}
	}
}

// FuzzFieldMap: whatever stands in the fields that clients fill, the address is
// the one at the mapped path.
func FuzzFieldMap(f *testing.F) {
	for _, s := range parsetest.WebTexts() {
		f.Add(s)
	}
	p, err := New(Options{Sniff: true, Format: "json", Map: map[string]string{"ip": "net.addr", "user": "who.name", "x": "who.x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, form := range []string{`{"who":{"name":%[1]q,"x":%[1]q},"net":{"addr":"192.0.2.7"},%[1]q:%[1]q}`, `{"net":{"addr":"192.0.2.7"},"ua":"%[1]s","who":{"name":"%[1]s"}}`} {
			ev, ok := parseOne(t, p, fmt.Sprintf(form, strings.ToValidUTF8(s, "?")))
			if ok && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" && !strings.Contains(s, "net") {
				t.Errorf("%q blames %v", s, ev.Addr)
			}
		}
	})
}
