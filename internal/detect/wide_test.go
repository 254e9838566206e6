package detect

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stoplog/internal/bucket"
	"stoplog/internal/parse"
)

// from64 is an address in the n-th /64 of a network.
func from64(network string, n, host int) string {
	b := netip.MustParsePrefix(network).Addr().As16()
	b[6], b[7] = b[6]|byte(n>>8), b[7]|byte(n)
	b[14], b[15] = byte(host>>8), byte(host)
	return netip.AddrFrom16(b).String()
}

// play runs events through rules whose blocks hold, and lists these.
func play(t *testing.T, names string, evs []*parse.Event) (through int, blocks []string) {
	t.Helper()
	set := ready(t, names)
	e, g := New(set, Options{Seed: 3}), newGate()
	for _, ev := range evs {
		if g.Verdict(ev.Addr, ev.Service, ev.User, ev.Time) != Blocked {
			through++
		}
		bs := feed(e, g, ev)
		g.obey(set, bs)
		for _, b := range bs {
			if b.Prefix.IsValid() && hasBlock(b.Answers) {
				blocks = append(blocks, b.Prefix.String())
			}
		}
		if ev.Outcome == parse.Success {
			g.known[fmt.Sprintf("%s %s %s", ev.Service, ev.User, ev.Addr)] = true
		}
	}
	return through, blocks
}

// TestRotationIsStopped: 20,000 failures, one from each /64 of a network.
func TestRotationIsStopped(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name, rules, service, network string
		size, most                    int
	}{
		{"sshd, a /48", "ssh", "sshd", "2001:db8:7::/48", 65536, 150},
		{"sshd, a /56", "ssh", "sshd", "2001:db8:7:ab00::/56", 256, 150},
		{"sshd, a /60", "ssh", "sshd", "2001:db8:7:ab40::/60", 16, 150},
		{"dovecot, a /48", "mail", "dovecot", "2001:db8:7::/48", 65536, 800},
		{"dovecot, a /56", "mail", "dovecot", "2001:db8:7:ab00::/56", 256, 800},
		{"postgres, a /48", "database", "postgres", "2001:db8:7::/48", 65536, 200},
		{"vsftpd, a /48", "ftp", "vsftpd", "2001:db8:7::/48", 65536, 200},
		{"nginx, a /48", "web", "http", "2001:db8:7::/48", 65536, 800},
	} {
		var evs []*parse.Event
		for i := range 20_000 {
			n := i
			if c.size > 256 {
				n = r.IntN(c.size)
			}
			evs = append(evs, failure(after(time.Duration(i)*time.Second), c.service, fmt.Sprint("u", i%50), from64(c.network, n%c.size, i)))
		}
		through, blocks := play(t, c.rules, evs)
		t.Logf("%s: %d of 20000 got through, blocks %v", c.name, through, blocks[:min(len(blocks), 6)])
		if through > c.most || len(blocks) == 0 {
			t.Errorf("%s: %d of 20000 got through, want at most %d; blocks %v", c.name, through, c.most, blocks)
		}
		for _, b := range blocks {
			if p := netip.MustParsePrefix(b); !netip.MustParsePrefix(c.network).Overlaps(p) || p.Bits() < netip.MustParsePrefix(c.network).Bits() {
				t.Errorf("%s: blocks %s", c.name, b)
			}
		}
	}
}

// TestHonestNetworks: who shares a network does not pay for it.
func TestHonestNetworks(t *testing.T) {
	const office, home, hoster, carrier = "2001:db8:1::/48", "2001:db8:2:5600::/56", "2001:db8:3::/48", "2001:db8:4::/48"
	r := rand.New(rand.NewPCG(2, 2))
	mistype := func(evs []*parse.Event, at time.Duration, service, user string, times int, network string, n, host int) []*parse.Event {
		for i := range times {
			ev := failure(after(at+time.Duration(i)*3*time.Second), service, user, from64(network, n, host))
			evs = append(evs, ev)
		}
		return append(evs, success(after(at+time.Minute), service, user, from64(network, n, host)))
	}
	for _, c := range []struct {
		name, rules string
		evs         func() []*parse.Event
	}{
		{"a family with privacy addresses, in three /64s, every day of a month", "ssh", func() (evs []*parse.Event) {
			for day := range 30 {
				for who := range 5 {
					at := time.Duration(day)*24*time.Hour + time.Duration(who)*time.Hour
					evs = mistype(evs, at, "sshd", fmt.Sprint("kin", who), 1+r.IntN(2), home, who%3, r.IntN(60000))
				}
			}
			return evs
		}},
		{"an office of 200 in 40 networks, each mistypes twice on Monday", "ssh", func() (evs []*parse.Event) {
			for who := range 200 {
				evs = mistype(evs, time.Duration(who)*36*time.Second*2, "sshd", fmt.Sprint("staff", who), 2, office, who%40, who)
			}
			return evs
		}},
		{"a university of 2,000 in 400 networks, each mistypes once within an hour", "ssh", func() (evs []*parse.Event) {
			for who := range 2000 {
				evs = mistype(evs, time.Duration(who)*2*time.Minute, "sshd", fmt.Sprint("pupil", who), 1, office, who%400, who)
			}
			return evs
		}},
		{"telephones of a carrier with an old mail password, a new /64 each time", "mail", func() (evs []*parse.Event) {
			for i := range 90 {
				evs = append(evs, failure(after(time.Duration(i)*16*time.Minute), "dovecot", fmt.Sprint("phone", i%3), from64(carrier, r.IntN(65536), 1)))
			}
			return evs
		}},
	} {
		if through, blocks := play(t, c.rules, c.evs()); len(blocks) > 0 {
			t.Errorf("%s: blocks %v, %d got through", c.name, blocks, through)
		}
	}
	// A hoster with one bad customer, who has a /56.
	var evs []*parse.Event
	for i := range 2000 {
		at := time.Duration(i) * 10 * time.Second
		evs = append(evs, failure(after(at), "sshd", "root", from64(hoster, 0x4200+i%256, i)))
		if i%100 == 0 {
			evs = mistype(evs, at, "sshd", fmt.Sprint("customer", i), 2, hoster, r.IntN(0x4000), 9)
		}
	}
	_, blocks := play(t, "ssh", evs)
	if len(blocks) == 0 {
		t.Error("the bad customer is not blocked")
	}
	for _, b := range blocks {
		if p := netip.MustParsePrefix(b); !netip.MustParsePrefix("2001:db8:3:4200::/56").Contains(p.Addr()) || p.Bits() < 56 {
			t.Errorf("for a bad customer in 2001:db8:3:4200::/56 %s is blocked", b)
		}
	}
}

// TestOneSourceNeverBlocksItsNetwork, however often it fails.
func TestOneSourceNeverBlocksItsNetwork(t *testing.T) {
	var evs []*parse.Event
	for i := range 20_000 {
		evs = append(evs, failure(after(time.Duration(i)*time.Minute), "sshd", fmt.Sprint("u", i%7), from64("2001:db8:9::/48", 5, i)))
	}
	_, blocks := play(t, "ssh", evs)
	for _, b := range blocks {
		if !strings.HasSuffix(b, "/64") {
			t.Errorf("blocks %s", b)
		}
	}
}

// TestOwnAccountClearsNoSpray: who has an account and logs in from each prefix
// after a guess at another is counted all the same.
func TestOwnAccountClearsNoSpray(t *testing.T) {
	var evs []*parse.Event
	for i := range 200 {
		at, from := time.Duration(i)*time.Minute, from64("2001:db8:9:aa00::/56", i, 1)
		evs = append(evs, failure(after(at), "sshd", "victim", from), failure(after(at+time.Second), "sshd", "mallory", from), success(after(at+2*time.Second), "sshd", "mallory", from))
	}
	if _, blocks := play(t, "ssh", evs); len(blocks) == 0 {
		t.Error("not blocked")
	}
}

// TestCovering is the property that holds of what is blocked: it lies within
// the network, holds the share of sources, and no smaller prefix does.
func TestCovering(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	network := netip.MustParsePrefix("2001:db8:9::/48")
	for range 3000 {
		var vs []bucket.Value
		base, spread := r.IntN(65536), 1<<r.IntN(17)
		for range 2 + r.IntN(40) {
			p := netip.MustParsePrefix(from64(network.String(), (base+r.IntN(spread))%65536, 0) + "/64")
			vs = append(vs, bucket.Value{Key: bucket.KeyOf(p)})
		}
		p, in := covering(vs, network)
		if p != p.Masked() || p.Bits() < network.Bits() || !network.Contains(p.Addr()) || len(in)*10 < len(vs)*wideShare || len(in) != len(inside(vs, p)) {
			t.Fatalf("%s holds %d of %d", p, len(in), len(vs))
		}
		for _, v := range vs {
			q, _ := v.Key.Prefix()
			if p.Bits() >= 63 {
				break
			}
			smaller := netip.PrefixFrom(q.Addr(), p.Bits()+1).Masked()
			if n := len(inside(vs, smaller)); n*10 >= len(vs)*wideShare {
				t.Fatalf("%s holds %d of %d, and %s is blocked", smaller, n, len(vs), p)
			}
		}
	}
}

// TestWideMemoryIsBounded: strangers choose networks and sources.
func TestWideMemoryIsBounded(t *testing.T) {
	set := ready(t, "ssh")
	e, g := New(set, Options{Seed: 3}), newGate()
	ev := failure(after(0), "sshd", "root", "2001:db8::1")
	a := ev.Addr.As16()
	for i := range 100_000 {
		a[2], a[3], a[4], a[5], a[7] = byte(i>>18), byte(i>>10), byte(i>>2), byte(i<<6), byte(i)
		ev.Addr = netip.AddrFrom16(a)
		ev.Time += 1000
		e.Observe(ev, nil, nil, g)
	}
	for _, c := range e.counters {
		for i := range c.levels {
			if l := &c.levels[i]; l.Wide() && (l.distinct.Len() > set.Limits.Buckets/16 || l.distinct.Values() > set.Limits.Buckets/8 || l.distinct.Evicted() == 0) {
				t.Errorf("%s level %d: %d networks, %d sources, %d evicted", c.rule.Name, i, l.distinct.Len(), l.distinct.Values(), l.distinct.Evicted())
			}
		}
	}
}
