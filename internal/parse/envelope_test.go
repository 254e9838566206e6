package parse

import (
	"testing"
	"time"

	"stoplog/internal/parse/pack"
	"stoplog/internal/source"
)

const invalid = "Invalid user x from 192.0.2.7 port 1"

func TestEnvelopes(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	for _, c := range []struct{ line, at string }{
		// RFC 3164 and its variants
		{"Nov 20 09:23:10 host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov  2 09:23:10 host sshd[12]: " + invalid, "2026-11-02T08:23:10Z"},
		{"Nov 2 09:23:10 host sshd[12]: " + invalid, "2026-11-02T08:23:10Z"},
		{"<38>Nov 20 09:23:10 host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host sshd: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 192.0.2.1 sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 2001:db8::1 sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host.example sshd[12] " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host (sshd)[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host [sshd][12] " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host sshd     [12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 sshd [12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host /usr/sbin/sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host sshd-session[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 2013 09:23:10 host sshd[12]: " + invalid, "2013-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 2013 host sshd[12]: " + invalid, "2013-11-20T08:23:10Z"},
		{"Nov 20 09:23:10.123 host sshd[12]: " + invalid, "2026-11-20T08:23:10.123Z"},
		{"[Nov 20 09:23:10] host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Dec 31 23:59:59 host sshd[12]: " + invalid, "2025-12-31T22:59:59Z"},
		// facilities: BSD's syslogd -v, busybox, socklog
		{"Nov 20 09:23:10 <10.5> host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 <auth.info> host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host auth.info sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"2026-11-20T09:23:10.12345 auth.info: sshd[12]:  " + invalid, "2026-11-20T08:23:10.12345Z"},
		{"@4000000069145a3a0a3b1c2d auth.info: Nov 20 09:23:10 sshd[12]: " + invalid, ""},
		{"2026-11-20T09:23:10.123Z In(38) sshd[12]: " + invalid, "2026-11-20T09:23:10.123Z"},
		{"Nov 20 09:23:10 host auth|security:info sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 [sshd] " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host sshd[12]: [ID 800047 auth.info] " + invalid, "2026-11-20T08:23:10Z"},
		{"Nov 20 09:23:10 host kernel: [  970.699396] @guest sshd[12] " + invalid, "2026-11-20T08:23:10Z"},
		// ISO stamps
		{"2026-11-20T09:23:10.123456+00:00 host sshd[12]: " + invalid, "2026-11-20T09:23:10.123456Z"},
		{"2026-11-20T09:23:10Z host sshd[12]: " + invalid, "2026-11-20T09:23:10Z"},
		{"2026-11-20 09:23:10 host sshd[12]: " + invalid, "2026-11-20T08:23:10Z"},
		{"2026-11-20 09:23:10,123 host sshd[12]: " + invalid, "2026-11-20T08:23:10.123Z"},
		{"2026-11-20 09:23:10 UTC host sshd[12]: " + invalid, "2026-11-20T09:23:10Z"},
		// RFC 5424
		{"<38>1 2026-11-20T09:23:10.123Z host sshd 12 - - " + invalid, "2026-11-20T09:23:10.123Z"},
		{"<38>1 2026-11-20T09:23:10.123Z host sshd 12 ID47 [a@1 b=\"c \\\" ] d\"][e@2 f=\"g\"] " + invalid, "2026-11-20T09:23:10.123Z"},
		{"<38>1 2026-11-20T09:23:10.123Z host sshd 12 - - \xef\xbb\xbf" + invalid, "2026-11-20T09:23:10.123Z"},
		{"<38>1 2026-11-20T09:23:10Z relay - - - - Nov 20 09:23:11 host sshd[12]: " + invalid, "2026-11-20T08:23:11Z"},
		{"<38>1 2026-11-20T09:23:10Z relay - - - - sshd[12]: " + invalid, "2026-11-20T09:23:10Z"},
		// relayed
		{"Nov 20 09:23:10 relay Nov 20 09:23:11 host sshd[12]: " + invalid, "2026-11-20T08:23:11Z"},
		{"Nov 20 09:23:10 relay 2026-11-20T09:23:11Z host sshd[12]: " + invalid, "2026-11-20T09:23:11Z"},
		// journalctl's text, without a stamp
		{"host sshd[12]: " + invalid, ""},
		{"sshd[12]: " + invalid, ""},
		// containers
		{`{"log":"Nov 20 09:23:10 host sshd[12]: ` + invalid + `\n","stream":"stderr","time":"2026-11-20T09:23:10.5Z"}`, "2026-11-20T08:23:10Z"},
		{`{"log":"sshd[12]: ` + invalid + `\r\n","stream":"stderr","attrs":{"a":"b"},"time":"2026-11-20T09:23:10.5Z"}`, "2026-11-20T09:23:10.5Z"},
		{"2026-11-20T09:23:10.5Z stderr F sshd[12]: " + invalid, "2026-11-20T09:23:10.5Z"},
		{"2026-11-20T09:23:10.5+01:00 stdout F sshd[12]: " + invalid, "2026-11-20T08:23:10.5Z"},
		// ends
		{"Nov 20 09:23:10 host sshd[12]: " + invalid + " \r", "2026-11-20T08:23:10Z"},
	} {
		ev, ok := readLine(t, Options{Location: zone}, c.line)
		if got := brief(&ev, ok); got != "failure unknown_user 192.0.2.7 user=x" || ev.Service != "sshd" {
			t.Errorf("%s\n got %s", c.line, got)
			continue
		}
		at := ""
		if ev.Time != 0 {
			at = time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano)
		}
		if at != c.at && c.line[0] != '@' {
			t.Errorf("%s\nat %s, want %s", c.line, at, c.at)
		}
		if string(ev.Message) != invalid {
			t.Errorf("%s\nmessage %q", c.line, ev.Message)
		}
	}
}

func TestNoEnvelope(t *testing.T) {
	for _, line := range []string{
		"",
		"x",
		"<38>",
		"<38>1 2026-11-20T09:23:10.123Z host sshd 12 - [a b=\"c\" " + invalid,
		"<38>1 2026-11-20T09:23:10.123Z host",
		"<999999>Nov 20 09:23:10 host sshd[12]: " + invalid,
		"Nov 20 09:23:10 host evil sshd[12]: " + invalid,
		"Nov 20 09:23:10 ho=st sshd[12]: " + invalid,
		"Nov 20 09:23:10 host chat[12]: sshd[12]: " + invalid,
		"Nov 20 09:23:10 host chat[12]: Nov 20 09:23:10 host sshd[12]: " + invalid,
		"Nov 20 09:23:10 host stoplog[12]: " + invalid,
		"Nov 20 09:23:10 host last message repeated 3 times",
		"2026-11-20T09:23:10.123Z In(38)+ sshd[12]: " + invalid,
		"2026-11-20T09:23:10.123Z In(x) sshd[12]: " + invalid,
		"Nov 20 09:23:10 [error] " + invalid,
		"Nov 20 09:23:10 host chat[12]: [sshd] " + invalid,
		"[sshd] " + invalid,
		"2026-11-20 09:23:10 [login] FAILED LOGIN 1 FROM 192.0.2.1 FOR x, y",
		"<38>1 2026-11-20T09:23:10Z relay chat - - - Nov 20 09:23:11 host sshd[12]: " + invalid,
		`{"log":"sshd[12]: ` + invalid + `","stream":"stderr"}`,
		`{"log":"sshd[12]: ` + invalid,
		`{"log":"sshd[12]: \ud8`,
		"2026-11-20T09:23:10.5Z stderr P sshd[12]: " + invalid,
		invalid,
		"H=(sshd[1]: x) sshd[12]: " + invalid,
	} {
		ev, ok := readLine(t, Options{}, line)
		if ok && ev.Addr.IsValid() {
			t.Errorf("%s\nblames %v", line, ev.Addr)
		}
	}
}

func TestHintReadsWhatNothingWraps(t *testing.T) {
	for _, line := range []string{
		invalid,
		"2026-11-20 09:23:10.108781500 " + invalid,
		"2026-11-20T09:23:10.4 auth.info: " + invalid,
		"Nov 20 09:23:10 host othername[12]: " + invalid,
	} {
		for _, service := range []string{"sshd", "ssh", "sshd-session"} {
			ev, ok := readLine(t, Options{Service: service}, line)
			if got := brief(&ev, ok); got != "failure unknown_user 192.0.2.7 user=x" {
				t.Errorf("%s as %s\n got %s", line, service, got)
			}
		}
	}
}

func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		msg   string
		count int
	}{
		{"message repeated 5 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", 5},
		{"message repeated 5 times: [Failed password for root from 192.0.2.7 port 1 ssh2]", 5},
		{"message repeated 99999999 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", maxRepeat},
		{"message repeated 2 times: [ PAM 2 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root]", 4},
		{"Failed password for root from 192.0.2.7 port 1 ssh2", 1},
		{"message repeated 5 times: [ Failed password for root from 192.0.2.7 port 1 ssh2", 0},
		{"message repeated 0 times: [ Failed password for root from 192.0.2.7 port 1 ssh2]", 0},
		{"message repeated 5 times", 0},
	} {
		ev, ok := readLine(t, Options{}, sshdHead+c.msg)
		if ok != (c.count > 0) || ev.Count != c.count {
			t.Errorf("%s: count %d, %v, want %d", c.msg, ev.Count, ok, c.count)
		}
	}
}

func TestCutLines(t *testing.T) {
	p, err := New(Options{Sniff: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want bool
	}{
		{"192.0.2.7 - - [20/Nov/2026:09:23:10 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"a long agent", true},
		{sshdHead + "Failed password for invalid user x from 192.0.2.7 port 1 ssh2", false},
		{"", false},
	} {
		var ev Event
		if ok := p.Parse(&source.Line{Text: []byte(c.line), Cut: true}, testNow, &ev); ok != c.want {
			t.Errorf("%s: %v, want %v", c.line, ok, c.want)
		}
	}
}

// TestUnknownProgramsBlameNobody: a program that we know nothing of may log
// what outsiders say.
func TestUnknownProgramsBlameNobody(t *testing.T) {
	packs, err := pack.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"Nov 20 09:23:10 h chat[1]: ", "2026-11-20T09:23:10Z h chat[1]: ", "<38>1 2026-11-20T09:23:10Z h chat 1 - - ", "h chat[1]: ", "2026-11-20 09:23:10 h chat: "} {
		for _, v := range victims {
			ev, ok := readLine(t, Options{Packs: packs}, head+v)
			if ok && ev.Addr.IsValid() {
				t.Errorf("%s%s\nblames %v", head, v, ev.Addr)
			}
		}
	}
}

// TestConnKeys: a connection is one host's process.
func TestConnKeys(t *testing.T) {
	conns := map[uint64]string{}
	for _, head := range []string{"a sshd[1]: ", "a sshd[2]: ", "b sshd[1]: ", "a dropbear[1]: "} {
		text := invalid
		if head == "a dropbear[1]: " {
			text = "Bad password attempt for 'x' from 192.0.2.7:1"
		}
		ev, ok := readLine(t, Options{}, "Nov 20 09:23:10 "+head+text)
		if !ok || ev.Conn == 0 {
			t.Fatalf("%s: conn %d, %v", head, ev.Conn, ok)
		}
		if other, known := conns[ev.Conn]; known {
			t.Errorf("%q and %q are one connection", head, other)
		}
		conns[ev.Conn] = head
	}
}

// TestStampMemory: a remembered stamp reads as a fresh one does.
func TestStampMemory(t *testing.T) {
	p, err := New(Options{Location: time.FixedZone("CET", 3600)})
	if err != nil {
		t.Fatal(err)
	}
	stamps := []string{
		"Nov 20 09:23:10 h", "Nov 20 09:23:11 h", "Nov 20 09:23:59 h", "Nov 20 09:23:10 2013 h", "Nov 20 09:23:10 2013", "Nov 20 09:23:60 h", "Nov 20 09:23:7x h", "Nov 20 09:24:00 h",
		"2026-11-20T09:23:10.5+00:00 h", "2026-11-20T09:23:11.123456789+00:00 h", "2026-11-20T09:23:12+00:00 h",
		"2026-11-20T09:23:12+02:00 h", "2026-11-20T09:23:13Z h", "2026-11-20T09:23:13 h", "2026-11-20T09:23:14Z h",
		"2026-11-20T09:23:61Z h", "2025-11-20T09:23:13Z h", "Nov 20 09:23:10 2013 h", "Nov 20 09:23:10 h",
	}
	for range 2 {
		for _, s := range stamps {
			b := []byte(s + " sshd[1]: some message")
			p.cur.Ref = testNow
			ns, rest, ok := p.stamp(b)
			fresh := &Parser{opt: p.opt, cur: p.cur}
			wantNs, wantRest, wantOK := fresh.freshStamp(b)
			if ns != wantNs || ok != wantOK || ok && string(rest) != string(wantRest) {
				t.Errorf("%q = %d, %q, %v, want %d, %q, %v", s, ns, rest, ok, wantNs, wantRest, wantOK)
			}
		}
	}
}

func TestCustom(t *testing.T) {
	pk, problems := pack.Load("my-app", []byte(`
name: my-app
origin: the manual
patterns:
  - pattern: 'login failed user=(?P<user>\S+) ip=(?P<ip>\S+)$'
samples:
  - {line: 'login failed user=a ip=192.0.2.7', ip: 192.0.2.7}
`))
	for _, pr := range problems {
		t.Log(pr)
	}
	if pk == nil {
		t.Fatal("the pattern was refused")
	}
	p, err := New(Options{Custom: Patterns{Free: pack.NewSet(pk)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"login failed user=ann ip=192.0.2.7", "failure 192.0.2.7 user=ann"},
		{"Nov 20 09:23:10 host my-app[1]: login failed user=ann ip=192.0.2.7", "failure 192.0.2.7 user=ann"},
		{"Nov 20 09:23:10 host stoplog[1]: login failed user=ann ip=192.0.2.7", ""},
		{"Nov 20 09:23:10 host my-app[1]: all is well", ""},
	} {
		var ev Event
		ok := p.Parse(&source.Line{Text: []byte(c.line)}, testNow, &ev)
		if ok && ev.Service == "my-app" {
			t.Errorf("%s: Parse itself reads it", c.line)
		}
		got := ""
		p.Custom(&ev, func(ev *Event) { got += brief(ev, true) })
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

// FuzzParse: no line makes the parser panic, or blame anything but an address
// that stands in the line.
func FuzzParse(f *testing.F) {
	for _, v := range victims {
		f.Add([]byte(v), "")
	}
	for _, c := range benchLines {
		f.Add([]byte(c.line), "sshd")
	}
	f.Add([]byte(`{"log":"sshd[12]: Inv\u0061lid user x from 192.0.2.7\n","stream":"stderr","time":"2026-11-20T09:23:10.5Z"}`), "")
	f.Add([]byte("<38>1 2026-11-20T09:23:10.123Z host sshd 12 ID47 [a@1 b=\"c \\\" ] d\"] x"), "pam")
	f.Add([]byte(`{"log":"\n","stream":"stderr","time":"2026-11-20T09:23:10.5Z"}`), "")
	f.Add([]byte("2026-11-20T09:23:10.5Z stdout F "), "x")
	packs, err := pack.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line []byte, service string) {
		p, err := New(Options{Service: service, Packs: packs, Sniff: len(line)%2 == 0})
		if err != nil {
			t.Skip()
		}
		var ev Event
		for range 2 {
			if !p.Parse(&source.Line{Text: line}, testNow, &ev) {
				continue
			}
			if ev.Service == "" || ev.Addr.Is4In6() || ev.Addr.Zone() != "" || ev.Count < 1 || ev.Count > maxRepeat*maxRepeat {
				t.Errorf("%q as %q: %+v", line, service, ev)
			}
			p.Reset()
		}
	})
}

// TestLineTime: a line tells its time by itself, to nobody's reader, or has none.
func TestLineTime(t *testing.T) {
	ref := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for line, want := range map[string]string{
		"2026-11-20T09:23:10Z x":                                            "09:23:10",
		"<38>Nov 20 09:23:10 h sshd: x":                                     "09:23:10",
		"WARN 2026-11-20 09:23:10,123 x":                                    "09:23:10",
		`192.0.2.7 - - [20/Nov/2026:09:23:10 +0000] "GET / HTTP/1.1" 200 5`: "09:23:10",
		`{"time":"2026-11-20T09:23:10Z","msg":"x"}`:                         "09:23:10",
		`{"log":"x\n","stream":"stdout","time":"2026-11-20T09:23:10Z"}`:     "09:23:10",
		`time=2026-11-20T09:23:10Z msg=x`:                                   "09:23:10",
		"hello":                                                             "",
		"":                                                                  "",
		"{":                                                                 "",
		"'@'":                                                               "",
		"<38>":                                                              "",
		`a "b" c`:                                                           "",
	} {
		got := ""
		if ns, ok := LineTime([]byte(line), ref.UnixNano(), time.UTC); ok {
			got = time.Unix(0, ns).UTC().Format(time.TimeOnly)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
