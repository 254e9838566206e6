package pack

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// readBy runs one pattern over one text.
func readBy(t *testing.T, expr, text string) (*Match, bool) {
	t.Helper()
	e, _, err := parseExpression(expr, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &Match{}
	return m, e.match([]byte(text), m)
}

func TestExpressionAddress(t *testing.T) {
	tests := []struct{ expr, text, want string }{
		{`from <ip>`, "from 192.0.2.7", "192.0.2.7"},
		{`from <ip>`, "from 192.0.2.7 ", "192.0.2.7"},
		{`from <ip>`, "from 192.0.2.7 and on", ""}, // closed at the end by itself
		{`from <ip>.*`, "from 192.0.2.7 and on", "192.0.2.7"},
		{`from (?P<ip>\S+)$`, "from 192.0.2.7:41922", "192.0.2.7"},
		{`from (?P<ip>\S+): gone`, "from 192.0.2.7:41922: gone", "192.0.2.7"},
		{`from (?P<ip>[^:]+):\d+: gone`, "from 192.0.2.7:41922: gone", "192.0.2.7"},
		{`from <ip>: gone`, "from [2001:db8::7]:0: gone", "2001:db8::7"},
		{`from \[<ip>\]: gone`, "from [2001:db8::7]: gone", "2001:db8::7"},
		{`from <ip>`, "from ::ffff:192.0.2.7", "192.0.2.7"},
		{`from <ip>`, "from 192.0.2.7#3074", "192.0.2.7"},
		{`from <ip>`, "from 192.0.2.7.50550", "192.0.2.7"},
		{`from <ip>\.`, "from 192.0.2.7.", "192.0.2.7"},
		{`from <ip>`, "from 192.0.2.7.example.org", ""},
		{`from <ip>.*`, "from 192.0.2.77.example.org", ""},
		{`from <ip>`, "from 192.0.2.256", ""},
		{`from <ip>`, "from host.example.org", ""},
		{`from <ip>`, "from fe80::7%eth0", ""},
		{`\[<ip>:\d+\]`, "[2001:db8::7:4919]", "2001:db8::7"},
		{`\[<ip>\]`, "[2001:db8::7:4919]", "2001:db8::7:4919"},
		{`\[<ip>(?::\d+)?\]`, "[2001:db8::7:4919]", ""}, // two readings
		{`ip4:<ip>:`, "ip4:192.0.2.7: x", ""},
		{`ipv4:<ip>:\d+`, "ipv4:192.0.2.7:99", "192.0.2.7"},
		// What the group does not catch is not the address.
		{`^failed(?: from <ip>)?.*`, "failed from 192.0.2.7", "192.0.2.7"},
		{`^failed(?: from <ip>)?.*`, "failed for 198.51.100.66", ""},
		{`^failed(?: from <ip>)?.*`, "failed from 192.0.2.7 for 198.51.100.66", "192.0.2.7"},
		{`^(?:failed from <ip>|gone).*`, "gone: 198.51.100.66", ""},
		{`^(?:a (?P<ip>\S+)|b (?P<ip>\S+))$`, "b 192.0.2.7", "192.0.2.7"},
		// Two groups are two places.
		{`a (?P<ip>\S+) b (?P<ip>\S+)$`, "a 192.0.2.7 b 198.51.100.66", ""},
		{`a (?P<ip>\S+)(?: b (?P<ip>\S+))?$`, "a 192.0.2.7 b 198.51.100.66", ""},
		{`a (?P<ip>\S+)(?: b (?P<ip>\S+))?$`, "a 192.0.2.7", "192.0.2.7"},
	}
	for _, tt := range tests {
		m, ok := readBy(t, tt.expr, tt.text)
		got := ""
		if ok {
			got = m.Addr.String()
		}
		if got != tt.want {
			t.Errorf("%s in %q: got %q, want %q", tt.expr, tt.text, got, tt.want)
		}
	}
}

func TestTwoReadingsAreNone(t *testing.T) {
	const open = `login of <user> from <ip>: .*`
	if m, ok := readBy(t, open, "login of x from 198.51.100.1: y from 192.0.2.7: no"); ok {
		t.Errorf("got %s, want nobody", m.Addr)
	}
	// The same forged name twice, as where a service repeats it in its reason:
	// both ends of the line agree, and are wrong.
	if m, ok := readBy(t, open, "login of x from 198.51.100.1: y from 192.0.2.7: no x from 198.51.100.1: y"); ok {
		t.Errorf("got %s, want nobody", m.Addr)
	}
	if m, ok := readBy(t, open, "login of x from 192.0.2.7: y from 192.0.2.7: no"); !ok || m.Addr != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("one address in two places: got %v %t", m.Addr, ok)
	}
}

func TestGroups(t *testing.T) {
	m, ok := readBy(t, `^(?P<time>\S+ \S+) <user> in (?P<conn>\w+) at (?P<realm>\w+) from <ip>`,
		"2024-05-01 10:11:12 alice smith in c7 at lan from 192.0.2.7")
	if !ok || string(m.User) != "alice smith" || string(m.Conn) != "c7" || len(m.Fields) != 1 ||
		m.Fields[0].Name != "realm" || string(m.Fields[0].Value) != "lan" {
		t.Errorf("got %+v %t", m, ok)
	}
	if want := time.Date(2024, 5, 1, 10, 11, 12, 0, time.UTC).UnixNano(); m.Time != want {
		t.Errorf("time: got %d, want %d", m.Time, want)
	}
}

func TestBounds(t *testing.T) {
	long := "from 192.0.2.7 " + strings.Repeat("x", maxText)
	if _, ok := readBy(t, `from <ip>.*`, long); ok {
		t.Error("a text over the limit was read")
	}
	many := strings.Repeat("192.0.2.9 ", maxSpans) + "from 192.0.2.7"
	if _, ok := readBy(t, `from <ip>`, many); ok {
		t.Error("a text with more addresses than are looked at was read")
	}
	if _, ok := addresses([]byte(many), nil); ok {
		t.Error("addresses: got ok, want too many")
	}
}

func TestView(t *testing.T) {
	tests := []struct{ line, plain, rest string }{
		{"hello", "hello", ""},
		{"  hello \r", "  hello", ""},
		{"2024-05-01 10:11:12 hello", "2024-05-01 10:11:12 hello", "hello"},
		{"[2024-05-01 10:11:12,345] [INFO] hello", "[2024-05-01 10:11:12,345] [INFO] hello", "[INFO] hello"},
		{"2024-05-01T10:11:12Z: hello", "2024-05-01T10:11:12Z: hello", "hello"},
		{"\x1b[36mred\x1b[0m x", "red x", ""},
		{"#033[1;32mred#033[0m x", "red x", ""},
		{"\x1b[36 not a colour", "\x1b[36 not a colour", ""},
		{"web-1  | hello", "hello", ""},
		{"not | a container", "a container", ""},
		{"no container| here", "no container| here", ""},
		{"a\x00b", "a\x01b", ""},
	}
	for _, tt := range tests {
		v := newView([]byte(tt.line), &Match{})
		if string(v.plain) != tt.plain || string(v.rest) != tt.rest {
			t.Errorf("%q: got %q %q, want %q %q", tt.line, v.plain, v.rest, tt.plain, tt.rest)
		}
	}
}
