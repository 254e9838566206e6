package pipeline

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"stoplog/internal/parse"
	"stoplog/internal/rules"
	"stoplog/internal/session"
	"stoplog/internal/source"
)

const (
	victim = "198.51.100.66"
	denied = "%s 9 [Warning] Access denied for user '%s'@'%s' (using password: YES)"
)

// denial is a record of MariaDB, at noon and so many seconds.
func denial(seconds int, user, addr string) string {
	return fmt.Sprintf(denied, noon.Add(time.Duration(seconds)*time.Second).Format(time.DateTime), user, addr)
}

// guarded reads text as the log of a service, in batches of that many lines,
// and gives what is believed of it.
func guarded(t testing.TB, service, text string, batches int, between func(m *Machine) *Machine) (seen []string, doubted uint64) {
	t.Helper()
	m := guardMachine(t)
	o := &source.Origin{Name: "/l", Service: service, Spec: -1}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	add := func(ev *parse.Event) {
		if ev.Addr.IsValid() {
			seen = append(seen, fmt.Sprintf("%s %s %s %d", ev.Service, ev.Outcome, ev.Addr, ev.Time))
		}
	}
	for at := 0; at < len(lines); at += batches {
		b := batch(o, true, lines[at:min(at+batches, len(lines))]...)
		r, err := m.reader(o)
		if err != nil {
			t.Fatal(err)
		}
		r.Read(b)
		m.Join(r, noon)
		r.Each(add)
		if between != nil {
			doubted += m.Stats("/l").Doubted
			m = between(m)
		}
	}
	m.Settle(noon, true, func(r *Reader) { r.Each(add) })
	return seen, doubted + m.Stats("/l").Doubted
}

// guardCompiled has no rules: a fuzzer makes many machines.
var guardCompiled = sync.OnceValues(func() (*Compiled, error) {
	set, problems := rules.LoadBytes("test", []byte("use: []\nprotect: {own: false, ssh_peers: false}\nsources: [{file: /none}]\nrules: [{name: a, match: {outcome: failure}, bucket: {capacity: 5, leak: 1m}}]\n"), "")
	if set == nil {
		return nil, fmt.Errorf("%v", problems)
	}
	return Compile(set, time.UTC)
})

// guardMachine is a machine without detection.
func guardMachine(t testing.TB) *Machine {
	t.Helper()
	compiled, err := guardCompiled()
	if err != nil {
		t.Fatal(err)
	}
	m := New(compiled, nil, nil)
	m.Sessions = session.New(64)
	return m
}

// restarted is a machine that goes on from the snapshot of another.
func restarted(t testing.TB) func(m *Machine) *Machine {
	return func(m *Machine) *Machine {
		b, err := m.MarshalGuards()
		if err != nil {
			t.Fatal(err)
		}
		n := guardMachine(t)
		if err := n.UnmarshalGuards(b); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

const nginxLine = `2026/11/20 12:00:00 [error] %s: *%d %s, client: %s, server: , request: "%s", host: "h"`

// TestLineBreaksInRecords: a client that writes lines into a log by the line
// breaks in its name or path blames nobody else.
func TestLineBreaksInRecords(t *testing.T) {
	const client = "192.0.2.7"
	tail := "' (using password: YES)\n"
	mysql := func(user string) string { return denial(0, user, client) + "\n" }
	others := ""
	for i := range 8 {
		others += denial(60+3*i, "bob", "203.0.113.9") + "\n"
	}
	path := func(decoded, raw string) string {
		return fmt.Sprintf(nginxLine, "77#77", 3, `open() "/srv/`+decoded+`" failed (2: No such file or directory)`, client, "GET /"+raw+" HTTP/1.1") + "\n"
	}
	forged := fmt.Sprintf(nginxLine, "77#77", 4, `user "root": password mismatch`, victim, "GET / HTTP/1.1")
	ftp := func(addr, user string) string {
		return fmt.Sprintf("2026-11-20 12:00:00,123 h proftpd[77] 203.0.113.1 (%[1]s[%[1]s]): USER %[2]s: no such user found from %[1]s [%[1]s] to 203.0.113.1:21", addr, user)
	}
	for name, c := range map[string]struct {
		service, text string
		client        bool // is seen
	}{
		"a whole record":                {"mysql", mysql("x\n"+denial(0, "root", victim)+"\n") + others, true},
		"and one half of it":            {"mysql", mysql("\n"+denial(0, "", victim)+"\n'@'"+victim+"'") + others, true},
		"the first line's end":          {"mysql", mysql("x'@'"+victim+tail) + others, true},
		"both":                          {"mysql", mysql("x'@'"+victim+tail+denial(0, "b", "")[:60]+"c") + others, true},
		"a later stamp":                 {"mysql", mysql("x'@'"+victim+tail+"2026-11-20 12:00:01 9 [Warning] Access denied for user 'c") + others, true},
		"another record between":        {"mysql", mysql("x'@'"+victim+tail+"2026-11-20 12:00:00 9 [Note] \n2026-11-20 12:00:00 9 [Warning] Access denied for user 'c") + others, true},
		"its end alone":                 {"mysql", "'@'" + victim + tail + mysql("x") + others, true},
		"nginx, a record":               {"nginx", path("x\n"+forged+"\nb", "x%0a2026…%0Ab"), false},
		"nginx, the first line's end":   {"nginx", path(`x" failed (2: x), client: `+victim+`, server: , request: "GET / HTTP/1.1", host: "h"`+"\n"+forged+"\nb", "x%22…%0a"), false},
		"nginx, long before others":     {"nginx", path(`x" failed (2: x), client: `+victim+`, server: , request: "GET / HTTP/1.1", host: "h"`+"\n"+forged+"\nb", "x%22…%0a") + strings.ReplaceAll(fmt.Sprintf(basicUser, "bob"), "12:00:00", "12:05:00") + "\n", false},
		"nginx, two clients at the end": {"nginx", path(`x" failed (2: x), client: `+victim+`, server: , request: "GET / HTTP/1.1", host: "h"`+"\n"+forged+"\nb", "x%0a, client: "+victim+", server: "), false},
		"nginx, no line behind it":      {"nginx", path(`x" failed (2: x), client: `+victim+`, server: , request: "GET / HTTP/1.1", host: "h"`+"\n"+forged[:len(forged)-40], "x%22…%0a"), false},
		"nginx, cut behind the record":  {"nginx", cutAt(2047, fmt.Sprintf(nginxLine, "77#77", 3, `open() "/srv/`, client, "GET / HTTP/1.1"), forged), false},
		"postgres, within the prefix":   {"postgres", "2026-11-20 12:00:00 UTC [7] 192.0.2.7 u\n2026-11-20 12:00:00 UTC [7] " + victim + " u@d FATAL:  password authentication failed for user \"u\n\t2026\"\n", false},
		"postgres, behind a level":      {"postgres", "2026-11-20 12:00:00 UTC [7] 192.0.2.7 u@b FATAL:  x\n2026-11-20 12:00:00 UTC [7] " + victim + " u@d FATAL:  password authentication failed for user \"u\"\n", false},
		"again and again":               {"mysql", strings.Repeat(mysql("x\n"+denial(0, "root", victim)+"\n"), 8), true},
		"proftpd, a record":             {"proftpd", ftp(client, "x\n"+ftp(victim, "root")), true},
		"proftpd, the first line's end": {"proftpd", ftp(client, "x: no such user found from "+client+" ["+client+"] to 203.0.113.1:21\n"+ftp(victim, "root")), true},
		"proftpd, without a name":       {"proftpd", ftp(client, "x\n"+strings.Split(ftp(victim, "root"), " USER")[0]+" FTP session closed."), true},
	} {
		t.Run(name, func(t *testing.T) {
			first, doubted := guarded(t, c.service, c.text, 1000, nil)
			sees := false
			for _, s := range first {
				if strings.Contains(s, victim) {
					t.Errorf("blamed: %s", s)
				}
				sees = sees || strings.Contains(s, client)
			}
			if sees != c.client && c.client {
				t.Errorf("the client is not seen: %q", first)
			}
			if doubted == 0 && !strings.Contains(name, "a whole") && len(first) > 0 && !sees {
				t.Error("nothing is reported as not believed")
			}
			for n := 1; n < 5; n++ {
				if got, _ := guarded(t, c.service, c.text, n, nil); strings.Join(got, "\n") != strings.Join(first, "\n") {
					t.Errorf("batches of %d: got %q, want %q", n, got, first)
				}
			}
			if got, _ := guarded(t, c.service, c.text, 1, restarted(t)); strings.Join(got, "\n") != strings.Join(first, "\n") {
				t.Errorf("with a restart behind every line: got %q, want %q", got, first)
			}
			for _, backlog := range []bool{false, true} {
				sees := false
				for _, s := range printed(t, c.service, c.text, backlog) {
					if strings.Contains(s, victim) {
						t.Errorf("printed into the journal, backlog %v: blamed: %s", backlog, s)
					}
					sees = sees || strings.Contains(s, client)
				}
				if c.client && !sees {
					t.Errorf("printed into the journal, backlog %v: the client is not seen", backlog)
				}
			}
			for n := range strings.Count(c.text, "\n") {
				if got := replayed(t, c.service, c.text, n+1); strings.Join(got, "\n") != strings.Join(first, "\n") {
					t.Errorf("replayed from two files, rotated behind line %d: got %q, want %q", n+1, got, first)
				}
			}
		})
	}
}

// printed gives what is believed of a service's lines that it prints into the
// journal, which makes an entry of each.
func printed(t *testing.T, service, text string, backlog bool) (seen []string) {
	t.Helper()
	by := map[string][2]string{
		"mysql": {"mariadb.service", "mariadbd"}, "nginx": {"nginx.service", "nginx"},
		"postgres": {"postgresql@15-main.service", "postgres"}, "proftpd": {"proftpd.service", "proftpd"},
	}[service]
	m, o := guardMachine(t), &source.Origin{Name: "journal", Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	add := func(ev *parse.Event) {
		if ev.Addr.IsValid() {
			seen = append(seen, fmt.Sprintf("%s %s %s %d", ev.Service, ev.Outcome, ev.Addr, ev.Time))
		}
	}
	for line := range strings.Lines(text) {
		at := noon.UnixNano() // of one record; others' come later
		if strings.Contains(line, "203.0.113.9") {
			at, _ = parse.LineTime([]byte(line), at, time.UTC)
		}
		b := batch(o, backlog, strings.TrimSuffix(line, "\n"))
		b.Arrival = time.Unix(0, at)
		b.Lines[0].Entry = &source.Entry{Time: at, Ident: []byte(by[1]), PID: 8, UID: 105, Unit: []byte(by[0]), Exe: []byte("/usr/sbin/" + by[1]), Transport: source.StdoutTransport}
		r.Read(b)
		m.Join(r, b.Arrival)
		r.Each(add)
	}
	m.Settle(noon.Add(time.Hour), true, func(r *Reader) { r.Each(add) })
	return seen
}

// replayed gives what is believed of a log that was rotated behind line n, from
// both files.
func replayed(t *testing.T, service, text string, n int) (seen []string) {
	t.Helper()
	m, dir := guardMachine(t), t.TempDir()
	lines := strings.SplitAfter(text, "\n")
	var paths []string
	for name, part := range map[string][]string{"l.1": lines[:n], "l": lines[n:]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(part, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, noon, noon); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	add := func(ev *parse.Event) {
		if ev.Addr.IsValid() {
			seen = append(seen, fmt.Sprintf("%s %s %s %d", ev.Service, ev.Outcome, ev.Addr, ev.Time))
		}
	}
	stamp := func(*source.Origin) func([]byte) (int64, bool) {
		return func(line []byte) (int64, bool) { return parse.LineTime(line, noon.UnixNano(), time.UTC) }
	}
	err := source.ReadFiles(t.Context(), paths, source.ReadOptions{Service: service, Stamp: stamp}, func(b *source.Batch) error {
		defer b.Release()
		r, err := m.reader(b.Origin)
		if err != nil {
			return err
		}
		r.Read(b)
		m.Join(r, noon)
		r.Each(add)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle(noon, true, func(r *Reader) { r.Each(add) })
	return seen
}

// cutAt is a record that begins like head, holds line as a line of its own, and
// is cut at n bytes, right behind it.
func cutAt(n int, head, line string) string {
	end := `" failed (2: x), client: 203.0.113.1, server: , request: "GET / HTTP/1.1"` + "\n"
	head = head[:strings.Index(head, `/srv/`)+5]
	return head + strings.Repeat("a", n-len(head)-len(end)-len(line)) + end + line + "\n"
}

// TestManyClients: who fails at the same time as others do, or quickly, is
// believed where no line could be another client's.
func TestManyClients(t *testing.T) {
	text := ""
	for i := range 12 {
		text += denial(3*i, "root", fmt.Sprintf("192.0.2.%d", 1+i%3)) + "\n"
	}
	if seen, doubted := guarded(t, "mysql", text, 5, nil); len(seen) != 12 || doubted != 0 {
		t.Errorf("three clients in turn, seconds apart: %d of 12 believed, %d not", len(seen), doubted)
	}
	text = ""
	for range 12 {
		text += denial(0, "root", "192.0.2.1") + "\n"
	}
	if seen, doubted := guarded(t, "mysql", text, 5, nil); len(seen) != 12 || doubted != 0 {
		t.Errorf("one client at once: %d of 12 believed, %d not", len(seen), doubted)
	}
	text = ""
	for i := range 12 {
		text += fmt.Sprintf(nginxLine, "7#7", i, `user "bob": password mismatch`, fmt.Sprintf("192.0.2.%d", i), "GET / HTTP/1.1") + "\n"
		text += fmt.Sprintf(nginxLine, "7#7", i, `open() "/srv/x" failed (2: No such file or directory)`, "203.0.113.5", "GET /x HTTP/1.1") + "\n"
	}
	if seen, doubted := guarded(t, "nginx", text, 5, nil); len(seen) != 24 || doubted != 0 {
		t.Errorf("an ordinary log of nginx: %d of 24 believed, %d not", len(seen), doubted)
	}
}

// TestHeldIsSettled: live, a failure that nothing follows counts soon.
func TestHeldIsSettled(t *testing.T) {
	m := machine(t)
	o := &source.Origin{Name: "/l", Service: "mysql", Spec: -1}
	if got := take(t, m, batch(o, false, denial(0, "root", "192.0.2.7"))); len(got) > 0 {
		t.Fatal(got)
	}
	n := 0
	settle := func(after time.Duration) {
		m.Settle(noon.Add(after), false, func(r *Reader) { r.Each(func(ev *parse.Event) { n++ }) })
	}
	if settle(settled); n != 0 {
		t.Error("told before the record was surely over")
	}
	if settle(settled + 1); n != 1 {
		t.Errorf("told %d times afterwards, want 1", n)
	}
	if settle(time.Hour); n != 1 {
		t.Errorf("told %d times in all", n)
	}
}

// TestFutureStampLive: live, a line that says it is of later does not make the
// one before it another record.
func TestFutureStampLive(t *testing.T) {
	m := machine(t)
	o := &source.Origin{Name: "/l", Service: "mysql", Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Read(batch(o, false, denial(0, "x", victim), denial(10, "y", "192.0.2.7")))
	m.Join(r, noon)
	m.Settle(noon.Add(time.Minute), true, func(r *Reader) {
		r.Each(func(ev *parse.Event) {
			if ev.Addr == netip.MustParseAddr(victim) {
				t.Error("blamed")
			}
		})
	})
}

// TestGuardsAreBounded: whatever a log holds, little is kept, and damage in a
// snapshot is no way around that.
func TestGuardsAreBounded(t *testing.T) {
	text := denial(0, "x", "192.0.2.7")[:60] + "\n" + strings.Repeat("'@'192.0.2.7' (using password: YES)\n", 1000)
	seen, doubted := guarded(t, "mysql", text, 100, func(m *Machine) *Machine {
		for _, g := range m.guards.m {
			if len(g.Held) > maxHeld || len(g.Ends) > maxHeld {
				t.Fatalf("%d events, %d ends kept", len(g.Held), len(g.Ends))
			}
		}
		return m
	})
	if len(seen) > 16 || doubted == 0 {
		t.Errorf("%d ends of one record believed, %d not", len(seen), doubted)
	}
	m := guardMachine(t)
	w := watch{m: m, r: &Reader{batch: batch(&source.Origin{Name: "/l"}, true), events: make([]item, 1)}, stats: &OriginStats{}}
	g := m.guards.of(guardKey{Origin: "/l"}, true)
	for i := range 2 * maxHeld {
		w.r.events[0].Time = int64(i)
		w.take(g, &parse.Shape{Reach: 1000}, &source.Line{})
	}
	if len(g.Held) != maxHeld || w.stats.Doubted != maxHeld || g.Held[0].Event.Time != maxHeld {
		t.Errorf("%d events held, the first of %d, %d not believed", len(g.Held), g.Held[0].Event.Time, w.stats.Doubted)
	}
	many := "[" + strings.Repeat(`{"Key":{"Origin":"%d"},"Guard":{"Pos":0,"Broken":1}},`, maxGuards) + `{"Key":{"Origin":"x"},"Guard":{}}]`
	for i := range maxGuards {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	for _, bad := range []string{"", "{", `[{"Key":{"Origin":"/l"}}]`, many} {
		if m.UnmarshalGuards([]byte(bad)) == nil {
			t.Errorf("took %q", bad)
		}
	}
}

// TestHeldKeepsEverything: an event that waits comes out as it went in, also by
// way of a snapshot, when the parser's memory holds other lines.
func TestHeldKeepsEverything(t *testing.T) {
	var ev parse.Event
	texts := fill(reflect.ValueOf(&ev).Elem())
	ev.Addr = netip.MustParseAddr("192.0.2.7")
	line := &source.Line{Text: []byte("the line"), Number: 9}
	m := guardMachine(t)
	o := &source.Origin{Name: "/l", Spec: -1}
	w := watch{m: m, r: &Reader{batch: batch(o, true), events: []item{{Event: ev}}}, stats: &OriginStats{}}
	g := m.guards.of(guardKey{Origin: "/l"}, true)
	w.take(g, &parse.Shape{Reach: 1000}, line)
	want, _ := json.Marshal(ev)
	for _, b := range texts {
		clear(b)
	}
	clear(line.Text)
	m = restarted(t)(m)
	n := 0
	m.Settle(noon, true, func(r *Reader) {
		for i := range r.events {
			n++
			r.events[i].First = true // the joining of sessions clears it
			if got, _ := json.Marshal(r.events[i].Event); string(got) != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if l := r.events[i].text(r.batch); l.Number != 9 || string(l.Text) != "the line" {
				t.Errorf("its line is %d, %q", l.Number, l.Text)
			}
		}
	})
	if n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// fill sets everything in v, and gives the texts that it put there.
func fill(v reflect.Value) (texts [][]byte) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				texts = append(texts, fill(v.Field(i))...)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if b, ok := v.Interface().([]byte); ok {
			b[0] = 'x'
			return [][]byte{b}
		}
		return fill(v.Index(0))
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	default:
		if v.CanUint() {
			v.SetUint(1)
		}
	}
	return texts
}

// entryOf is a journal's line.
func entryOf(unit, exe, ident string, uid int64, text string) source.Line {
	return source.Line{Text: []byte(text), Entry: &source.Entry{Time: noon.UnixNano(), Ident: []byte(ident), PID: 8, UID: uid,
		Exe: []byte(exe), Unit: []byte(unit)}}
}

// believed reads one batch of the journal, and lists by user what is believed.
func believed(t *testing.T, m *Machine, lines ...source.Line) (users []string) {
	t.Helper()
	o := &source.Origin{Name: "journal", Spec: -1}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Read(&source.Batch{Origin: o, Arrival: noon, Lines: lines})
	m.Join(r, noon)
	r.Each(func(ev *parse.Event) { users = append(users, string(ev.User)) })
	return users
}

const (
	brokenNginx = `2026/11/20 12:00:00 [error] 7#7: *1 open() "/srv/x`
	basicUser   = `2026/11/20 12:00:00 [error] 7#7: *2 user "%s": password mismatch, client: 192.0.2.8, server: _, request: "GET / HTTP/1.1", host: "h"`
	sshFailure  = "Failed password for %s from 192.0.2.9 port 22 ssh2"
)

func nginxEntry(text string) source.Line {
	return entryOf("nginx.service", "/usr/sbin/nginx", "nginx", 0, text)
}

func sshEntry(user string) source.Line {
	return entryOf("ssh.service", "/usr/sbin/sshd", "sshd", 0, fmt.Sprintf(sshFailure, user))
}

// TestGuardsOfUnits: a record of one unit that goes on raises no doubt about
// what other units write meanwhile, which counts at once and in order.
func TestGuardsOfUnits(t *testing.T) {
	m := guardMachine(t)
	got := believed(t, m, sshEntry("a"), nginxEntry(brokenNginx), sshEntry("b"), nginxEntry(fmt.Sprintf(basicUser, "x")), sshEntry("c"))
	want(t, "in one batch", got, "a", "b", "c")
	want(t, "in the next", believed(t, m, sshEntry("d"), sshEntry("e")), "d", "e")
	if n := m.Stats("journal").Doubted; n != 2 { // and the record without a client
		t.Errorf("%d doubted, want 2", n)
	}
}

// TestNobodyElseRaisesDoubt: who may not speak for a service cannot have what
// others write doubted by a record of it that never ends, also when the journal
// knows the unit of neither.
func TestNobodyElseRaisesDoubt(t *testing.T) {
	for _, unit := range []string{"", "session-3.scope", "user@1000.service", "ssh.service"} {
		m := guardMachine(t)
		sshd := sshEntry("ann")
		sshd.Entry.Unit = []byte(unit)
		if unit == "user@1000.service" {
			sshd.Entry.Unit = []byte("ssh.service")
		}
		got := believed(t, m, entryOf(unit, "/usr/bin/logger", "nginx", 1000, brokenNginx), sshd)
		want(t, unit, got, "ann")
	}
}

// TestTooManyGuards: those with nothing to guard make room; when all have, what
// would need another is not believed, and reported; the rest is.
func TestTooManyGuards(t *testing.T) {
	m := guardMachine(t)
	for i := range maxGuards - 1 {
		m.guards.of(guardKey{Origin: fmt.Sprint(i)}, true)
	}
	m.guards.of(guardKey{Origin: "busy"}, true).Broken = 1 << 40
	want(t, "among idle ones", believed(t, m, nginxEntry(brokenNginx), nginxEntry(fmt.Sprintf(basicUser, "x"))))
	if g := m.guards.m[guardKey{Origin: "busy"}]; g == nil || len(m.guards.m) != 2 {
		t.Errorf("%d guards are left, the busy one is %v", len(m.guards.m), g)
	}
	m = guardMachine(t)
	for i := range maxGuards {
		m.guards.of(guardKey{Origin: "journal", Unit: fmt.Sprint(i)}, true).Broken = 1 << 40
	}
	got := believed(t, m, sshEntry("a"), nginxEntry(fmt.Sprintf(nginxLine, "7#7", 3, `open() "/srv/x" failed (2: x)`, victim, "GET /x HTTP/1.1")), sshEntry("b"))
	want(t, "among busy ones", got, "a", "b")
	if n := m.Stats("journal").Doubted; n != 1 || len(m.guards.m) != maxGuards {
		t.Errorf("%d doubted, %d guards", n, len(m.guards.m))
	}
}

// TestHeldCountsWhenItCame: how long an event waited changes neither its time
// nor what is known of the log's clock.
func TestHeldCountsWhenItCame(t *testing.T) {
	for _, backlog := range []bool{false, true} {
		m := guardMachine(t)
		o := &source.Origin{Name: "/l", Service: "mysql", Spec: -1}
		var times []time.Time
		read := func(line string, backlog bool, arrival time.Time) {
			b := batch(o, backlog, line)
			b.Arrival = arrival
			r, err := m.reader(o)
			if err != nil {
				t.Fatal(err)
			}
			r.Read(b)
			m.Join(r, arrival)
			r.Each(func(ev *parse.Event) { times = append(times, time.Unix(0, ev.Time).UTC()) })
		}
		at := noon
		if backlog {
			at = noon.Add(-time.Hour)
		}
		read(denial(int(at.Sub(noon)/time.Second), "x", "192.0.2.7"), backlog, noon)
		for i := range 3 { // nothing of it reaches so far
			read(strings.Repeat("x", 200), false, noon.Add(time.Duration(5+i)*time.Minute))
		}
		if s := m.Stats("/l").Skew; len(times) != 1 || !times[0].Equal(at) || s != 0 {
			t.Errorf("backlog %v: told at %v, skew %s, want %v and none", backlog, times, s, at)
		}
	}
}

// TestManyClientsLive: clients that fail in turn are believed live, too.
func TestManyClientsLive(t *testing.T) {
	m := guardMachine(t)
	o := &source.Origin{Name: "/l", Service: "mysql", Spec: -1}
	n := 0
	count := func(r *Reader) { r.Each(func(*parse.Event) { n++ }) }
	for i := range 12 {
		b := batch(o, false, denial(3*i, "root", fmt.Sprintf("192.0.2.%d", 1+i%3)))
		b.Arrival = noon.Add(time.Duration(3*i) * time.Second)
		r, err := m.reader(o)
		if err != nil {
			t.Fatal(err)
		}
		r.Read(b)
		m.Join(r, b.Arrival)
		count(r)
	}
	m.Settle(noon.Add(time.Minute), true, count)
	if d := m.Stats("/l").Doubted; n != 12 || d != 0 {
		t.Errorf("%d of 12 believed, %d not", n, d)
	}
}

// TestOutOfReach: the end of a record says nothing about a line that the record
// cannot have reached, and a line that nothing can reach counts at once.
func TestOutOfReach(t *testing.T) {
	text := denial(0, "x", "192.0.2.7") + "\n" + denial(0, strings.Repeat("y", 110), "192.0.2.8") + "\n"
	if seen, doubted := guarded(t, "mysql", text, 1, nil); len(seen) != 2 || doubted != 0 {
		t.Errorf("believed %q, %d not", seen, doubted)
	}
	m := guardMachine(t)
	got := believed(t, m, nginxEntry(brokenNginx), nginxEntry(strings.Repeat("x", 2048)), nginxEntry(fmt.Sprintf(basicUser, "ann")))
	want(t, "behind the longest record", got, "ann")
}

// TestOwnPatternsAreGuarded: a rule's own pattern that finds an address within
// what a client sent is not believed either.
func TestOwnPatternsAreGuarded(t *testing.T) {
	m := New(compiledOf(t, "use: []\nprotect: {own: false, ssh_peers: false}\nsources: [{file: /l, service: mysql}]\nrules: [{name: own, match: {source: /l}, pattern: 'refused ip=<ip> ', bucket: {capacity: 5, leak: 1m}}]\n"), nil, nil)
	o := &source.Origin{Name: "/l", Spec: 0}
	var got []string
	add := func(r *Reader) {
		r.Each(func(ev *parse.Event) { got = append(got, ev.Service+" "+ev.Addr.String()) })
	}
	r, err := m.reader(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Read(batch(o, true, denial(0, "refused ip="+victim+" x", "192.0.2.7")))
	m.Join(r, noon)
	add(r)
	m.Settle(noon, true, add)
	want(t, "believed", got, "mysql 192.0.2.7")
}

// TestFullGuardIsRestored: what one guard holds at most is taken back at a start.
func TestFullGuardIsRestored(t *testing.T) {
	m := guardMachine(t)
	for i := range maxGuards {
		g := m.guards.of(guardKey{Origin: fmt.Sprint(i)}, true)
		if g.Broken = 1; i == 0 {
			g.Held = make([]held, maxHeld)
		}
	}
	if n := restarted(t)(m); len(n.guards.m) != maxGuards || len(n.guards.m[guardKey{Origin: "0"}].Held) != maxHeld {
		t.Errorf("%d guards are restored, want %d", len(n.guards.m), maxGuards)
	}
}

// TestTailIsOfItsRecord: a client whose record goes on for lines failed when the
// record began, however late it is read; what it forged is counted as doubted.
func TestTailIsOfItsRecord(t *testing.T) {
	seen, doubted := guarded(t, "mysql", denial(-3600, "x\n"+denial(-3600, "root", victim)+"\n", "192.0.2.7")+"\n", 1, nil)
	want(t, "believed", seen, fmt.Sprintf("mysql failure 192.0.2.7 %d", noon.Add(-time.Hour).UnixNano()))
	if doubted != 1 {
		t.Errorf("%d doubted, want the forged one", doubted)
	}
}

// FuzzGuard: how lines are batched changes nothing, restarts neither, and a
// victim that only text of the client names is never blamed.
func FuzzGuard(f *testing.F) {
	f.Add("x\n"+denial(0, "root", victim)+"\n", byte(0))
	f.Add("x'@'"+victim+"' (using password: YES)\n2026-11-20 12:00:00 9 [Warning] Access denied for user 'c", byte(1))
	f.Fuzz(func(t *testing.T, user string, n byte) {
		if len([]rune(user)) > 128 || len(user) > 384 {
			return // MariaDB cuts it
		}
		text := denial(0, strings.ReplaceAll(user, "\x00", ""), "192.0.2.7") + "\n" + denial(1, "x", "192.0.2.7") + "\n"
		all, _ := guarded(t, "mysql", text, 1000, nil)
		for _, s := range all {
			if !strings.Contains(s, " 192.0.2.7 ") {
				t.Errorf("blamed: %s, by the user %q", s, user)
			}
		}
		if got, _ := guarded(t, "mysql", text, 1+int(n%4), restarted(t)); strings.Join(got, "\n") != strings.Join(all, "\n") {
			t.Errorf("batched: got %q, want %q", got, all)
		}
	})
}

// TestReachOfARecord: MariaDB's users are 128 characters, whatever their bytes: a
// record's end further away belongs to another record, and one within reach does not.
func TestReachOfARecord(t *testing.T) {
	const client = "192.0.2.7"
	forged := "x'@'" + victim + "' (using password: YES)\n"
	for name, c := range map[string]struct {
		text string
		want string // who is believed
	}{
		"an end out of reach":        {denial(0, "r", "192.0.2.1") + "\n" + denial(0, strings.Repeat("a", 100), client), "192.0.2.1 " + client},
		"a long end of characters":   {denial(0, forged+strings.Repeat("é", 80), client), client},
		"a long middle of them":      {denial(0, forged+strings.Repeat("é", 47)+"\n", client), client},
		"a long end, in bytes alone": {denial(0, forged+strings.Repeat("a", 80), client), client},
	} {
		var got []string
		seen, _ := guarded(t, "mysql", c.text+"\n", 1000, nil)
		for _, s := range seen {
			got = append(got, strings.Fields(s)[2])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: believed %q, want %q", name, got, c.want)
		}
	}
}
