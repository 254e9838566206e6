package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestFormats shows each format: two neighbours of which one has an allowed
// address, a single address, and IPv6.
func TestFormats(t *testing.T) {
	es := []Entry{block("192.0.2.0/29", 600), block("192.0.2.8/29", 600), block("198.51.100.7/32", 0), block("2001:db8::/64", 3600)}
	es[2].Rule, es[2].Count = "by \"hand\"\r\n=x,y", 0
	o := Options{Now: noon, Allow: prefixes("192.0.2.0/29")}
	for format, want := range map[string]string{
		"plain":      "# stoplog: 3 prefixes\n192.0.2.8/29\n198.51.100.7\n2001:db8::/64\n",
		"cidr":       "192.0.2.8/29\n198.51.100.7/32\n2001:db8::/64\n",
		"json":       "{\"blocks\":[\n{\"prefix\":\"192.0.2.8/29\",\"until\":\"2026-11-20T12:10:00Z\",\"rule\":\"ssh-login\",\"count\":6},\n{\"prefix\":\"198.51.100.7/32\",\"rule\":\"by__hand____x_y\",\"count\":0},\n{\"prefix\":\"2001:db8::/64\",\"until\":\"2026-11-20T13:00:00Z\",\"rule\":\"ssh-login\",\"count\":6}\n],\"left_out\":0}\n",
		"csv":        "prefix,until,rule,count\r\n192.0.2.8/29,2026-11-20T12:10:00Z,ssh-login,6\r\n198.51.100.7/32,,by__hand____x_y,0\r\n2001:db8::/64,2026-11-20T13:00:00Z,ssh-login,6\r\n",
		"hosts.deny": "# stoplog: 3 prefixes\nALL: 192.0.2.8/29\nALL: 198.51.100.7\nALL: [2001:db8::]/64\n",
		"iptables-restore": "# stoplog: 3 prefixes\n# load with iptables-restore --noflush and ip6tables-restore --noflush: without it the table's other rules go\n# and once: iptables -I INPUT -j stoplog-export; ip6tables -I INPUT -j stoplog-export\n" +
			"*filter\n:stoplog-export - [0:0]\n-A stoplog-export -4 -s 192.0.2.8/29 -m time --datestop 2026-11-20T12:10:00 -j DROP\n-A stoplog-export -4 -s 198.51.100.7/32 -j DROP\n-A stoplog-export -6 -s 2001:db8::/64 -m time --datestop 2026-11-20T13:00:00 -j DROP\nCOMMIT\n",
		"pf": "# stoplog: 3 prefixes\n# in pf.conf: table <stoplog> persist file \"/etc/pf.stoplog\"; block in quick from <stoplog>\n192.0.2.8/29\n198.51.100.7\n2001:db8::/64\n",
		"cisco-acl": "! stoplog: 3 prefixes\nno access-list 150\naccess-list 150 deny ip 192.0.2.8 0.0.0.7 any\naccess-list 150 deny ip host 198.51.100.7 any\naccess-list 150 permit ip any any\n" +
			"no ipv6 access-list stoplog\nipv6 access-list stoplog\n deny ipv6 2001:db8::/64 any\n permit ipv6 any any\n!\n",
		"cisco-prefix-list": "! stoplog: 3 prefixes\nno ip prefix-list stoplog\nip prefix-list stoplog seq 5 permit 192.0.2.8/29\nip prefix-list stoplog seq 10 permit 198.51.100.7/32\nip prefix-list stoplog seq 15 deny 0.0.0.0/0 le 32\n" +
			"no ipv6 prefix-list stoplog\nipv6 prefix-list stoplog seq 5 permit 2001:db8::/64\nipv6 prefix-list stoplog seq 10 deny ::/0 le 128\n",
		"mikrotik":    "# stoplog: 3 prefixes\n/ip firewall address-list\nremove [find where list=stoplog]\nadd list=stoplog address=192.0.2.8/29 timeout=600s\nadd list=stoplog address=198.51.100.7/32\n/ipv6 firewall address-list\nremove [find where list=stoplog]\nadd list=stoplog address=2001:db8::/64 timeout=3600s\n",
		"nginx-deny":  "# stoplog: 3 prefixes\ndeny 192.0.2.8/29;\ndeny 198.51.100.7/32;\ndeny 2001:db8::/64;\n",
		"nginx-geo":   "# stoplog: 3 prefixes\ngeo $stoplog {\n\tdefault 0;\n\t192.0.2.8/29 1;\n\t198.51.100.7/32 1;\n\t2001:db8::/64 1;\n}\n",
		"apache":      "# stoplog: 3 prefixes\n# include inside <RequireAll>, beside Require all granted or what else is required\nRequire not ip 192.0.2.8/29\nRequire not ip 198.51.100.7/32\nRequire not ip 2001:db8::/64\n",
		"haproxy-acl": "# stoplog: 3 prefixes\n192.0.2.8/29\n198.51.100.7/32\n2001:db8::/64\n",
		"haproxy-map": "# stoplog: 3 prefixes\n192.0.2.8/29 1795176600\n198.51.100.7/32 253402300799\n2001:db8::/64 1795179600\n",
		"caddy":       "# stoplog: 3 prefixes\n(stoplog) {\n\t@stoplog {\n\t\tremote_ip 192.0.2.8/29\n\t\tremote_ip 198.51.100.7/32\n\t\tremote_ip 2001:db8::/64\n\t}\n\trespond @stoplog 429\n}\n",
		"ipset": "# stoplog: 3 prefixes\n# load with: ipset restore -exist\n" +
			"create stoplog-export4 hash:net family inet maxelem 1048576 timeout 0\ncreate stoplog-export4-new hash:net family inet maxelem 1048576 timeout 0\nflush stoplog-export4-new\nadd stoplog-export4-new 192.0.2.8/29 timeout 600\nadd stoplog-export4-new 198.51.100.7/32 timeout 0\nswap stoplog-export4-new stoplog-export4\ndestroy stoplog-export4-new\n" +
			"create stoplog-export6 hash:net family inet6 maxelem 1048576 timeout 0\ncreate stoplog-export6-new hash:net family inet6 maxelem 1048576 timeout 0\nflush stoplog-export6-new\nadd stoplog-export6-new 2001:db8::/64 timeout 3600\nswap stoplog-export6-new stoplog-export6\ndestroy stoplog-export6-new\n",
		"nft": "# stoplog: 3 prefixes\ntable inet stoplog_export\ndelete table inet stoplog_export\ntable inet stoplog_export {\n\tset blocked4 {\n\t\ttype ipv4_addr\n\t\tflags interval, timeout\n\t\telements = {\n\t\t\t192.0.2.8/29 timeout 600s,\n\t\t\t198.51.100.7/32,\n\t\t}\n\t}\n\tset blocked6 {\n\t\ttype ipv6_addr\n\t\tflags interval, timeout\n\t\telements = {\n\t\t\t2001:db8::/64 timeout 3600s,\n\t\t}\n\t}\n" +
			"\tchain prerouting {\n\t\ttype filter hook prerouting priority mangle - 5; policy accept;\n\t\tct direction reply return\n\t\ticmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } return\n\t\tip saddr @blocked4 drop\n\t\tip6 saddr @blocked6 drop\n\t}\n}\n",
	} {
		var b bytes.Buffer
		if _, err := Write(&b, format, es, o); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if b.String() != want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", format, &b, want)
		}
	}
}

// TestEveryFormat holds what is true of all: the allowed is not there, the
// blocked is, and what the cap left out is said wherever comments can be.
func TestEveryFormat(t *testing.T) {
	es := []Entry{block("192.0.2.0/31", 600), block("198.51.100.7/32", 600), block("203.0.113.9/32", -1)}
	for _, f := range Formats() {
		var b bytes.Buffer
		left, err := Write(&b, f.Name, es, Options{Now: noon, Allow: prefixes("192.0.2.0/32"), Cap: 1})
		if err != nil || left != 1 {
			t.Errorf("%s: %d left, %v; want 1", f.Name, left, err)
		}
		got := b.String()
		if !strings.Contains(got, "192.0.2.1") || strings.Contains(got, "192.0.2.0") || strings.Contains(got, "198.51.100.7") || strings.Contains(got, "203.0.113.9") {
			t.Errorf("%s: wants 192.0.2.1 alone:\n%s", f.Name, got)
		}
		said := strings.Contains(got, "1 more prefixes were left out, by the cap of 1") || strings.Contains(got, `"left_out":1`)
		if mute := f.Name == "cidr" || f.Name == "csv"; said == mute {
			t.Errorf("%s: tells what was left out: %v\n%s", f.Name, said, got)
		}
		var later bytes.Buffer
		if _, err := Write(&later, f.Name, es, Options{Now: noon.Add(time.Second), Allow: prefixes("192.0.2.0/32"), Cap: 1}); err != nil {
			t.Fatal(err)
		}
		if counts := later.String() != got; counts != f.Counts {
			t.Errorf("%s: a second later the text differs: %v, said %v", f.Name, counts, f.Counts)
		}
	}
}

func TestMachineReadable(t *testing.T) {
	es := []Entry{block("192.0.2.0/28", 600), {Prefix: netip.MustParsePrefix("198.51.100.0/28"), Until: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), Rule: "x"}}
	var b bytes.Buffer
	if _, err := Write(&b, "json", es, Options{Now: noon}); err != nil {
		t.Fatal(err)
	}
	var j struct {
		Blocks []struct {
			Prefix netip.Prefix
			Until  time.Time
			Rule   string
			Count  int
		}
	}
	if err := json.Unmarshal(b.Bytes(), &j); err != nil || len(j.Blocks) != 2 || j.Blocks[0].Prefix != es[0].Prefix || !j.Blocks[0].Until.Equal(es[0].Until) || !j.Blocks[1].Until.IsZero() {
		t.Errorf("%v: %+v of %s", err, j, &b)
	}
	b.Reset()
	if _, err := Write(&b, "csv", es[:1], Options{Now: noon}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 2 || strings.Join(rows[1], "|") != "192.0.2.0/28|2026-11-20T12:10:00Z|ssh-login|6" {
		t.Errorf("%v: %q", err, rows)
	}
}

type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestFullDisk: no format swallows a failed write.
func TestFullDisk(t *testing.T) {
	es := million(20_000)
	for _, f := range Formats() {
		for _, room := range []int{0, 64 << 10} {
			if _, err := Write(&full{room}, f.Name, es, Options{Now: noon, Cap: -1}); !errors.Is(err, errFull) {
				t.Errorf("%s with room for %d bytes: %v, want %v", f.Name, room, err, errFull)
			}
		}
	}
}
