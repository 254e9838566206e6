package parse

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDaemonTags says which tags and names of services have a scanner.
func TestDaemonTags(t *testing.T) {
	p := daemonParser(t, "")
	for _, tag := range []string{
		"postfix", "postfix/smtpd", "postfix/submission/smtpd", "postfix-in/smtps/smtpd", "postfix/postscreen", "postfix/anvil",
		"postgrey", "dovecot", "imap-login", "auth-worker", "exim", "exim4", "sendmail", "sm-mta", "sm-msp-queue", "imapd",
		"pop3d-ssl", "courierpop3login", "courieresmtpd", "cyrus/imaps", "timsieved", "ipop3d", "smtpd", "perdition.imaps",
		"rblsmtpd", "vchkpw-pop3", "solid-pop3d", "vsftpd", "proftpd", "pure-ftpd", "in.ftpd", "mysqld", "mariadbd", "postgres",
		"mongod", "slapd", "named", "named-sdb", "openvpn", "ovpn-server", "openvpn@server", "charon", "asterisk", "freeswitch",
		"ejabberd", "danted", "sockd", "stunnel4", "kernel", "fail2ban.actions", "sshguard", "php-fpm", "xl2tpd",
	} {
		if p.tagScanner([]byte(tag)) == nil && !p.opt.Packs.Knows([]byte(tag)) {
			t.Errorf("%q: got no scanner", tag)
		}
	}
	for _, tag := range []string{"", "/", "x", "cron", "postfix/qmgr", "postfix/pickup", "dovecots", "my-auth", "cyrus/"} {
		if p.tagScanner([]byte(tag)) != nil || p.opt.Packs.Knows([]byte(tag)) {
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
