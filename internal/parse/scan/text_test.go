package scan

import "testing"

func TestClientBox(t *testing.T) {
	for _, c := range []struct{ in, addr, rest string }{
		{"unknown[192.0.2.1]: x", "192.0.2.1", ": x"},
		{"a-b.example_x[192.0.2.1]:4711 y", "192.0.2.1", " y"},
		{"[2001:db8::1]:4711", "2001:db8::1", ""},
		{"::ffff:192.0.2.1[::ffff:192.0.2.1])", "192.0.2.1", ")"},
		{"mx[IPv6:2001:db8::1]", "2001:db8::1", ""},
		{"a b[192.0.2.1]", "", ""},
		{"a<[192.0.2.1]", "", ""},
		{"unknown[unknown]", "", ""},
		{"unknown[192.0.2.1", "", ""},
		{"unknown[192.0.2.1.5]", "", ""},
		{"unknown[fe80::1%eth0]", "", ""},
		{"", "", ""},
	} {
		a, rest, ok := ClientBox([]byte(c.in))
		if c.addr == "" {
			if ok {
				t.Errorf("%q: got %v, want none", c.in, a)
			}
			continue
		}
		if !ok || a.String() != c.addr || string(rest) != c.rest {
			t.Errorf("%q: got %v %q %v, want %s %q", c.in, a, rest, ok, c.addr, c.rest)
		}
	}
}

func TestTrimTimes(t *testing.T) {
	for in, want := range map[string]string{
		"x: 2 Time(s)": "x", "x: 535 y: 1 Time(s) ": "x: 535 y", "x Time(s)": "x Time(s)", " x ": "x", "": "",
	} {
		if got := string(TrimTimes([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestCutNear(t *testing.T) {
	if _, after, ok := CutNear([]byte("ab] cd] ef"), "] ", 4); !ok || string(after) != "cd] ef" {
		t.Errorf("got %q %v, want the text behind the first", after, ok)
	}
	if _, _, ok := CutNear([]byte("ab] cd"), "] ", 3); ok {
		t.Error("got a separator beyond the limit, want none")
	}
}
