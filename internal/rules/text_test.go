package rules

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration // -1: refused
	}{
		{"90s", 90 * time.Second}, {"10m", 10 * time.Minute}, {"1h30m", 90 * time.Minute}, {"7d", 7 * day}, {"2w", 14 * day},
		{"250ms", 250 * time.Millisecond}, {"120ms", 120 * time.Millisecond}, {"0s", 0}, {"1w2d3h4m5s6ms", week + 2*day + 3*time.Hour + 4*time.Minute + 5*time.Second + 6*time.Millisecond},
		{"", -1}, {"10", -1}, {"s", -1}, {"-1s", -1}, {"+1s", -1}, {"1.5h", -1}, {"1 h", -1}, {"1H", -1}, {"30m1h", -1}, {"1m1m", -1},
		{"1y", -1}, {"99999999999w", -1}, {"9223372036854775807s", -1}, {"15250w9223372036s", -1}, {strings.Repeat("0", 40) + "s", -1}, {"１0s", -1},
	} {
		got, err := ParseDuration(c.text)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%q: got %v, want %v", c.text, got, c.want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "0s", 90 * time.Second: "1m30s", 8 * day: "8d", 14 * day: "14d", 36 * time.Hour: "1d12h", time.Millisecond: "1ms", -time.Second: "0s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"90s", "1h30m", "2w", "1w2d3h4m5s6ms", "9223372036854775807s", "x", "1m1m"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %v", text, d)
		}
		if back, err := ParseDuration(FormatDuration(d)); err != nil || back != d {
			t.Fatalf("%q: %v is written %s and read %v, %v", text, d, FormatDuration(d), back, err)
		}
	})
}

func TestNearest(t *testing.T) {
	words := []string{"capacity", "leak", "ttl", "then", "multiply", "prefix"}
	for got, want := range map[string]string{
		"capcity": "capacity", "capactiy": "capacity", "Capacity": "capacity", "leek": "leak", "laek": "leak", "tll": "ttl",
		"prefx": "prefix", "multipliy": "multiply", "zebra": "", "": "", "x": "", strings.Repeat("capacity", 20): "",
	} {
		if n := nearest(got, words); n != want {
			t.Errorf("%q: got %q, want %q", got, n, want)
		}
	}
}

func TestReadyRulesAreSound(t *testing.T) {
	names := readyNames()
	if len(names) < 8 {
		t.Fatalf("got %d ready rules", len(names))
	}
	for _, r := range ReadyRules() {
		s, problems := LoadBytes("t", []byte("use: ["+r.Name+"]\n"), "")
		for _, p := range problems {
			t.Errorf("%s: %s", r.Name, p.Error())
		}
		if s == nil || len(s.Rules) == 0 || len(s.Sources) == 0 || r.About == "" || r.Text == "" {
			t.Errorf("%s is not whole", r.Name)
			continue
		}
		for _, rule := range s.Rules {
			if rule.Ready != r.Name || rule.About == "" {
				t.Errorf("%s: the rule %s does not say what it is about, or whose it is", r.Name, rule.Name)
			}
		}
	}
}

func TestUse(t *testing.T) {
	count := func(use string) int {
		s, problems := LoadBytes("t", []byte("use: "+use+"\n"), "")
		if s == nil {
			t.Fatal(problems)
		}
		return len(s.Ready)
	}
	all := count("auto")
	if count("[auto, -mail]") != all-1 || count("[auto, voip]") != all+1 || count("ssh") != 1 {
		t.Errorf("auto %d, without mail %d, with voip %d, ssh alone %d", all, count("[auto, -mail]"), count("[auto, voip]"), count("ssh"))
	}
	s, _ := LoadBytes("t", []byte("use: nginx\n"), "")
	if got := s.Waiting(func(string) bool { return false }); len(got) != 3 {
		t.Errorf("waiting: got %v, want both globs of the access logs, and the error logs", got)
	}
	if got := s.Waiting(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("waiting: got %v, want none", got)
	}
}

// README.md says how long the first block of a ready rule is at most.
func TestFirstBlocksAreShort(t *testing.T) {
	const longest = time.Hour
	for _, name := range readyNames() {
		set, problems := LoadBytes("test.yaml", []byte("use: ["+name+"]\n"), "")
		if set == nil {
			t.Fatal(problems)
		}
		for _, r := range set.Rules {
			for _, l := range r.Levels {
				if first := cmp.Or(l.TTL, set.Block.TTL); first > longest {
					t.Errorf("%s: a first block of %v, want at most %v", r.Name, first, longest)
				}
			}
		}
	}
}
