package parse

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHelpersOfDaemons(t *testing.T) {
	t.Run("clientBox", func(t *testing.T) {
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
			a, rest, ok := clientBox([]byte(c.in))
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
	})
	t.Run("trimTimes", func(t *testing.T) {
		for in, want := range map[string]string{
			"x: 2 Time(s)": "x", "x: 535 y: 1 Time(s) ": "x: 535 y", "x Time(s)": "x Time(s)", " x ": "x", "": "",
		} {
			if got := string(trimTimes([]byte(in))); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		}
	})
	t.Run("cutNear", func(t *testing.T) {
		if _, after, ok := cutNear([]byte("ab] cd] ef"), "] ", 4); !ok || string(after) != "cd] ef" {
			t.Errorf("got %q %v, want the text behind the first", after, ok)
		}
		if _, _, ok := cutNear([]byte("ab] cd"), "] ", 3); ok {
			t.Error("got a separator beyond the limit, want none")
		}
	})
	t.Run("failedOf", func(t *testing.T) {
		for in, want := range map[string]int{
			"0/2": 2, "1/3": 2, "2/2": 0, "1": 0, "3/1": 0, "": 0, "0/99999999": 0, "0/2x": 0, "a/b": 0,
		} {
			if got := failedOf([]byte(in)); got != want {
				t.Errorf("%q: got %d, want %d", in, got, want)
			}
		}
	})
	t.Run("commandWords", func(t *testing.T) {
		for in, want := range map[string]bool{
			"RCPT ": true, "END-OF-MESSAGE ": true, "DATA (12 bytes) ": true, "rcpt ": false, "RCPT": false, "": false,
			" ": false, "RCPT x ": false, "DATA (12 bytes": false, strings.Repeat("A", 60) + " ": false,
		} {
			if got := commandWords([]byte(in)); got != want {
				t.Errorf("%q: got %v, want %v", in, got, want)
			}
		}
	})
	t.Run("eximID", func(t *testing.T) {
		for in, want := range map[string]bool{
			"1xULqc-00002X-2O": true, "1xULqc-00000000000-2Ox4": true, "1xULqc-00002X-2": false, "2026-11-20 10:27": false,
			"[1234567890123]:": false, "": false,
		} {
			if got := eximID([]byte(in)); got != want {
				t.Errorf("%q: got %v, want %v", in, got, want)
			}
		}
	})
	t.Run("onlyAddr", func(t *testing.T) {
		for in, want := range map[string]string{
			"x' failed for '192.0.2.1:5060' - y":                            "192.0.2.1",
			"x' failed for '192.0.2.1' - ' failed for '192.0.2.1:1' - y":    "192.0.2.1",
			"x' failed for '192.0.2.1' - ' failed for '192.0.2.2:1' - y":    "",
			"x' failed for 'a' - ' failed for '[2001:db8::1]:5060' (callid": "2001:db8::1",
			"x' failed for '192.0.2.1":                                      "",
		} {
			a, ok := onlyAddr([]byte(in), "' failed for '", "'")
			if got := addrText(a, ok); got != want {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		}
	})
}

func addrText(a netip.Addr, ok bool) string {
	if !ok {
		return ""
	}
	return a.String()
}

// TestDaemonTags says which tags and names of services have a scanner.
func TestDaemonTags(t *testing.T) {
	for _, tag := range []string{
		"postfix", "postfix/smtpd", "postfix/submission/smtpd", "postfix-in/smtps/smtpd", "postfix/postscreen", "postfix/anvil",
		"postgrey", "dovecot", "imap-login", "auth-worker", "exim", "exim4", "sendmail", "sm-mta", "sm-msp-queue", "imapd",
		"pop3d-ssl", "courierpop3login", "courieresmtpd", "cyrus/imaps", "timsieved", "ipop3d", "smtpd", "perdition.imaps",
		"rblsmtpd", "vchkpw-pop3", "solid-pop3d", "vsftpd", "proftpd", "pure-ftpd", "in.ftpd", "mysqld", "mariadbd", "postgres",
		"mongod", "slapd", "named", "named-sdb", "openvpn", "ovpn-server", "openvpn@server", "charon", "asterisk", "freeswitch",
		"ejabberd", "danted", "sockd", "stunnel4", "kernel", "fail2ban.actions", "sshguard", "php-fpm", "xl2tpd",
	} {
		if daemonScanner([]byte(tag)) == nil {
			t.Errorf("%q: got no scanner", tag)
		}
	}
	for _, tag := range []string{"", "/", "x", "cron", "systemd", "postfix/qmgr", "postfix/pickup", "dovecots", "my-auth", "cyrus/"} {
		if daemonScanner([]byte(tag)) != nil {
			t.Errorf("%q: got a scanner, want none", tag)
		}
	}
}

// goodLines are all lines that hold the address of a peer: those of the
// hostile tables with a harmless text, and the captured ones that are read.
func goodLines(t *testing.T) (lines []string) {
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			lines = append(lines, list[i].with("someone"))
		}
	}
	files, err := filepath.Glob("testdata/daemons/*.log")
	if err != nil {
		t.Fatal(err)
	}
	p := daemonParser(t, "")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if strings.Contains(line, "pam_unix(") {
				continue // PAM's, tested with PAM
			}
			if ev, ok := parseOne(t, p, line); ok && ev.Addr.IsValid() {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// TestTruncatedDaemonLines cuts each line off at each byte: an address whose
// end is missing must not become another's. Only where the format itself ends
// with the address nobody can tell.
func TestTruncatedDaemonLines(t *testing.T) {
	p := daemonParser(t, "")
	for _, line := range goodLines(t) {
		whole, _ := parseOne(t, p, line)
		for n := range line {
			ev, ok := parseOne(t, p, line[:n])
			if ok && ev.Addr.IsValid() && ev.Addr != whole.Addr && !boundary(line, ev.Addr.String()) && !endsWith(line[:n], ev.Addr) {
				t.Errorf("%s\n blames %v, the whole line %v", line[:n], ev.Addr, whole.Addr)
			}
		}
	}
}

// endsWith reports whether line's last word ends with the address a.
func endsWith(line string, a netip.Addr) bool {
	w := line[strings.LastIndexAny(line, " =[/(")+1:]
	end, err := netip.ParseAddr(w)
	return err == nil && end.Unmap() == a
}

// boundary reports whether line holds addr as a whole address.
func boundary(line, addr string) bool {
	for rest := line; ; {
		i := strings.Index(rest, addr)
		if i < 0 {
			return false
		}
		tail := rest[i+len(addr):]
		if tail == "" || !strings.ContainsRune("0123456789abcdef", rune(tail[0])) {
			return true
		}
		rest = rest[i+1:]
	}
}

// TestBrokenAddresses puts what is no address in the peer's place: nobody is
// blamed, and no part of it is taken for one.
func TestBrokenAddresses(t *testing.T) {
	p := daemonParser(t, "")
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			for _, bad := range []string{
				"198.51.100.256", "198.51.100", "198.51.100.9.evil.example", "198.51.100.9-net.example", "host.example", "1198.51.100.9",
				"198.051.100.9", "0x7f.1", "198.51.100.9/24", "fe80::9%eth0", "::ffff:198.51.100.999", "2001:db8:::9", "unknown", "localhost", "ALL", "",
			} {
				line := strings.ReplaceAll(list[i].with("someone"), "198.51.100.9", bad)
				ev, ok := parseOne(t, p, line)
				if ok && ev.Addr.IsValid() && ev.Addr != netip.MustParseAddr("192.0.2.10") {
					t.Errorf("%s\n blames %v", line, ev.Addr)
				}
			}
		}
	}
}
