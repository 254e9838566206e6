package rules

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// What is written in the corners of a rules file arrives as it is meant.
func TestCornersArrive(t *testing.T) {
	s, _ := LoadBytes("everything", []byte(goodFiles(t)["everything.yaml"]), "/etc/stoplog")
	if s == nil {
		t.Fatal("no set")
	}
	pfx := netip.MustParsePrefix
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"firewall", s.Firewall, Firewall{
			Backends: []string{"nftables", "hosts.deny", "set-only", "exec"}, Action: "slow", Hook: "input", Cut: true, SlowRate: 3,
			Ports: []Ports{{"", 22, 22}, {"", 8000, 8999}, {"udp", 53, 53}}, MaxRules: 2000, MaxSet: 1 << 20, HostsDeny: "/etc/hosts.deny",
			Sets: Sets{"nft", "inet filter", "blocked4", "blocked6"},
			Exec: ExecWall{[]string{"/usr/local/bin/wall", "add"}, []string{"/usr/local/bin/wall", "del"}, 5 * time.Second},
		}},
		{"limits", s.Limits, Limits{100000, 1000, 16, 16, 1 << 20, 16 << 10, 1 << 20}},
		{"widen", s.Widen, Widen{true, Lens{24, 48}, 4, day}},
		{"protect", s.Protect, Protect{30 * day, true, true}},
		{"check", s.Listen.Check, Check{Listener: Listener{Addr: "/run/stoplog/check.sock"}, Header: "x-real-ip", Trusted: []netip.Prefix{pfx("127.0.0.1/32")}, Status: 429}},
		{"metrics", s.Listen.Metrics, Metrics{Listener{Addr: "[::1]:9100"}, "/var/lib/node/stoplog.prom"}},
		{"feed", s.Listen.Feed, Listener{Addr: "127.0.0.1:8081", Clients: []netip.Prefix{pfx("192.0.2.0/24")}}},
		{"mail", s.Notify[0].Email, Email{To: []string{"ops@example.org"}, From: "stoplog@example.org", Server: "localhost:25"}},
		{"webhook", s.Notify[1], Notify{Name: "ops", Webhook: "https://example.org/hook", Headers: map[string]string{"Authorization": "x"}, Group: time.Minute, Limit: 5, Timeout: 10 * time.Second}},
		{"exports", s.Exports, []Export{{Format: "nginx", File: "/etc/nginx/deny.conf"}}},
		{"reload", s.ReloadOnChange, true},
		{"flags", s.Flags, Flags{"/run/flags"}},
		{"journal", s.Sources[3].Units[0] + s.Sources[3].Identifiers[0] + s.Sources[3].Matches[0], "ssh.servicesshd_TRANSPORT=syslog"},
		{"pipe", s.Sources[4].Kind.String() + s.Sources[4].Path + s.Sources[4].Service, "pipe/run/logs.fifonginx"},
		{"exclude", s.Sources[5].Exclude, []string{"/var/log/nginx/old*"}},
		{"zone", s.Sources[5].Zone, time.UTC},
		{"lockdown", s.Find("lockdown").Levels[0].Then, []Answer{{Kind: Lockdown, Ports: []Ports{{"", 22, 22}}, For: 5 * time.Minute}}},
		{"contributors", s.Find("one-account").Levels[0].Then[1], Answer{Kind: BlockContributors, Each: 3}},
		{"exec", s.Find("api").Levels[0].Then[1], Answer{Kind: Exec, Argv: []string{"/usr/local/bin/busy"}}},
		{"slow", s.Find("slow-down").Levels[0].Then[0], Answer{Kind: Block, Action: "slow", Cut: true, Ports: []Ports{{"", 80, 80}, {"tcp", 443, 443}}}},
		{"when", s.Find("slow-down").When, []When{{Flag: "captcha", Capacity: 1}}},
		{"rule's lengths", s.Find("slow-down").Prefix, Lens{32, 60}},
		{"rule's floor", s.Find("slow-down").Floor, Lens{24, 32}},
		{"ttl of the rule", s.Find("slow-down").Levels[0].TTL, time.Hour},
		{"weight of the bucket", s.Find("slow-down").Levels[0].Weight.Base, 2},
		{"distinct", s.Find("one-account").Levels[0].Of, Key{{By: ByPrefix}}},
		{"escalation of a bucket", s.Find("my-ssh").Levels[1].Multiply, 2.0},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.what, c.got, c.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	s, _ := LoadBytes("t", nil, "")
	if s == nil {
		t.Fatal("an empty file is all defaults")
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"prefix", s.Prefix, Lens{28, 64}},
		{"floor", s.Floor, Lens{16, 32}},
		{"block", s.Block, Escalation{10 * time.Minute, 4, 30 * day, 30 * day}},
		{"protect", s.Protect, Protect{30 * day, true, true}},
		{"walls", s.Firewall.Backends, []string{"auto"}},
		{"widen", s.Widen.On, false},
		{"listeners", s.Listen, Listen{}},
		{"flags", s.Flags.Dir, "/run/stoplog/flags"},
		{"rules", len(s.Rules), 0},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.what, c.got, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	l := Lens{28, 64}
	for addr, want := range map[string]string{"192.0.2.77": "192.0.2.64/28", "2001:db8:1:2:3::9": "2001:db8:1:2::/64"} {
		if got := l.Cut(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
	if l.Cut(netip.Addr{}).IsValid() {
		t.Error("no address has no prefix")
	}
}

func TestReadPrefix(t *testing.T) {
	for _, c := range []struct {
		text, want, hint string
	}{
		{"192.0.2.1", "192.0.2.1/32", ""},
		{"::ffff:192.0.2.1", "192.0.2.1/32", ""},
		{"2001:db8::1", "2001:db8::1/128", ""},
		{"192.0.2.0/24", "192.0.2.0/24", ""},
		{"192.0.2.9/24", "", "did you mean 192.0.2.0/24?"},
		{"::ffff:192.0.2.0/120", "", "did you mean 192.0.2.0/24?"},
		{"fe80::1%eth0", "", ""},
		{"ALL", "", ""},
		{"192.0.2.0/33", "", ""},
		{"example.org", "", ""},
		{"", "", ""},
	} {
		p, hint, ok := readPrefix(c.text)
		got := ""
		if ok {
			got = p.String()
		}
		if got != c.want || hint != c.hint {
			t.Errorf("%q: got %q, %q, want %q, %q", c.text, got, hint, c.want, c.hint)
		}
	}
}

func TestReadPorts(t *testing.T) {
	for text, want := range map[string]Ports{
		"ssh": {"", 22, 22}, "tcp/https": {"tcp", 443, 443}, "domain/udp": {"udp", 53, 53}, "pop3s": {"", 995, 995},
		"no-such-service": {}, "ssh-http": {}, "tcp/ssh/tcp": {}, "ssh,http": {}, "sctp/ssh": {}, "-": {},
		"22": {"", 22, 22}, "8000-8999": {"", 8000, 8999}, "udp/53": {"udp", 53, 53}, "443/tcp": {"tcp", 443, 443}, "1-65535": {"", 1, 65535},
		"0": {}, "65536": {}, "9-8": {}, "tcp/1/udp": {}, "": {}, "-1": {}, "1-": {},
	} {
		got, ok := readPorts(text)
		if ok != (want != Ports{}) || ok && got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, ok, want)
		}
	}
}

func TestParseRange(t *testing.T) {
	const most = 1<<63 - 1
	for text, want := range map[string][2]int64{
		"401": {401, 401}, "401-403": {401, 403}, "4xx": {400, 499}, ">=500": {500, most}, ">500": {501, most}, "<400": {0, 399}, "<=400": {0, 400}, "1 - 2": {1, 2},
	} {
		lo, hi, ok := parseRange(text)
		if !ok || lo != want[0] || hi != want[1] {
			t.Errorf("%q: got %d to %d, %v, want %v", text, lo, hi, ok, want)
		}
	}
	for _, text := range []string{"", "x", "4x", "-1", "1-", "xxx", ">=", "99999999999", "1-2-3"} {
		if lo, hi, ok := parseRange(text); ok {
			t.Errorf("%q: got %d to %d, want it refused", text, lo, hi)
		}
	}
}
