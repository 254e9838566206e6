package export_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stoplog/internal/export"
	"stoplog/internal/export/proxytest"
	"stoplog/internal/firewall/firewalltest"
)

// samples are lists that formats can stumble over: each must be good text.
func samples() map[string][]export.Entry {
	four := []export.Entry{entry("192.0.2.0/28", time.Hour), entry("198.51.100.7/32", 40*24*time.Hour), entry("203.0.113.0/24", 0)}
	six := []export.Entry{entry("2001:db8::/64", time.Hour), entry("2001:db8:1::1/128", 20*365*24*time.Hour), entry("2001:db8:2::/48", 0)}
	return map[string][]export.Entry{
		"limited": {entry("192.0.2.0/28", time.Hour), limited("198.51.100.0/28", "tcp/22,8000-8010"), limited("2001:db8::/64", "53"), limitedRate("203.0.113.0/28", 3), limitedRate("2001:db8:1::/64", 3)},
		"nothing": nil, "IPv4 alone": four, "IPv6 alone": six, "both": append(four[:3:3], six...),
	}
}

func limited(prefix, ports string) export.Entry {
	e := entry(prefix, time.Hour)
	e.Limit.Ports = ports
	return e
}

func limitedRate(prefix string, rate int) export.Entry {
	e := entry(prefix, time.Hour)
	e.Limit.Rate = rate
	return e
}

// entry lasts so long from now; 0: without an end.
func entry(prefix string, d time.Duration) export.Entry {
	e := export.Entry{Prefix: netip.MustParsePrefix(prefix), Rule: "ssh-login", Count: 6, Points: 6}
	if d != 0 {
		e.Until = time.Now().Add(d)
	}
	return e
}

// text writes a format, with 192.0.2.5 allowed.
func text(t *testing.T, format string, es []export.Entry) string {
	t.Helper()
	var b bytes.Buffer
	left, err := export.Write(&b, format, es, export.Options{Now: time.Now(), Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.5/32")}})
	if err != nil || left != 0 {
		t.Fatalf("%s: %d left out, %v", format, left, err)
	}
	return b.String()
}

// command runs a program with text on its standard input and wants it to succeed.
func command(t *testing.T, stdin string, argv ...string) string {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(stdin)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s\nreading\n%s", strings.Join(argv, " "), err, out, stdin)
	}
	return string(out)
}

func wants(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: no %q in\n%s", what, w, got)
		}
	}
}

func TestNft(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft")
	firewalltest.Namespace(t)
	for name, es := range samples() {
		file := proxytest.File(t, "list.nft", text(t, "nft", es))
		command(t, "", "nft", "-c", "-f", file)
		for range 2 { // a second time replaces the first
			command(t, "", "nft", "-f", file)
		}
		got := command(t, "", "nft", "list", "ruleset")
		wants(t, name, got, "table inet stoplog_export", "set blocked4", "set blocked6", "drop")
		if name == "both" {
			wants(t, name, got, "192.0.2.0/30 timeout", "192.0.2.4 timeout", "192.0.2.6/31 timeout", "198.51.100.7 timeout", "203.0.113.0/24", "2001:db8::/64 timeout", "2001:db8:2::/48")
		}
		if strings.Contains(got, "192.0.2.5") {
			t.Errorf("%s: the allowed is there:\n%s", name, got)
		}
	}
}

// TestLimitedPackets sends packets past a list with blocks of some ports and
// slowed ones: only these ports are closed, and of a slowed address so many
// connections a minute pass.
func TestLimitedPackets(t *testing.T) {
	for name, load := range map[string]func(t *testing.T, es []export.Entry){
		"nft": func(t *testing.T, es []export.Entry) { command(t, text(t, "nft", es), "nft", "-f", "-") },
		"iptables-restore": func(t *testing.T, es []export.Entry) {
			command(t, text(t, "iptables-restore", es), "iptables-restore", "--noflush")
			command(t, "", "iptables", "-I", "INPUT", "-j", "stoplog-export")
		},
		"ipset": func(t *testing.T, es []export.Entry) {
			command(t, text(t, "ipset", es), "ipset", "restore", "-exist")
			command(t, "", "iptables", "-A", "INPUT", "-m", "set", "--match-set", "stoplog-export-ports4", "src,dst", "-j", "DROP")
		},
	} {
		t.Run(name, func(t *testing.T) {
			firewalltest.NeedPrograms(t, "nft", "iptables", "iptables-restore", "ipset", "ip")
			firewalltest.Namespace(t)
			for _, a := range []string{"192.0.2.1", "198.51.100.1", "203.0.113.1", "10.0.0.1"} {
				command(t, "", "ip", "addr", "add", a+"/24", "dev", "lo")
			}
			open, shut := listen(t), listen(t)
			_, port, _ := net.SplitHostPort(shut)
			load(t, []export.Entry{limited("192.0.2.0/28", "tcp/1-2,"+port), limitedRate("203.0.113.0/28", 3)})
			for _, c := range []struct {
				from, to string
				passes   int // of six
			}{{"198.51.100.1", shut, 6}, {"192.0.2.1", open, 6}, {"192.0.2.1", shut, 0}, {"203.0.113.1", open, 3}} {
				if c.passes == 3 && name == "ipset" {
					continue // a set has no rates
				}
				passed := 0
				for range 6 {
					if connects(c.from, c.to) {
						passed++
					}
				}
				if passed != c.passes {
					t.Errorf("of six connections from %s %d passed, want %d", c.from, passed, c.passes)
				}
			}
		})
	}
}

// listen accepts connections on 10.0.0.1 until the test ends.
func listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "10.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func connects(from, to string) bool {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 300 * time.Millisecond}
	c, err := d.Dial("tcp", to)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// TestNftDrops sends packets: what is blocked is dropped, what is allowed
// inside it is not, and replies to connections from inside are not either.
func TestNftDrops(t *testing.T) {
	firewalltest.NeedPrograms(t, "nft", "ip")
	firewalltest.Namespace(t)
	for _, a := range []string{"192.0.2.1", "192.0.2.5", "10.0.0.1"} {
		command(t, "", "ip", "addr", "add", a+"/24", "dev", "lo")
	}
	command(t, text(t, "nft", samples()["both"]), "nft", "-f", "-")
	for _, c := range []struct {
		from, to string
		open     bool
	}{{"192.0.2.5", "10.0.0.1", true}, {"192.0.2.1", "10.0.0.1", false}, {"10.0.0.1", "192.0.2.1", true}} {
		l, err := net.Listen("tcp", c.to+":0")
		if err != nil {
			t.Fatal(err)
		}
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}, Timeout: 300 * time.Millisecond}
		conn, err := d.Dial("tcp", l.Addr().String())
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.open {
			t.Errorf("%s to %s: %v, want open %v", c.from, c.to, err, c.open)
		}
		l.Close()
	}
}

func TestIpset(t *testing.T) {
	firewalltest.NeedPrograms(t, "ipset")
	firewalltest.Namespace(t)
	for name, es := range samples() {
		for range 2 {
			command(t, text(t, "ipset", es), "ipset", "restore", "-exist")
		}
		got := command(t, "", "ipset", "save")
		wants(t, name, got, "create stoplog-export4 ", "create stoplog-export6 ")
		if n := strings.Count(got, "create"); n != 4 {
			t.Errorf("%s: %d sets, want 4:\n%s", name, n, got)
		}
		if name == "both" {
			wants(t, name, got, "add stoplog-export4 192.0.2.0/30 timeout 3", "add stoplog-export4 198.51.100.7 timeout 214748", "add stoplog-export4 203.0.113.0/24 timeout 0", "add stoplog-export6 2001:db8::/64 timeout 3")
		}
	}
}

func TestIptablesRestore(t *testing.T) {
	for _, variant := range []string{"", "-nft", "-legacy"} {
		t.Run("iptables"+variant, func(t *testing.T) {
			for _, family := range []string{"iptables", "ip6tables"} {
				firewalltest.NeedPrograms(t, family+variant, family+variant+"-restore")
			}
			firewalltest.Namespace(t)
			for _, family := range []string{"iptables", "ip6tables"} {
				command(t, "", family+variant, "-A", "INPUT", "-m", "comment", "--comment", "another's", "-j", "ACCEPT")
				loadIptables(t, family, variant)
			}
		})
	}
}

func loadIptables(t *testing.T, family, variant string) {
	t.Helper()
	for name, es := range samples() {
		file := text(t, "iptables-restore", es)
		command(t, file, family+variant+"-restore", "--noflush", "--test")
		for range 2 {
			command(t, file, family+variant+"-restore", "--noflush")
		}
		got := command(t, "", family+variant, "-S")
		wants(t, name, got, "-N stoplog-export", "another")
		if name != "both" {
			continue
		}
		four := []string{"-A stoplog-export -s 192.0.2.0/30 -m time --datestop " + es[0].Until.UTC().Format("2006-01-02T15:04:05"), "-A stoplog-export -s 203.0.113.0/24 -j DROP"}
		six := []string{"-A stoplog-export -s 2001:db8::/64 -m time", "-A stoplog-export -s 2001:db8:2::/48 -j DROP"}
		if family == "ip6tables" {
			four, six = six, four
		}
		wants(t, name, got, four...)
		for _, other := range six {
			if strings.Contains(got, other) {
				t.Errorf("%s has the other family's %q", family, other)
			}
		}
	}
}

// TestHostsDeny lets tcpdmatch say what the lines mean.
func TestHostsDeny(t *testing.T) {
	firewalltest.NeedPrograms(t, "tcpdmatch")
	dir := t.TempDir()
	t.Chdir(dir)
	for name, s := range map[string]string{"hosts.allow": "", "hosts.deny": text(t, "hosts.deny", samples()["both"])} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for addr, want := range map[string]string{
		"192.0.2.1": "denied", "192.0.2.15": "denied", "192.0.2.5": "granted", "192.0.2.16": "granted", "198.51.100.7": "denied", "198.51.100.8": "granted",
		"2001:db8::9": "denied", "2001:db8:1::1": "denied", "2001:db8:1::2": "granted",
	} {
		if out := command(t, "", "tcpdmatch", "-d", "sshd", addr); !strings.Contains(out, want) {
			t.Errorf("%s is not %s:\n%s", addr, want, out)
		}
	}
}

// TestCisco lets FRR's shell judge what it knows of IOS: all but the bodies
// of IPv6 access lists, which FRR writes another way.
func TestCisco(t *testing.T) {
	firewalltest.NeedPrograms(t, "vtysh")
	for name, es := range samples() {
		if name == "limited" {
			continue // FRR's access lists have no ports
		}
		frr := func(format string) string {
			var keep []string
			for _, l := range strings.SplitAfter(text(t, format, es), "\n") {
				if !strings.HasPrefix(l, "no ipv6 access-list") && !strings.HasPrefix(l, "ipv6 access-list") && !strings.HasPrefix(l, " ") {
					keep = append(keep, l)
				}
			}
			return strings.Join(keep, "")
		}
		for _, format := range []string{"cisco-acl", "cisco-prefix-list"} {
			conf := frr(format)
			if out := command(t, conf, "vtysh", "-C", "-f", proxytest.File(t, "frr.conf", conf)); out != "" {
				t.Errorf("%s, %s: %s", format, name, out)
			}
		}
	}
	if err := exec.Command("vtysh", "-C", "-f", proxytest.File(t, "bad.conf", "access-list 150 deny ip 192.0.2.0/28 any\n")).Run(); err == nil {
		t.Error("vtysh takes anything, so that this test says nothing")
	}
}
