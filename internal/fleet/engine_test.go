package fleet

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoplog/internal/fleet/enginetest"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// running is a node at work, and what it was told.
type running struct {
	*Node
	mu      sync.Mutex
	decided map[netip.Prefix]Decision
	at      map[netip.Prefix]time.Time
	orders  []Order
	stop    func()
}

// cluster is a fleet whose nodes share one level, at an engine.
type cluster struct {
	*test
	engine *enginetest.Engine
	nodes  []*running
}

func startCluster(t *testing.T, size int) *cluster {
	t.Helper()
	c := &cluster{test: newFleet(), engine: enginetest.Start(t)}
	for i := range size {
		c.join(t, fmt.Sprintf("web%d", i))
	}
	for _, n := range c.nodes {
		await(t, "all to know each other", func() bool { return len(n.Status().Nodes) == size-1 && n.Status().Connected })
	}
	return c
}

// join invites a node with a user of its own, and runs it.
func (c *cluster) join(t *testing.T, name string) *running {
	t.Helper()
	return c.joinAt(t, name, c.engine.URL, nil)
}

// joinAt is join with the URL of the engine, and the node's clock.
func (c *cluster) joinAt(t *testing.T, name string, at func(user, password string) string, now func() time.Time) *running {
	t.Helper()
	user, rules := ACL(c.admin.Fleet, name, "pw-"+name)
	v := must(Dial(c.engine.URL("default", "adminpw"), c.engine.CA, c.admin.Fleet))
	defer v.Close()
	if err := v.SetUser(t.Context(), user, rules); err != nil {
		t.Fatal(err)
	}
	c.admin.CA = c.engine.CA
	tok := must(c.admin.Invite(name, at(user, "pw-"+name), time.Now().Add(time.Hour)))
	m := must(tok.Join(time.Now()))
	c.members[name] = m
	return c.run(t, m, 1, now)
}

func (c *cluster) run(t *testing.T, m *Member, incarnation uint64, now func() time.Time) *running {
	x := *m
	x.Incarnation = incarnation
	r := &running{decided: map[netip.Prefix]Decision{}, at: map[netip.Prefix]time.Time{}}
	r.Node = New(Options{
		Member: &x, Dial: func() (Carrier, error) {
			v, err := Dial(x.URL, x.CA, x.Fleet)
			if err != nil {
				return nil, err
			}
			return v, nil
		},
		Log: slog.New(slog.DiscardHandler), Now: now,
		Decided: func(_ context.Context, d Decision) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.decided[d.Prefix], r.at[d.Prefix] = d, time.Now()
		},
		Ordered: func(_ context.Context, o Order) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.orders = append(r.orders, o)
		},
	})
	r.SetShared(map[Meaning]Shared{meaning: login}, Limits{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(r.stop)
	c.nodes = append(c.nodes, r)
	return r
}

// fails pours n failures into a node's bucket.
func (r *running) fails(p netip.Prefix, n int) {
	r.Put([]Level{level(p, time.Now().UnixNano(), n)}, nil)
}

func (r *running) blocked(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.decided[p]
	return ok
}

func (c *cluster) awaitBlocked(t *testing.T, p netip.Prefix) {
	t.Helper()
	for _, n := range c.nodes {
		await(t, n.Name()+" to block "+p.String(), func() bool { return n.blocked(p) })
	}
}

func prefix(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 12), byte(i >> 4), byte(i << 4)}), 28)
}

func TestTenNodesBlockTogether(t *testing.T) {
	c := startCluster(t, 10)
	for i, n := range c.nodes[:6] {
		n.fails(prefix(1), 1)
		if i < 5 && n.blocked(prefix(1)) {
			t.Fatalf("blocked after %d tries", i+1)
		}
	}
	c.awaitBlocked(t, prefix(1))
	for _, s := range c.nodes[9].decided[prefix(1)].Shares {
		if s.Points != 1 {
			t.Errorf("%s contributed %d", s.Node, s.Points)
		}
	}
	// One node alone, however full, blocks nothing elsewhere; a good sign that all
	// was heard is a second prefix that two nodes agree on.
	c.nodes[0].fails(prefix(2), 100)
	c.nodes[0].fails(prefix(3), 3)
	c.nodes[1].fails(prefix(3), 3)
	c.awaitBlocked(t, prefix(3))
	for _, n := range c.nodes {
		if n.blocked(prefix(2)) {
			t.Errorf("%s blocked what one node says", n.Name())
		}
	}
}

func TestEngineLosesEverything(t *testing.T) {
	for name, lose := range map[string]func(e *enginetest.Engine){
		"FLUSHALL": func(e *enginetest.Engine) { e.Do("FLUSHALL") },
		"kill -9, and back without data": func(e *enginetest.Engine) {
			e.Kill()
			e.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3)
			c.nodes[0].fails(prefix(1), 3)
			await(t, "the level to arrive", func() bool { return len(c.nodes[2].About(prefix(1), time.Now().UnixNano())) == 1 })
			lose(c.engine)
			for _, n := range c.nodes {
				user, rules := ACL(c.admin.Fleet, n.Name(), "pw-"+n.Name())
				c.engine.Do(append([]string{"ACL", "SETUSER", user}, rules...)...)
			}
			// A node that comes later learns from the engine what was said before.
			late := c.join(t, "late")
			await(t, "the level at a new node", func() bool { return len(late.About(prefix(1), time.Now().UnixNano())) == 1 })
			c.nodes[1].fails(prefix(1), 3)
			c.awaitBlocked(t, prefix(1))
		})
	}
}

// A node notices that the engine was emptied also if it sends something before it
// looks.
func TestLossBeforeASendIsNoticed(t *testing.T) {
	c := startCluster(t, 1)
	n := c.nodes[0]
	n.fails(prefix(1), 3)
	await(t, "the level to be sent", func() bool { return n.Status().Waiting == 0 })
	c.engine.Do("FLUSHALL")
	before := n.Status().Sent
	n.fails(prefix(2), 3)
	await(t, "another to be sent", func() bool { return n.Status().Sent > before })
	late := c.join(t, "late")
	await(t, "both at a new node", func() bool {
		now := time.Now().UnixNano()
		return len(late.About(prefix(1), now)) == 1 && len(late.About(prefix(2), now)) == 1
	})
}

func TestNodesGoOnWithoutTheEngine(t *testing.T) {
	c := startCluster(t, 2)
	c.engine.Kill()
	for _, n := range c.nodes {
		await(t, "the loss to be seen", func() bool { return !n.Status().Connected && n.Status().Error != "" })
	}
	for i := range 1000 {
		for range 3 {
			c.nodes[0].fails(prefix(i), 3)
		}
	}
	if w := c.nodes[0].Status().Waiting; w != 1000 {
		t.Errorf("%d keys wait, want each once: 1000", w)
	}
	c.engine.Restart()
	for _, n := range c.nodes {
		user, rules := ACL(c.admin.Fleet, n.Name(), "pw-"+n.Name())
		c.engine.Do(append([]string{"ACL", "SETUSER", user}, rules...)...)
	}
	for i := range 1000 {
		c.nodes[1].fails(prefix(i), 3)
	}
	for i := range 1000 {
		c.awaitBlocked(t, prefix(i))
	}
}

func TestRestartedNodeIsHeard(t *testing.T) {
	c := startCluster(t, 3)
	c.nodes[0].fails(prefix(1), 3)
	c.awaitKnown(t, prefix(1))
	c.nodes[0].stop()
	m := c.members["web0"]
	c.nodes = c.nodes[1:]
	again := c.run(t, m, 2, nil)
	// Its clock was set back, so its events are older: the incarnation decides.
	again.Put([]Level{level(prefix(1), time.Now().Add(-time.Minute).UnixNano(), 2)}, nil)
	await(t, "the level to fall", func() bool {
		d := c.nodes[0].About(prefix(1), time.Now().UnixNano())
		return len(d) == 1 && d[0].Points < 3
	})
	c.nodes[0].fails(prefix(1), 3)
	again.fails(prefix(2), 3)
	c.nodes[0].fails(prefix(2), 3)
	c.awaitBlocked(t, prefix(2))
	if c.nodes[0].blocked(prefix(1)) {
		t.Error("a level that fell over a restart still counts")
	}
}

func (c *cluster) awaitKnown(t *testing.T, p netip.Prefix) {
	t.Helper()
	for _, n := range c.nodes {
		await(t, n.Name()+" to know "+p.String(), func() bool { return len(n.About(p, time.Now().UnixNano())) > 0 })
	}
}

// The engine's users keep a node to its own stream.
func TestNodeWritesOnlyItsOwnStream(t *testing.T) {
	c := startCluster(t, 2)
	m := c.members["web0"]
	v := must(Dial(m.URL, m.CA, m.Fleet))
	defer v.Close()
	if _, err := v.Send(t.Context(), "web1", []byte("x")); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("writing to another's stream: %v", err)
	}
	if err := v.Trim(t.Context(), "web1", "9999999999999-0"); err == nil {
		t.Error("a node may trim another's stream")
	}
	for _, cmd := range [][]string{{"FLUSHALL"}, {"DEL", v.key("nodes")}, {"CONFIG", "GET", "*"}, {"ACL", "LIST"}, {"GET", "other"}, {"HDEL", v.key("nodes"), "web1"}} {
		if err := v.client.Do(t.Context(), v.client.B().Arbitrary(cmd...).Build()).Error(); err == nil {
			t.Errorf("a node may %v", cmd)
		}
	}
	// What it can write does no harm: junk, and entries of others.
	entry := must((&Entry{Node: "web1", Version: Version{9, 9}, Made: time.Now().UnixNano()}).Sign(m.Fleet, New(Options{Member: m}).key))
	for _, b := range [][]byte{[]byte("x"), entry} {
		must(v.Send(t.Context(), "web0", b))
	}
	if err := v.Announce(t.Context(), "web1", []byte("{}"), true); err != nil {
		t.Fatal(err)
	}
	await(t, "two entries to be refused", func() bool {
		s := c.nodes[1].Status()
		return s.Refused[ErrDamaged.Error()] == 1 && s.Refused[ErrSignature.Error()]+s.Refused[ErrForeign.Error()] == 1
	})
	c.nodes[0].fails(prefix(1), 3)
	c.nodes[1].fails(prefix(1), 3)
	c.awaitBlocked(t, prefix(1))
}

func TestOrdersReachAllNodes(t *testing.T) {
	c := startCluster(t, 3)
	o := Order{Kind: Block, Prefix: prefix(7), At: time.Now().UnixNano(), Until: time.Now().Add(time.Hour).UnixNano(), Reason: "abuse"}
	c.op.Sign(&o)
	if err := c.nodes[0].Order(o); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		await(t, "the order at "+n.Name(), func() bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return len(n.orders) == 1 && n.orders[0].Prefix == o.Prefix && n.orders[0].Who() == "fleet: alice"
		})
	}
	o.Until++
	if err := c.nodes[0].Order(o); err == nil {
		t.Error("a changed order was taken")
	}
}

func TestErrorsOfTheEngine(t *testing.T) {
	e := enginetest.Start(t)
	other := must(net.Listen("tcp", "127.0.0.1:0")) // no engine: it closes each connection
	defer other.Close()
	go func() {
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "220 mail.example.net ESMTP")
			c.Close()
		}
	}()
	for name, tt := range map[string]struct{ url, ca, want string }{
		"wrong password":  {e.URL("default", "no"), e.CA, "refuses the user or password"},
		"no TLS":          {strings.Replace(e.URL("default", "adminpw"), "rediss", "redis", 1), "", "127.0.0.1"},
		"foreign CA":      {e.URL("default", "adminpw"), "", "certificate"},
		"not an engine":   {"redis://" + other.Addr().String(), "", other.Addr().String()},
		"nobody listens":  {fmt.Sprintf("redis://127.0.0.1:%d", enginetest.FreePort(t)), "", "refused"},
		"wrong scheme":    {"http://h", "", "is not the URL of an engine"},
		"no host":         {"redis://", "", "names no host"},
		"wrong database":  {"redis://h/x", "", "is not the number of a database"},
		"damaged CA":      {"rediss://h", "x", "PEM"},
		"control in URL":  {"redis://h\x7f:1", "", "cannot be read"},
		"secret kept out": {"redis://u:hunter2@" + other.Addr().String(), "", ""},
	} {
		v, err := Dial(tt.url, tt.ca, ID{})
		if err == nil {
			v.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// do sends a command as the node of that name: what a node that was broken into
// can do.
func (c *cluster) do(t *testing.T, name string, cmd ...string) {
	t.Helper()
	m := c.members[name]
	v := must(Dial(m.URL, m.CA, m.Fleet))
	defer v.Close()
	if err := v.client.Do(t.Context(), v.client.B().Arbitrary(cmd...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// The largest entry that a node makes of what waits is one that it may send.
func TestFullEntriesFit(t *testing.T) {
	f := newFleet("web1")
	n := New(Options{Member: f.members["web1"]})
	long := strings.Repeat("x", maxText)
	shared := map[Meaning]Shared{}
	windows := Shared{Rule: long, Capacity: 1000, Bits4: 28, Bits6: 128, TTL: time.Hour}
	for i := range 100 {
		shared[Meaning{byte(i)}] = windows
	}
	shared[meaning] = login
	n.SetShared(shared, Limits{})
	now := time.Now()
	o := &Order{Kind: Flag, Flag: long, Reason: long, At: now.UnixNano(), Until: now.Add(time.Hour).UnixNano()}
	f.op = must(f.admin.Operator(strings.Repeat("o", 48)))
	f.op.Sign(o)
	n.orders = slices.Repeat([]Order{*o}, 200)
	values := make([]uint64, maxValues)
	for i := range 200 {
		a := netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)})
		p := netip.PrefixFrom(a, 128)
		n.Put([]Level{level(p, now.UnixNano(), 3)}, []Distinct{{Meaning: Meaning{byte(i % 100)}, Prefix: p, At: now.UnixNano(), Until: now.Add(time.Hour).UnixNano(), Values: values}})
	}
	entries := 0
	for {
		e, _ := n.next()
		if e == nil {
			break
		}
		if entries++; len(must(e.Sign(f.admin.Fleet, n.key))) > MaxEntry {
			t.Error("too large")
		}
	}
	if entries < 4 {
		t.Errorf("%d entries for 200 orders and 400 keys", entries)
	}
}

// A node chooses the places in its own stream and in that of the news: none of
// them keeps the others from their work.
func TestPlacesOfANodeHarmNobody(t *testing.T) {
	for name, cmd := range map[string][]string{
		"a place that is no time":  {"XADD", "s:web0", "9999999999999999-0", "e", "x"},
		"the last place there is":  {"XADD", "s:web0", "18446744073709551615-18446744073709551615", "e", "x"},
		"the last place of news":   {"XADD", "news", "18446744073709551615-18446744073709551615", "n", ""},
		"an entry of other fields": {"XADD", "s:web0", "*", "x", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, 3)
			v := &Valkey{fleet: c.admin.Fleet}
			c.do(t, "web0", append([]string{cmd[0], v.key(cmd[1])}, cmd[2:]...)...)
			// Connections that last would not show what a new one runs into.
			for _, n := range c.nodes[1:] {
				c.engine.Do("CLIENT", "KILL", "USER", UserName(c.admin.Fleet, n.Name()))
			}
			c.nodes[1].fails(prefix(1), 3)
			c.nodes[2].fails(prefix(1), 3)
			for _, n := range c.nodes[1:] {
				await(t, n.Name()+" to block", func() bool { return n.blocked(prefix(1)) && n.Status().Connected })
			}
			reader := must(Dial(c.members["web1"].URL, c.engine.CA, c.admin.Fleet))
			defer reader.Close()
			if _, err := reader.Receive(t.Context(), map[string]string{"web0": "0"}, time.Second, func(Received) {}); err != nil {
				t.Errorf("reading the streams fails: %v", err)
			}
			late := c.join(t, "late")
			await(t, "a late node to know", func() bool { return len(late.About(prefix(1), time.Now().UnixNano())) == 1 })
		})
	}
}

// A node that chooses a place in the future for an entry is not believed about
// the future, nor given more room.
func TestPlacesOfTheFuture(t *testing.T) {
	f := newFleet("web1", "evil")
	n := New(Options{Member: f.members["web1"]})
	n.SetShared(map[Meaning]Shared{meaning: login}, Limits{PerMin: 10})
	n.certs["evil"] = f.members["evil"].Cert
	key := ed25519.NewKeyFromSeed(f.members["evil"].Seed)
	now := time.Now()
	say := func(at time.Time, ls ...Level) {
		e := f.entry("evil", ls...)
		e.Made = at.UnixNano()
		n.take(Received{Node: "evil", At: at.UnixNano(), Entry: must(e.Sign(f.admin.Fleet, key))})
	}
	later := now.Add(48 * time.Hour)
	say(later, level(prefix(0), later.UnixNano(), 3))
	if k := n.state.Keys(); k != 0 {
		t.Errorf("%d statements about the future are believed", k)
	}
	for i := range 100 {
		say(now.Add(time.Duration(i)*time.Hour), level(prefix(i), now.UnixNano(), 3))
	}
	if k := n.state.Keys(); k > 20 {
		t.Errorf("%d new prefixes within a minute, want at most 10 for each minute", k)
	}
}

// An engine that comes back with the data of an earlier day gets what it lacks.
func TestOldDataComesBack(t *testing.T) {
	c := startCluster(t, 3)
	c.nodes[0].fails(prefix(1), 1)
	c.awaitKnown(t, prefix(1))
	c.engine.Do("SAVE")
	c.nodes[0].fails(prefix(1), 3)
	c.nodes[0].fails(prefix(2), 3)
	c.awaitKnown(t, prefix(2))
	c.engine.Kill()
	c.engine.Restart()
	for _, n := range c.nodes {
		user, rules := ACL(c.admin.Fleet, n.Name(), "pw-"+n.Name())
		c.engine.Do(append([]string{"ACL", "SETUSER", user}, rules...)...)
	}
	late := c.join(t, "late")
	for i := 1; i <= 2; i++ {
		await(t, "the last level at a new node", func() bool {
			d := late.About(prefix(i), time.Now().UnixNano())
			return len(d) == 1 && d[0].Points == 3
		})
		c.nodes[1].fails(prefix(i), 3)
		c.awaitBlocked(t, prefix(i))
	}
}

// Machines whose clocks are an hour off count together.
func TestClocksAnHourOff(t *testing.T) {
	c := startCluster(t, 1)
	clock := func(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }
	fast, slow := c.joinAt(t, "fast", c.engine.URL, clock(time.Hour)), c.joinAt(t, "slow", c.engine.URL, clock(-time.Hour))
	for _, n := range c.nodes {
		await(t, "all to know each other", func() bool { return len(n.Status().Nodes) == 2 && n.Status().Connected })
	}
	at := func(n *running) int64 { return n.o.Now().UnixNano() }
	for _, n := range []*running{fast, slow} {
		n.Put([]Level{level(prefix(1), at(n), 2)}, nil)
	}
	c.nodes[0].fails(prefix(1), 2)
	c.awaitBlocked(t, prefix(1))
	for _, n := range c.nodes {
		n.mu.Lock()
		if off := time.Duration(n.decided[prefix(1)].At - at(n)); off.Abs() > time.Minute {
			t.Errorf("%s was told of an instant %s off its clock", n.Name(), off)
		}
		n.mu.Unlock()
		for _, p := range n.Status().Nodes {
			if p.Refused > 0 || p.Skew.Abs() > time.Minute {
				t.Errorf("%s refuses %s: %+v", n.Name(), p.Name, p)
			}
		}
	}
	if s := fast.Status().Skew; (s - time.Hour).Abs() > time.Minute {
		t.Errorf("the fast clock is shown as %s ahead", s)
	}
}

// Sentinel makes the replica the primary. Replication does not wait, so it may lack
// what was sent last.
func TestFailover(t *testing.T) {
	c := &cluster{test: newFleet(), engine: enginetest.Start(t)}
	at := c.engine.Failover()
	for i := range 3 {
		name := fmt.Sprintf("web%d", i)
		user, rules := ACL(c.admin.Fleet, name, "pw-"+name)
		c.engine.DoReplica(append([]string{"ACL", "SETUSER", user}, rules...)...) // orders of ACL are not replicated
		c.joinAt(t, name, at, nil)
	}
	for _, n := range c.nodes {
		await(t, "all to know each other", func() bool { return len(n.Status().Nodes) == 2 && n.Status().Connected })
	}
	c.nodes[0].fails(prefix(1), 3)
	c.awaitKnown(t, prefix(1))
	c.nodes[0].fails(prefix(2), 3)
	c.engine.Kill()
	for i := 1; i <= 2; i++ {
		c.nodes[1].fails(prefix(i), 3)
		c.awaitBlocked(t, prefix(i))
	}
}

// A node may write entries of any size into its stream; the others take no more
// than they can hold, and go on.
func TestHugeEntriesHarmNobody(t *testing.T) {
	c := startCluster(t, 3)
	m := c.members["web0"]
	v := must(Dial(m.URL, m.CA, m.Fleet))
	defer v.Close()
	huge := make([]byte, 16<<20)
	for i := range 20 {
		must(v.Send(t.Context(), "web0", huge))
		if i == 5 { // not so large yet that the stream is left out
			other := c.members["web1"]
			r := must(Dial(other.URL, other.CA, other.Fleet))
			if _, err := r.Receive(t.Context(), map[string]string{"web0": "0"}, time.Second, func(Received) {}); err == nil {
				t.Error("96 MB are read at once")
			}
			r.Close()
		}
	}
	c.nodes[1].fails(prefix(1), 3)
	c.nodes[2].fails(prefix(1), 3)
	for _, n := range c.nodes[1:] {
		await(t, n.Name()+" to block", func() bool { return n.blocked(prefix(1)) && n.Status().Connected })
	}
}
