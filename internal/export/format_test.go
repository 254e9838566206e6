package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFormats shows each format: two neighbours of which one has an allowed
// address, a single address, and IPv6.
func TestFormats(t *testing.T) {
	es := []Entry{block("192.0.2.0/29", 600), block("192.0.2.8/29", 600), block("198.51.100.7/32", 0), block("2001:db8::/64", 3600)}
	es[2].Rule, es[2].Count, es[2].Points = "by \"hand\"\r\n=x,y", 0, 0
	o := Options{Now: noon, Allow: prefixes("192.0.2.0/29")}
	for format, want := range map[string]string{
		"plain":      "# stoplog: 3 prefixes\n192.0.2.8/29\n198.51.100.7\n2001:db8::/64\n",
		"cidr":       "192.0.2.8/29\n198.51.100.7/32\n2001:db8::/64\n",
		"json":       "{\"blocks\":[\n{\"prefix\":\"192.0.2.8/29\",\"until\":\"2026-11-20T12:10:00Z\",\"rule\":\"ssh-login\",\"count\":6,\"points\":6},\n{\"prefix\":\"198.51.100.7/32\",\"rule\":\"by__hand____x_y\",\"count\":0,\"points\":0},\n{\"prefix\":\"2001:db8::/64\",\"until\":\"2026-11-20T13:00:00Z\",\"rule\":\"ssh-login\",\"count\":6,\"points\":6}\n],\"left_out\":0}\n",
		"csv":        "prefix,until,rule,count,points\r\n192.0.2.8/29,2026-11-20T12:10:00Z,ssh-login,6,6\r\n198.51.100.7/32,,by__hand____x_y,0,0\r\n2001:db8::/64,2026-11-20T13:00:00Z,ssh-login,6,6\r\n",
		"hosts.deny": "# stoplog: 3 prefixes\nALL: 192.0.2.8/29\nALL: 198.51.100.7\nALL: [2001:db8::]/64\n",
		"iptables-restore": "# stoplog: 3 prefixes\n# load with iptables-restore --noflush and ip6tables-restore --noflush; without --noflush the other rules of the table are deleted\n# then run once: iptables -I INPUT -j stoplog-export; ip6tables -I INPUT -j stoplog-export\n" +
			"*filter\n:stoplog-export - [0:0]\n-A stoplog-export -4 -s 192.0.2.8/29 -m time --datestop 2026-11-20T12:10:00 -j DROP\n-A stoplog-export -4 -s 198.51.100.7/32 -j DROP\n-A stoplog-export -6 -s 2001:db8::/64 -m time --datestop 2026-11-20T13:00:00 -j DROP\nCOMMIT\n",
		"pf": "# stoplog: 3 prefixes\n# in pf.conf: table <stoplog> persist file \"/etc/pf.stoplog\"; block in quick from <stoplog>\n192.0.2.8/29\n198.51.100.7\n2001:db8::/64\n",
		"cisco-acl": "! stoplog: 3 prefixes\nno access-list 150\naccess-list 150 deny ip 192.0.2.8 0.0.0.7 any\naccess-list 150 deny ip host 198.51.100.7 any\naccess-list 150 permit ip any any\n" +
			"no ipv6 access-list stoplog\nipv6 access-list stoplog\n deny ipv6 2001:db8::/64 any\n permit ipv6 any any\n!\n",
		"cisco-prefix-list": "! stoplog: 3 prefixes\nno ip prefix-list stoplog\nip prefix-list stoplog seq 5 permit 192.0.2.8/29\nip prefix-list stoplog seq 10 permit 198.51.100.7/32\nip prefix-list stoplog seq 15 deny 0.0.0.0/0 le 32\n" +
			"no ipv6 prefix-list stoplog\nipv6 prefix-list stoplog seq 5 permit 2001:db8::/64\nipv6 prefix-list stoplog seq 10 deny ::/0 le 128\n",
		"mikrotik":    "# stoplog: 3 prefixes\n/ip firewall address-list\nremove [find where list=stoplog]\nadd list=stoplog address=192.0.2.8/29 timeout=600s\nadd list=stoplog address=198.51.100.7/32\n/ipv6 firewall address-list\nremove [find where list=stoplog]\nadd list=stoplog address=2001:db8::/64 timeout=3600s\n",
		"nginx-deny":  "# stoplog: 3 prefixes\ndeny 192.0.2.8/29;\ndeny 198.51.100.7/32;\ndeny 2001:db8::/64;\n",
		"nginx-geo":   "# stoplog: 3 prefixes\ngeo $stoplog {\n\tdefault 0;\n\t192.0.2.8/29 1;\n\t198.51.100.7/32 1;\n\t2001:db8::/64 1;\n}\n",
		"apache":      "# stoplog: 3 prefixes\n# include inside <RequireAll>, next to Require all granted or other requirements\nRequire not ip 192.0.2.8/29\nRequire not ip 198.51.100.7/32\nRequire not ip 2001:db8::/64\n",
		"haproxy-acl": "# stoplog: 3 prefixes\n192.0.2.8/29\n198.51.100.7/32\n2001:db8::/64\n",
		"haproxy-map": "# stoplog: 3 prefixes\n192.0.2.8/29 1795176600\n198.51.100.7/32 253402300799\n2001:db8::/64 1795179600\n",
		"caddy":       "# stoplog: 3 prefixes\n(stoplog) {\n\t@stoplog {\n\t\tremote_ip 192.0.2.8/29\n\t\tremote_ip 198.51.100.7/32\n\t\tremote_ip 2001:db8::/64\n\t}\n\trespond @stoplog 429\n}\n",
		"ipset": "# stoplog: 3 prefixes\n# load with: ipset restore -exist\n# match with: -m set --match-set stoplog-export4 src, and --match-set stoplog-export-ports4 src,dst\n" +
			"create stoplog-export4 hash:net family inet maxelem 1048576 timeout 0\ncreate stoplog-export4-new hash:net family inet maxelem 1048576 timeout 0\nflush stoplog-export4-new\nadd stoplog-export4-new 192.0.2.8/29 timeout 600\nadd stoplog-export4-new 198.51.100.7/32 timeout 0\nswap stoplog-export4-new stoplog-export4\ndestroy stoplog-export4-new\ncreate stoplog-export-ports4 hash:net,port family inet maxelem 1048576 timeout 0\ncreate stoplog-export-ports4-new hash:net,port family inet maxelem 1048576 timeout 0\nflush stoplog-export-ports4-new\nswap stoplog-export-ports4-new stoplog-export-ports4\ndestroy stoplog-export-ports4-new\n" +
			"create stoplog-export6 hash:net family inet6 maxelem 1048576 timeout 0\ncreate stoplog-export6-new hash:net family inet6 maxelem 1048576 timeout 0\nflush stoplog-export6-new\nadd stoplog-export6-new 2001:db8::/64 timeout 3600\nswap stoplog-export6-new stoplog-export6\ndestroy stoplog-export6-new\ncreate stoplog-export-ports6 hash:net,port family inet6 maxelem 1048576 timeout 0\ncreate stoplog-export-ports6-new hash:net,port family inet6 maxelem 1048576 timeout 0\nflush stoplog-export-ports6-new\nswap stoplog-export-ports6-new stoplog-export-ports6\ndestroy stoplog-export-ports6-new\n",
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
		said := strings.Contains(got, "1 more prefixes are left out because of the limit of 1") || strings.Contains(got, `"left_out":1`)
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
	if err != nil || len(rows) != 2 || strings.Join(rows[1], "|") != "192.0.2.0/28|2026-11-20T12:10:00Z|ssh-login|6|6" {
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

func limited(e Entry, ports string, rate int) Entry {
	e.Limit = Limit{ports, rate}
	return e
}

// TestLimited: a block of some ports, and one that slows, is written as such, or
// as a whole block when it closes what is guarded, or is left out, and then the
// first line says so.
func TestLimited(t *testing.T) {
	es := []Entry{
		block("192.0.2.0/28", 600),
		limited(block("198.51.100.0/28", 600), "tcp/22,8000-8001", 0),
		limited(block("203.0.113.7/32", 0), "443", 0),
		limited(block("2001:db8::/64", 600), "", 3),
		limited(block("2001:db8:1::/64", -5), "tcp/22", 0), // ended
	}
	whole := map[string]string{
		"192.0.2.0/28": "192.0.2.0", "198.51.100.0/28": "198.51.100.0", "203.0.113.7/32": "203.0.113.7", "2001:db8::/64": "2001:db8::",
	}
	for _, f := range Formats() {
		for _, c := range []struct {
			guard Guard
			web   []string // what formats of web servers list
			rest  []string // and all others, beside what they can express
		}{
			{Guard{}, []string{"192.0.2.0/28", "203.0.113.7/32"}, []string{"192.0.2.0/28"}},
			{Guard{Any: true}, []string{"192.0.2.0/28", "198.51.100.0/28", "203.0.113.7/32", "2001:db8::/64"}, []string{"192.0.2.0/28", "198.51.100.0/28", "203.0.113.7/32", "2001:db8::/64"}},
			{guard(t, "22"), []string{"192.0.2.0/28", "198.51.100.0/28"}, []string{"192.0.2.0/28", "198.51.100.0/28"}},
			{guard(t, "udp/8001"), []string{"192.0.2.0/28", "198.51.100.0/28"}, []string{"192.0.2.0/28", "198.51.100.0/28"}},
			{guard(t, "udp/22,8002,444-500"), []string{"192.0.2.0/28"}, []string{"192.0.2.0/28"}},
		} {
			want := c.rest
			if f.Web {
				want = c.web
			}
			l, err := Build(f.Name, es, Options{Now: noon, Guard: c.guard})
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := l.Write(&b); err != nil {
				t.Fatal(err)
			}
			inClasses := 0
			for _, x := range l.classes {
				inClasses += len(x.pieces)
			}
			if got := len(l.pieces); got != len(want) || got+inClasses+l.Limited != len(whole) {
				t.Errorf("%s for %q: %d whole, %d as they are, %d left out; want %d whole of %d\n%s", f.Name, c.guard, got, inClasses, l.Limited, len(want), len(whole), &b)
			}
			for _, p := range want {
				if !strings.Contains(b.String(), whole[p]) {
					t.Errorf("%s for %q: %s is missing:\n%s", f.Name, c.guard, p, &b)
				}
			}
			first, _, _ := strings.Cut(b.String(), "\n")
			if said := strings.Contains(first, LeftOut(l.Limited)); said != (l.Limited > 0) && !f.Mute && f.Name != "json" {
				t.Errorf("%s for %q: %d are left out, and the first line is %q", f.Name, c.guard, l.Limited, first)
			}
		}
	}
}

func guard(t *testing.T, s string) Guard {
	t.Helper()
	g, err := ParseGuard(s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestParseGuard(t *testing.T) {
	for s, want := range map[string]string{"any": "any", "22": "22", "80,443": "80,443", "udp/53,8000-8999": "udp/53,8000-8999"} {
		if g, err := ParseGuard(s); err != nil || g.String() != want {
			t.Errorf("%s: %v, %v", s, g, err)
		}
	}
	for _, s := range []string{"", "all", "0", "70000", "9-3", "x", "tcp", "22,", "22;23", "1,2,3,4,5,6,7,8,9"} {
		if g, err := ParseGuard(s); err == nil {
			t.Errorf("%s was taken for %v", s, g)
		}
	}
}

// TestLimitedFormats shows each format that can express a limit.
func TestLimitedFormats(t *testing.T) {
	es := []Entry{limited(block("192.0.2.0/28", 600), "tcp/22,8000-8001", 0), limited(block("2001:db8::/64", 0), "53", 0), limited(block("198.51.100.7/32", 600), "tcp/80", 3)}
	for format, want := range map[string][]string{
		"nft": {"set limited1_6 {", "set limited2_4 {", "192.0.2.0/28 timeout 600s", "ip6 saddr @limited1_6 tcp dport { 53 } drop", "ip6 saddr @limited1_6 udp dport { 53 } drop", "ip saddr @limited2_4 tcp dport { 22, 8000-8001 } drop",
			"ip saddr @limited3_4 tcp dport { 80 } ct state new add @rates3_4 { ip saddr limit rate over 3/minute burst 3 packets } drop"},
		"ipset":            {"add stoplog-export-ports4-new 192.0.2.0/28,tcp:22-22 timeout 600", "add stoplog-export-ports4-new 192.0.2.0/28,tcp:8000-8001 timeout 600", "add stoplog-export-ports6-new 2001:db8::/64,udp:53-53 timeout 0", "1 block of other ports"},
		"iptables-restore": {"-4 -s 192.0.2.0/28 -p tcp -m multiport --dports 22,8000:8001 -m time", "-6 -s 2001:db8::/64 -p udp -m multiport --dports 53 -j DROP", "--hashlimit-above 3/minute"},
		"cisco-acl":        {"access-list 150 deny tcp 192.0.2.0 0.0.0.15 any eq 22\n", "access-list 150 deny tcp 192.0.2.0 0.0.0.15 any range 8000 8001\n", " deny udp 2001:db8::/64 any eq 53\n", "1 block of other ports"},
		"json":             {`"limited":[`, `"prefix":"192.0.2.0/28","until":"2026-11-20T12:10:00Z","rule":"ssh-login","count":6,"points":6,"ports":["tcp/22","8000-8001"]}`, `"ports":["tcp/80"],"rate":3}`, `--all-ports`, `"blocks":[` + "\n]"},
	} {
		var b bytes.Buffer
		if _, err := Write(&b, format, es, Options{Now: noon}); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", format, w, &b)
			}
		}
	}
}

// TestManyLimits: what a reader cannot bear is left out, counted, and the cap
// holds for all kinds together.
func TestManyLimits(t *testing.T) {
	var es []Entry
	for i := range 2 * maxClasses {
		es = append(es, limited(block(fmt.Sprintf("192.0.%d.0/28", i), 600+i), strconv.Itoa(i+1), 0))
	}
	l, err := Build("nft", es, Options{Now: noon})
	if err != nil || len(l.classes) != maxClasses || l.Limited != maxClasses {
		t.Errorf("%d classes, %d left out, %v", len(l.classes), l.Limited, err)
	}
	if l, err = Build("nft", append(es, block("203.0.113.0/24", 1), block("198.51.100.0/24", 9999)), Options{Now: noon, Cap: 3}); err != nil || l.Len() != 3 || l.Left != maxClasses-1 || len(l.pieces) != 1 {
		t.Errorf("capped: %d, %d left, %d whole, %v", l.Len(), l.Left, len(l.pieces), err)
	}
	wide := []Entry{limited(block("192.0.2.0/28", 60), "1-65535", 0)}
	if l, err = Build("ipset", wide, Options{Now: noon}); err != nil || l.Limited != 1 {
		t.Errorf("65535 elements for one block: %d left out, %v", l.Limited, err)
	}
	if !l.Ends.Equal(noon.Add(time.Minute)) {
		t.Errorf("the note about it holds until %s", l.Ends)
	}
}

// TestLimitedTags: lists that differ in what is left out, or in a limit alone,
// have different tags.
func TestLimitedTags(t *testing.T) {
	whole := block("192.0.2.0/28", 600)
	for _, format := range []string{"plain", "nft"} {
		seen := map[uint64]int{}
		for i, es := range [][]Entry{
			{whole}, {whole, limited(block("198.51.100.0/28", 600), "22", 0)},
			{whole, limited(block("198.51.100.0/28", 600), "22", 0), limited(block("203.0.113.0/28", 600), "22", 0)},
		} {
			l, err := Build(format, es, Options{Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if other, same := seen[l.Tag()]; same {
				t.Errorf("%s: lists %d and %d have one tag", format, other, i)
			}
			seen[l.Tag()] = i
		}
	}
	tags := map[uint64]bool{}
	for _, l := range []Limit{{"22", 0}, {"23", 0}, {"22", 3}, {"", 3}, {"", 4}} {
		e := whole
		e.Limit = l
		list, err := Build("nft", []Entry{e}, Options{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		tags[list.Tag()] = true
	}
	if len(tags) != 5 {
		t.Errorf("five limits have %d tags", len(tags))
	}
}
