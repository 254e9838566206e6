package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

// packLine is a sample of a pack whose lines may break.
type packLine struct {
	pack, ip, user, outcome string
	head, tail              string // around the name that a client chose
	line                    string
}

// packLines are the samples of every pack with patterns of text that does not say
// that its records are one line, with the victim's address and the client's.
func packLines(t testing.TB) map[string][]packLine {
	t.Helper()
	paths, err := filepath.Glob("../parse/pack/packs/*.yaml")
	if err != nil || len(paths) < 50 {
		t.Fatal(len(paths), err)
	}
	out := map[string][]packLine{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Name     string
			OneLine  string `yaml:"one_line"`
			Patterns []struct{ Pattern string }
			Samples  []struct{ Line, IP, User, Outcome string }
		}
		if err := yaml.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		if p.OneLine != "" || !slices.ContainsFunc(p.Patterns, func(x struct{ Pattern string }) bool { return x.Pattern != "" }) {
			continue
		}
		for _, s := range p.Samples {
			l := packLine{pack: p.Name, ip: s.IP, user: s.User, outcome: s.Outcome, line: strings.ReplaceAll(s.Line, "2023-", "2024-")}
			if i := strings.LastIndex(s.Line, s.User); s.User != "" && i >= 0 {
				l.head, l.tail = s.Line[:i], s.Line[i+len(s.User):]
			}
			if s.IP != "" && !strings.HasPrefix(s.Line, "{") {
				out[p.Name] = append(out[p.Name], l)
			}
		}
	}
	return out
}

// names are what the client of l calls itself to have the victim blamed by a
// line of o.
func (l *packLine) names(o *packLine) []string {
	fake := func(s string) string { return strings.ReplaceAll(s, l.ip, victim) }
	whole := strings.ReplaceAll(o.line, o.ip, victim)
	head, tail := fake(l.head), fake(l.tail)
	pad := strings.Repeat("a\n", 2100)
	return []string{
		"x\n" + whole + "\n",
		"x\n" + whole + "\n" + whole + "\ny",
		"\n" + whole + "\n\t",
		"x\n" + pad + whole + "\n" + pad,
		"x\n" + strings.Repeat("a", 5000) + tail + "\n",
		"x" + tail + "\n" + whole + "\ny",
		"x" + tail + "\n" + head + "y",
		"x" + tail + "\ny",
		"x" + tail + "\n" + pad + "y",
		"x" + tail + "\n" + whole + "\n" + head + "y",
	}
}

// TestLineBreaksInPacks: in the log of a pack's service, a client whose name holds
// whole records of that service blames nobody else.
func TestLineBreaksInPacks(t *testing.T) {
	bad := map[string]int{}
	for name, lines := range packLines(t) {
		for i := range lines {
			l := &lines[i]
			if l.head == "" {
				continue
			}
			for j := range lines {
				for n, user := range l.names(&lines[j]) {
					for _, backlog := range []bool{true, false} {
						if backlog && len(user) > 4000 {
							continue // without stamps only what is near counts: see SECURITY.md
						}
						seen := packEvents(t, name, backlog, l.head+user+l.tail)
						for _, s := range seen {
							if strings.Contains(s, victim) {
								bad[name]++
								if bad[name] < 2 {
									t.Errorf("%s (backlog %v, name %d): %s\n%.300s", name, backlog, n, s, strings.ReplaceAll(l.head+user+l.tail, "\na\na\na\na", "…"))
								}
							}
						}
					}
				}
			}
		}
	}
	if n := len(bad); n > 0 {
		t.Errorf("%d packs blame the victim: %v", n, bad)
	}
}

// TestBrokenNamesAreSeen: the client of a record that its name broke is told by
// the record's end.
func TestBrokenNamesAreSeen(t *testing.T) {
	all := packLines(t)
	for _, name := range []string{"adguardhome", "artifactory", "calibre-web", "gitlab", "groupoffice", "jellyfin", "odoo", "paperless-ngx", "plesk", "seafile"} {
		n := 0
		for i := range all[name] {
			l := &all[name][i]
			if l.head == "" || l.outcome == "success" {
				continue
			}
			n++
			for _, user := range l.names(l)[:2] {
				seen := packEvents(t, name, false, l.head+user+l.tail)
				if want := fmt.Sprintf("%s failure %s", name, l.ip); !slices.Equal(seen, []string{want}) {
					t.Errorf("got %q, want %q of\n%s", seen, want, l.head+user+l.tail)
				}
			}
		}
		if n == 0 {
			t.Errorf("%s has no sample with a name", name)
		}
	}
}

// TestPacksInOrder: failures of several clients, seconds apart, with lines between
// them that no pattern reads, are all believed.
func TestPacksInOrder(t *testing.T) {
	for name, lines := range packLines(t) {
		m, n, want := guardMachine(t), 0, 0
		o := &source.Origin{Name: "/l", Service: name, Spec: -1}
		r, err := m.reader(o)
		if err != nil {
			t.Fatal(err)
		}
		add := func(ev *parse.Event) {
			if ev.Addr.IsValid() {
				n++
			}
		}
		for i := range 20 {
			l := &lines[i%len(lines)]
			own := strings.ReplaceAll(l.line, l.ip, fmt.Sprintf("192.0.2.%d", 1+i))
			alone := guardMachine(t)
			if got := eventsOf(t, alone, name, own); got == 0 {
				continue // a session's line, or one that is read by its tag only
			}
			want++
			b := batch(o, false, own, "Starting the service on port 80", "  at com.example.Main(Main.java:7)")
			b.Arrival = noon.Add(time.Duration(3*i) * time.Second)
			r.Read(b)
			m.Join(r, b.Arrival)
			r.Each(add)
			m.Settle(b.Arrival.Add(settled+1), false, func(r *Reader) { r.Each(add) })
		}
		if n != want || m.Stats("/l").Doubted != 0 {
			t.Errorf("%s: %d of %d failures of several clients believed, %d not", name, n, want, m.Stats("/l").Doubted)
		}
	}
}

// eventsOf counts what one line says by itself.
func eventsOf(t testing.TB, m *Machine, service, line string) (n int) {
	t.Helper()
	o := &source.Origin{Name: "/l", Service: service, Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Read(batch(o, false, line))
	r.Each(func(ev *parse.Event) {
		if ev.Addr.IsValid() {
			n++
		}
	})
	return n
}

// TestTwoClientsOfAPack: two clients that take turns within the time that a
// record may take are not both hidden, in whichever order the line names them,
// and neither hides by writing the other's lines.
func TestTwoClientsOfAPack(t *testing.T) {
	const last = "2024-05-01 10:11:%02d,345 1 INFO odoo odoo.addons.base.models.res_users: Login failed for db:odoo login:%s from %s"
	const first = "[2024-05-01 10:11:%02d UTC] [%[3]s:50051] DnsServerCore.DnsWebServiceException: Invalid username or password for user: %[2]s"
	for service, form := range map[string]string{"odoo": last, "technitium": first} {
		var turns, hiding []string
		for i := range 40 {
			turns = append(turns, fmt.Sprintf(form, i, "bob", []string{"192.0.2.1", "192.0.2.2"}[i%2]))
		}
		for i := range 20 { // a guess, and a record with a line of another's in it
			for _, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
				hiding = append(hiding, fmt.Sprintf(form, i, "bob", ip))
			}
		}
		if service == "technitium" {
			for i := 0; i < len(hiding); i += 3 {
				hiding[i+1], hiding[i+2] = hiding[i+2], hiding[i+1]
			}
		}
		count := func(lines []string) (n int) {
			for _, s := range packEvents(t, service, true, strings.Join(lines, "\n")) {
				if strings.HasSuffix(s, "192.0.2.1") {
					n++
				}
			}
			return n
		}
		if n := count(hiding); n < 30 {
			t.Errorf("%s: %d of 40 failures of a client that writes another's lines believed", service, n)
		}
		t.Logf("%s: %d of 20 failures of the first of two clients in turn believed", service, count(turns))
	}
}

// packEvents reads a text as the log of a service.
func packEvents(t testing.TB, service string, backlog bool, text string) (seen []string) {
	t.Helper()
	m := guardMachine(t)
	o := &source.Origin{Name: "/l", Service: service, Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	b := batch(o, backlog, strings.Split(text, "\n")...)
	add := func(ev *parse.Event) {
		if ev.Addr.IsValid() {
			seen = append(seen, fmt.Sprintf("%s %s %s", ev.Service, ev.Outcome, ev.Addr))
		}
	}
	r.Read(b)
	m.Join(r, noon)
	r.Each(add)
	m.Settle(noon.Add(time.Hour), true, func(r *Reader) { r.Each(add) })
	return seen
}

// TestLineBreaksInPrintedLines: what a service prints becomes an entry of the
// journal at each line break; its client blames nobody there either.
func TestLineBreaksInPrintedLines(t *testing.T) {
	l := packLine{ip: "192.0.2.7",
		line: "2024-05-01 10:11:12,345 1 INFO odoo odoo.addons.base.models.res_users: Login failed for db:odoo login:alice from 192.0.2.7",
		head: "2024-05-01 10:11:12,345 1 INFO odoo odoo.addons.base.models.res_users: Login failed for db:odoo login:", tail: " from 192.0.2.7"}
	saw := false
	for _, user := range l.names(&l) {
		m := guardMachine(t)
		o := &source.Origin{Name: "journal", Spec: -1}
		r, err := m.reader(o)
		if err != nil {
			t.Fatal(err)
		}
		b := batch(o, false, strings.Split(l.head+user+l.tail, "\n")...)
		for i := range b.Lines {
			b.Lines[i].Entry = &source.Entry{Time: noon.UnixNano(), Ident: []byte("odoo"), Unit: []byte("odoo.service"), UID: 200, Transport: source.StdoutTransport}
		}
		add := func(ev *parse.Event) {
			if ev.Addr.String() == victim {
				t.Errorf("blamed by %.200q", user)
			}
			saw = saw || ev.Addr.String() == l.ip
		}
		r.Read(b)
		m.Join(r, noon)
		r.Each(add)
		m.Settle(noon.Add(time.Hour), true, func(r *Reader) { r.Each(add) })
	}
	if !saw {
		t.Error("the client is never seen")
	}
}

// TestMurmurIsReadFromSyslogOnly: a Mumble server writes names, versions and
// systems of clients with their line breaks, so that any line of its log file, or
// of what it prints, may be a client's.
func TestMurmurIsReadFromSyslogOnly(t *testing.T) {
	const line = "1 => <4:bob(-1)> Rejected connection from 192.0.2.7:36527: Invalid server password"
	for transport, want := range map[source.Transport]int{0: 1, source.StdoutTransport: 0} {
		m, o := guardMachine(t), &source.Origin{Name: "journal", Spec: -1}
		r, err := m.reader(o)
		if err != nil {
			t.Fatal(err)
		}
		b := batch(o, false, line)
		b.Lines[0].Entry = &source.Entry{Time: noon.UnixNano(), Ident: []byte("murmurd"), PID: 8, UID: 105, Unit: []byte("mumble-server.service"), Transport: transport}
		got := 0
		count := func(ev *parse.Event) {
			if ev.Addr.IsValid() {
				got++
			}
		}
		r.Read(b)
		m.Join(r, noon)
		r.Each(count)
		m.Settle(noon.Add(time.Hour), true, func(r *Reader) { r.Each(count) })
		if got != want {
			t.Errorf("transport %v: got %d events, want %d", transport, got, want)
		}
	}
	for _, path := range []string{"/var/log/mumble-server/mumble-server.log", "/var/log/murmur/murmur.log"} {
		if s := rules.ServiceOf(path); s != "" {
			t.Errorf("%s is read as %s's", path, s)
		}
	}
}
