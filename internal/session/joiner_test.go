package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// joined parses lines as one file's and returns what each counts as.
func joined(t *testing.T, s *Joiner, lines ...string) []parse.Event {
	t.Helper()
	p, err := parse.New(parse.Options{Sniff: true})
	if err != nil {
		t.Fatal(err)
	}
	origin := &source.Origin{Name: "auth.log"}
	var evs []parse.Event
	for _, l := range lines {
		var ev parse.Event
		if !p.Parse(&source.Line{Text: []byte(l)}, captured, &ev) {
			t.Fatalf("not understood: %s", l)
		}
		s.Join(&ev, origin)
		evs = append(evs, ev)
	}
	return evs
}

func counts(evs []parse.Event) string {
	var b bytes.Buffer
	for i := range evs {
		fmt.Fprintf(&b, "%d", evs[i].Count)
	}
	return b.String()
}

// TestOneAttemptCountsOnce reads whole connections as servers of different
// ages and settings write them.
func TestOneAttemptCountsOnce(t *testing.T) {
	const from, pam = "192.0.2.7 port 40312", "logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root"
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"a wrong password, with PAM", []string{
			"pam_unix(sshd:auth): authentication failure; " + pam,
			"Failed password for root from " + from + " ssh2",
			"Connection closed by authenticating user root " + from + " [preauth]",
		}, "100"},
		{"three wrong passwords, with PAM", []string{
			"pam_unix(sshd:auth): authentication failure; " + pam,
			"Failed password for root from " + from + " ssh2",
			"Failed password for root from " + from + " ssh2",
			"Failed password for root from " + from + " ssh2",
			"Disconnected from authenticating user root " + from + " [preauth]",
			"PAM 2 more authentication failures; " + pam,
		}, "101100"},
		{"repeated by rsyslog", []string{
			"Failed password for root from " + from + " ssh2",
			"message repeated 4 times: [ Failed password for root from " + from + " ssh2]",
			"error: maximum authentication attempts exceeded for root from " + from + " ssh2 [preauth]",
			"Disconnecting authenticating user root " + from + ": Too many authentication failures [preauth]",
			"PAM 4 more authentication failures; " + pam,
		}, "14000"},
		{"an unknown account", []string{
			"Invalid user x from " + from,
			"Failed none for invalid user x from " + from + " ssh2",
			"Failed password for invalid user x from " + from + " ssh2",
			"Connection closed by invalid user x " + from + " [preauth]",
		}, "1000"},
		{"keys only", []string{
			"Connection closed by authenticating user root " + from + " [preauth]",
		}, "1"},
		{"keys only, unknown account, old", []string{
			"Invalid user x from 192.0.2.7",
			"input_userauth_request: invalid user x [preauth]",
			"Received disconnect from 192.0.2.7: 11: Bye Bye [preauth]",
		}, "110"}, // the second is no failure, and has no address

		{"a probe", []string{
			"error: kex_exchange_identification: Connection closed by remote host",
			"Connection closed by " + from,
			"banner exchange: Connection from " + from + ": invalid format",
			"Connection reset by " + from + " [preauth]",
		}, "0100"},
		{"a login's end is no probe", []string{
			"Accepted password for ann from " + from + " ssh2",
			"Connection closed by " + from,
		}, "11"},
		{"no address at the end", []string{
			"Connection from " + from + " on 192.0.2.1 port 22",
			"Disconnecting: Too many authentication failures for root [preauth]",
		}, "11"},
		{"a host name first", []string{
			"pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=h.example  user=root",
			"Failed password for root from " + from + " ssh2",
		}, "01"},
	} {
		var lines []string
		for _, l := range c.lines {
			lines = append(lines, sshdHead+l)
		}
		if got := counts(joined(t, New(16), lines...)); got != c.want {
			t.Errorf("%s: counts %s, want %s", c.name, got, c.want)
		}
	}
}

func TestJoinLendsAddress(t *testing.T) {
	s := New(16)
	evs := joined(t, s,
		"Nov 20 09:00:00 h sshd[7]: Connection from 192.0.2.7 port 1 on 192.0.2.1 port 22",
		"Nov 20 09:00:01 h sshd[7]: Disconnecting: Too many authentication failures for root [preauth]",
		"Nov 20 09:00:02 h sshd[8]: Disconnecting: Too many authentication failures for root [preauth]",
		"Nov 20 09:00:02 g sshd[7]: Disconnecting: Too many authentication failures for root [preauth]",
		"Nov 20 09:30:00 h sshd[7]: Disconnecting: Too many authentication failures for root [preauth]",
	)
	for i, want := range []string{"192.0.2.7", "192.0.2.7", "invalid IP", "invalid IP", "invalid IP"} {
		if got := evs[i].Addr.String(); got != want {
			t.Errorf("line %d: %s, want %s", i+1, got, want)
		}
		if evs[i].Addr.IsValid() != (evs[i].Count > 0) {
			t.Errorf("line %d: count %d with address %v", i+1, evs[i].Count, evs[i].Addr)
		}
	}
}

func TestNumbersComeAgain(t *testing.T) {
	failed := func(at, addr string) string {
		return "Nov 20 " + at + " h sshd[7]: Failed password for root from " + addr + " port 1 ssh2"
	}
	closed := func(at, addr string) string {
		return "Nov 20 " + at + " h sshd[7]: Connection closed by authenticating user root " + addr + " port 1 [preauth]"
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"another address", []string{failed("09:00:00", "192.0.2.7"), closed("09:00:01", "192.0.2.9")}, "11"},
		{"after a silence", []string{failed("09:00:00", "192.0.2.7"), closed("09:11:00", "192.0.2.7")}, "11"},
		{"before a silence", []string{failed("09:00:00", "192.0.2.7"), closed("09:09:00", "192.0.2.7")}, "10"},
		{"opened again", []string{failed("09:00:00", "192.0.2.7"), "Nov 20 09:00:01 h sshd[7]: Connection from 192.0.2.7 port 1 on 192.0.2.1 port 22", closed("09:00:01", "192.0.2.7")}, "111"},
		{"time runs back", []string{failed("09:00:00", "192.0.2.7"), closed("08:00:00", "192.0.2.7"), closed("09:00:01", "192.0.2.7")}, "100"},
	} {
		if got := counts(joined(t, New(16), c.lines...)); got != c.want {
			t.Errorf("%s: counts %s, want %s", c.name, got, c.want)
		}
	}
}

// TestForgersTeachNothing: what an unverified line says of a connection is not
// believed of a verified one.
func TestForgersTeachNothing(t *testing.T) {
	s := New(4)
	a := netip.MustParseAddr("203.0.113.66")
	forged := parse.Event{Conn: 9, Class: 1, Addr: a, Count: 1}
	s.Join(&forged, nil)
	real := parse.Event{Conn: 9, Class: parse.ClassOnce + 8, Outcome: parse.Failure, Count: 1, Verified: true}
	s.Join(&real, nil)
	if real.Addr.IsValid() {
		t.Errorf("a forged line lends %v", real.Addr)
	}
}

// randomEvent makes events of few connections, so that they meet.
func randomEvent(r *rand.Rand, at int64) parse.Event {
	ev := parse.Event{Conn: 1 + r.Uint64N(40), Time: at, Outcome: parse.Failure, Count: 1 + r.IntN(3), Class: uint8(1 + r.IntN(3))}
	if r.IntN(3) == 0 {
		ev.Class += parse.ClassOnce
	}
	if r.IntN(8) == 0 {
		ev.Outcome, ev.Kind, ev.Class = parse.Other, parse.Probe, 0
	}
	if r.IntN(8) == 0 { // as "end connection" is
		ev.Outcome, ev.Kind, ev.Class, ev.Count = parse.Other, parse.Plain, 0, 1
	}
	if r.IntN(20) > 0 {
		ev.Addr = netip.AddrFrom4([4]byte{192, 0, 2, byte(ev.Conn)})
	}
	return ev
}

// TestCountIsTheLargestClass: what Join counts of a connection in all is the
// most that one class of its lines reports, whatever the order.
func TestCountIsTheLargestClass(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := New(64)
		sums, counted, probes, addr := map[[2]uint64]int{}, map[uint64]int{}, map[uint64]int{}, map[uint64]bool{}
		for i := range 300 {
			ev := randomEvent(r, 1e18+int64(i)*1e9)
			n := ev.Count
			addr[ev.Conn] = addr[ev.Conn] || ev.Addr.IsValid()
			k := [2]uint64{ev.Conn, uint64(ev.Class)}
			if ev.Outcome == parse.Failure && ev.Class > parse.ClassOnce {
				sums[k] = 1
			} else if ev.Outcome == parse.Failure {
				sums[k] += n
			}
			s.Join(&ev, nil)
			if ev.Count < 0 || ev.Count > 0 && !ev.Addr.IsValid() && (ev.Outcome == parse.Failure || ev.Kind == parse.Probe) {
				t.Fatalf("seed %d: %+v", seed, ev)
			}
			if ev.Outcome == parse.Failure {
				counted[ev.Conn] += ev.Count
			} else if ev.Kind == parse.Probe {
				probes[ev.Conn] += ev.Count
			}
		}
		most := map[uint64]int{}
		for k, n := range sums {
			most[k[0]] = max(most[k[0]], n)
		}
		for c, n := range most {
			if addr[c] && counted[c] > n || probes[c] > 1 {
				t.Fatalf("seed %d: connection %d counts %d of %d, and %d probes", seed, c, counted[c], n, probes[c])
			}
		}
		flush(t, s, most, counted, addr)
	}
}

// flush lets every connection speak once more, with its address, and compares.
func flush(t *testing.T, s *Joiner, most, counted map[uint64]int, addr map[uint64]bool) {
	t.Helper()
	for c, n := range most {
		ev := parse.Event{Conn: c, Time: 1e18 + 300e9, Outcome: parse.Failure, Class: parse.ClassOnce + 1, Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(c)})}
		s.Join(&ev, nil)
		if got := counted[c] + ev.Count; got != max(n, 1) {
			t.Fatalf("connection %d counts %d, want %d", c, got, n)
		}
	}
}

// TestAddressComesLast: what told of no address is counted by the line that
// brings it, once, and soon; no other line turns into a failure.
func TestAddressComesLast(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.9")
	lost := parse.Event{Conn: 5, Time: 1e18, Outcome: parse.Failure, Class: 2, Count: 1}
	end := parse.Event{Conn: 5, Time: 1e18 + 1e9, Addr: a, Count: 1}
	late := end
	late.Time += 130e9
	begun := end
	begun.Class, begun.Addr = 1, b
	other := end
	other.Conn = 6
	success := end
	success.Outcome = parse.Success
	for _, c := range []struct {
		name string
		evs  []parse.Event
		want string // "f" a failure, "o" other, with its count
	}{
		{"the end brings it", []parse.Event{lost, end}, "f0 f1"},
		{"two wait", []parse.Event{lost, lost, end}, "f0 f0 f2"},
		{"counted once", []parse.Event{lost, end, end}, "f0 f1 o1"},
		{"nothing waits", []parse.Event{end}, "o1"},
		{"too late", []parse.Event{lost, late}, "f0 o1"},
		{"another connection", []parse.Event{lost, other}, "f0 o1"},
		{"its number begins anew", []parse.Event{lost, begun, end}, "f0 o1 o1"},
		{"a login", []parse.Event{lost, success}, "f0 s1"},
	} {
		s, got := New(8), []string(nil)
		for _, ev := range c.evs {
			s.Join(&ev, nil)
			got = append(got, fmt.Sprint(ev.Outcome.String()[:1], ev.Count))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", c.name, g, c.want)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	s := New(100)
	for i := range 10000 {
		ev := parse.Event{Conn: uint64(i) + 1, Outcome: parse.Failure, Count: 1, Class: 1, Addr: netip.AddrFrom4([4]byte{1, 2, byte(i >> 8), byte(i)})}
		s.Join(&ev, nil)
		if i%50 == 0 {
			keep := parse.Event{Conn: 1, Outcome: parse.Failure, Count: 1, Class: parse.ClassOnce + 1, Addr: netip.AddrFrom4([4]byte{1, 2, 0, 0})}
			if s.Join(&keep, nil); keep.Count != 0 {
				t.Fatalf("after %d the first, which keeps speaking, was forgotten", i)
			}
		}
		if s.Len() > 100 || len(s.conns) > 100 {
			t.Fatalf("%d connections remembered, want at most 100", s.Len())
		}
	}
	old := parse.Event{Conn: 500, Outcome: parse.Failure, Count: 1, Class: parse.ClassOnce + 1, Addr: netip.AddrFrom4([4]byte{1, 2, 1, 243})}
	if s.Join(&old, nil); old.Count != 1 {
		t.Errorf("one long silent still counts %d, want 1", old.Count)
	}
}

// TestSessionsState: a snapshot anywhere changes nothing of what follows.
func TestSessionsState(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 2))
		a := New(16)
		b := New(16)
		for i := range 400 {
			ev := randomEvent(r, 1e18+int64(i)*20e9)
			if r.IntN(10) == 0 {
				ev.Outcome, ev.Kind, ev.Class, ev.User = parse.Other, parse.Plain, 1, []byte(fmt.Sprint("user", i))
			}
			twin := ev
			a.Join(&ev, nil)
			b.Join(&twin, nil)
			if ev.Count != twin.Count || ev.Addr != twin.Addr || string(ev.User) != string(twin.User) {
				t.Fatalf("seed %d, event %d: %+v, after a snapshot %+v", seed, i, ev, twin)
			}
			if r.IntN(20) == 0 {
				b = again(t, b)
			}
		}
	}
}

func again(t *testing.T, s *Joiner) *Joiner {
	t.Helper()
	state, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	n := New(16)
	if err := n.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if twice, _ := n.MarshalBinary(); !bytes.Equal(state, twice) {
		t.Fatal("the state read and written again differs")
	}
	return n
}

func TestSessionsSmallerThanState(t *testing.T) {
	s := New(50)
	for i := range 50 {
		ev := parse.Event{Conn: uint64(i) + 1, Outcome: parse.Failure, Count: 1, Class: 1, Addr: netip.AddrFrom4([4]byte{1, 2, 3, byte(i)})}
		s.Join(&ev, nil)
	}
	state, _ := s.MarshalBinary()
	small := New(10)
	if err := small.UnmarshalBinary(state); err != nil || small.Len() != 10 {
		t.Fatalf("%d remembered, %v, want 10", small.Len(), err)
	}
	last := parse.Event{Conn: 50, Outcome: parse.Failure, Count: 1, Class: parse.ClassOnce + 1, Addr: netip.AddrFrom4([4]byte{1, 2, 3, 49})}
	if small.Join(&last, nil); last.Count != 0 {
		t.Errorf("the last to speak was not kept")
	}
	var zero Joiner
	if err := zero.UnmarshalBinary(state); err != nil || zero.Len() != 50 {
		t.Errorf("the zero value takes %d, %v, want 50", zero.Len(), err)
	}
}

func FuzzSessionsState(f *testing.F) {
	s := New(8)
	for i := range 5 {
		ev := parse.Event{Conn: uint64(i) + 1, Outcome: parse.Failure, Count: 2, Class: 1, Addr: netip.AddrFrom4([4]byte{1, 2, 3, byte(i)})}
		s.Join(&ev, nil)
	}
	state, _ := s.MarshalBinary()
	f.Add(state)
	f.Add([]byte(sessionsMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(8)
		if s.UnmarshalBinary(b) != nil && s.Len() != 0 {
			t.Error("damaged state is remembered")
		}
		ev := parse.Event{Conn: 3, Outcome: parse.Failure, Count: 1, Class: 1}
		s.Join(&ev, nil)
	})
}

func BenchmarkJoin(b *testing.B) {
	s := New(16384)
	origin := &source.Origin{Name: "/var/log/auth.log"}
	addr := netip.MustParseAddr("192.0.2.7")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		ev := parse.Event{Conn: uint64(i/3) + 1, Time: int64(i), Outcome: parse.Failure, Class: uint8(1 + i%3), Count: 1, Addr: addr}
		s.Join(&ev, origin)
	}
}

// TestRealSSHD reads what hack/capture/sshd.sh captured of OpenSSH 9.2, PAM and
// rsyslog: each part counts the attempts that a client made in it, and nobody
// is blamed for a name.
func TestRealSSHD(t *testing.T) {
	data, err := os.ReadFile("../parse/testdata/sshd-9.2.log")
	if err != nil {
		t.Fatal(err)
	}
	s := New(1024)
	origin := &source.Origin{Name: "auth.log"}
	p, err := parse.New(parse.Options{Sniff: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(data), "## ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		name, want, _ := strings.Cut(lines[0], ": ")
		got, success := 0, 0
		for _, l := range lines[1:] {
			var ev parse.Event
			if !p.Parse(&source.Line{Text: []byte(l)}, captured, &ev) {
				continue
			}
			s.Join(&ev, origin)
			if a := ev.Addr.String(); a != "198.51.100.7" && a != "2001:db8::7" && a != "invalid IP" {
				t.Errorf("%s blames %s: %s", name, a, l)
			}
			switch ev.Outcome {
			case parse.Failure:
				got += ev.Count
			case parse.Success:
				success += ev.Count
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %d attempts counted, want %s", name, got, want)
		}
		if wantOK := strings.HasPrefix(name, "right") || strings.HasSuffix(name, "right password") || strings.HasSuffix(name, "that fits"); (success > 0) != wantOK {
			t.Errorf("%s: %d logins", name, success)
		}
	}
}

// TestWhatPAMSaysOfALogin: a stack of modules asks one after the other, and the
// first says no of many logins; it may be written after sshd's own line.
func TestWhatPAMSaysOfALogin(t *testing.T) {
	const said, in = "h sshd[7]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=ann",
		"h sshd[7]: Accepted password for ann from 192.0.2.7 port 40312 ssh2"
	evs := joined(t, New(0), "Feb  3 10:00:00 "+in, "Feb  3 10:00:00 "+said)
	if got := counts(evs); got != "10" {
		t.Errorf("after the login: got %s, want no failure", got)
	}
	evs = joined(t, New(0), "Feb  3 10:00:00 "+in, "Feb  3 10:00:00 "+strings.Replace(said, "sshd[7]", "sshd[8]", 1))
	if got := counts(evs); got != "11" {
		t.Errorf("of another connection: got %s, want a failure", got)
	}
}

// TestFirstOfAConnection: however often and in however many words a connection
// fails, one of its events is the first.
func TestFirstOfAConnection(t *testing.T) {
	lines := func(pid int) []string {
		h := fmt.Sprintf("Feb  3 10:00:00 h sshd[%d]: ", pid)
		return []string{
			h + "Invalid user x from 192.0.2.7 port 40312",
			h + "Failed none for invalid user x from 192.0.2.7 port 40312 ssh2",
			h + "Failed password for invalid user x from 192.0.2.7 port 40312 ssh2",
			h + "Failed password for invalid user x from 192.0.2.7 port 40312 ssh2",
		}
	}
	s := New(0)
	firsts := func(evs []parse.Event) (out string) {
		for i := range evs {
			out += map[bool]string{true: "F", false: "-"}[evs[i].First]
		}
		return out
	}
	if got := firsts(joined(t, s, lines(7)...)); got != "F---" {
		t.Errorf("got %s", got)
	}
	state, _ := s.MarshalBinary()
	s = New(0)
	if err := s.UnmarshalBinary(state); err != nil {
		t.Fatal(err)
	}
	if got := firsts(joined(t, s, append(lines(7)[3:], lines(8)...)...)); got != "-F---" {
		t.Errorf("after a restart, and of another connection: got %s", got)
	}
	if got := firsts(joined(t, s, "Feb  3 10:00:00 h sshd: Failed password for root from 192.0.2.7 port 40312 ssh2")); got != "-" {
		t.Errorf("of a line without a connection: got %s, want none", got)
	}
}

// sshdHead begins a line of sshd.
const sshdHead = "Nov 20 09:23:10 host sshd[4153]: "
