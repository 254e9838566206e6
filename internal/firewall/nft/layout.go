//go:build linux

package nft

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// Names within our table.
const (
	chainWalls  = "walls"
	chainLock   = "lock"
	chainBlocks = "blocks"
	setAllow    = "allow" // and 4 or 6
	setKnown    = "known" // likewise
	setLocked   = "locked"
)

// baseChain is where packets come in.
type baseChain struct {
	name string
	hook *nftables.ChainHook
	prio nftables.ChainPriority
}

// Priorities just before those that others use (nft(8), standard priority
// names): filter is 0, mangle -150, raw -300.
func (w *Wall) bases() []baseChain {
	switch w.Options.Hook {
	case firewall.HookPrerouting:
		return []baseChain{{"prerouting", nftables.ChainHookPrerouting, -155}}
	case firewall.HookRaw:
		return []baseChain{{"prerouting", nftables.ChainHookPrerouting, -310}}
	}
	bs := []baseChain{{"input", nftables.ChainHookInput, -10}}
	if w.Options.Forward || hasDocker() {
		bs = append(bs, baseChain{"forward", nftables.ChainHookForward, -10})
	}
	return bs
}

func hasDocker() bool {
	_, err := os.Stat("/sys/class/net/docker0")
	return err == nil
}

func (w *Wall) chain(name string) *nftables.Chain {
	return &nftables.Chain{Name: name, Table: w.table}
}

func (w *Wall) rule(chain string, es ...expr.Any) {
	w.conn.AddRule(&nftables.Rule{Table: w.table, Chain: w.chain(chain), Exprs: es})
}

// layOut puts the whole table but the blocks into the batch.
func (w *Wall) layOut(kinds map[kind]bool, p firewall.Policy) error {
	w.conn.AddTable(w.table)
	for _, c := range []string{chainBlocks, chainLock, chainWalls} {
		w.conn.AddChain(w.chain(c))
		w.conn.FlushChain(w.chain(c))
	}
	w.addBases()
	for k := range kinds {
		if err := w.addSet(k); err != nil {
			return w.fail("creating set "+k.name(), err)
		}
	}
	w.addBlockRules(kinds)
	if err := w.lockRules(p); err != nil {
		return w.fail("writing the lockdown", err)
	}
	return w.fail("writing the allowlist", w.wallRules(p))
}

// dropBases drops all base chains: a chain's hook and priority cannot be
// changed, and some may no longer be wanted.
func (w *Wall) dropBases() error {
	chains, err := w.conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return w.fail("listing chains", err)
	}
	for _, c := range chains {
		if c.Table.Name == w.Options.Name && c.Hooknum != nil {
			w.conn.FlushChain(c)
			w.conn.DelChain(c)
		}
	}
	return nil
}

// addBases makes our base chains.
func (w *Wall) addBases() {
	accept := nftables.ChainPolicyAccept
	for _, b := range w.bases() {
		w.conn.AddChain(&nftables.Chain{
			Name: b.name, Table: w.table, Type: nftables.ChainTypeFilter,
			Hooknum: b.hook, Priority: nftables.ChainPriorityRef(b.prio), Policy: &accept,
		})
		w.rule(b.name, &expr.Verdict{Kind: expr.VerdictJump, Chain: chainWalls})
	}
}

// wallRules are what passes, and then the ways to lock and blocks.
func (w *Wall) wallRules(p firewall.Policy) error {
	if w.Options.Hook != firewall.HookRaw { // connections are not known there yet
		w.rule(chainWalls, append(isReply(), verdict(expr.VerdictReturn, "")...)...)
	}
	w.rule(chainWalls, append(isNeighbourDiscovery(), verdict(expr.VerdictReturn, "")...)...)
	for _, v6 := range []bool{false, true} {
		name, err := w.intervalSet(setAllow, v6, intervals(withCompatible(p.Allow), v6))
		if err != nil {
			return err
		}
		for _, m := range wholeClients(v6) {
			w.rule(chainWalls, append(append(m, inSet(name)), verdict(expr.VerdictReturn, "")...)...)
		}
	}
	w.rule(chainWalls, &expr.Verdict{Kind: expr.VerdictJump, Chain: chainLock})
	w.rule(chainWalls, &expr.Verdict{Kind: expr.VerdictJump, Chain: chainBlocks})
	return nil
}

// wholeClients are the ways in which a packet names its client, for sets that
// hold prefixes of every length.
func wholeClients(v6 bool) []match {
	if v6 {
		return clients(true, 128, asCompatible)
	}
	return clients(false, 32, asCompatible)
}

// withCompatible adds to prefixes all forms of the IPv4 ones, Teredo's as wholeClients
// loads it.
func withCompatible(ps []netip.Prefix) []netip.Prefix {
	out := base.WithForms(ps)
	for _, p := range ps {
		if len(addr.Forms(p)) > 0 {
			out = append(out, netip.PrefixFrom(compatible(p.Addr()), 96+p.Bits()))
		}
	}
	return out
}

// compatible is ::a.b.c.d (RFC 4291, 2.5.5.1).
func compatible(v4 netip.Addr) netip.Addr {
	b, v := [16]byte{}, v4.As4()
	copy(b[12:], v[:])
	return netip.AddrFrom16(b)
}

// intervalSet makes or refills a set of ranges.
func (w *Wall) intervalSet(name string, v6 bool, es []nftables.SetElement) (string, error) {
	s := &nftables.Set{Table: w.table, Name: name + "4", Interval: true, KeyType: nftables.TypeIPAddr}
	if v6 {
		s.Name, s.KeyType = name+"6", nftables.TypeIP6Addr
	}
	if err := w.conn.AddSet(s, nil); err != nil {
		return "", err
	}
	w.conn.FlushSet(s)
	return s.Name, w.elems(w.conn.SetAddElements, s, es)
}

// lockRules refuse new connections while the set "locked" holds their family;
// its elements' timeouts end the lockdown, whoever lives.
func (w *Wall) lockRules(p firewall.Policy) error {
	l := p.Lockdown
	locked := &nftables.Set{Table: w.table, Name: setLocked, HasTimeout: true, KeyType: nftables.TypeNFProto}
	if err := w.conn.AddSet(locked, nil); err != nil {
		return err
	}
	w.conn.FlushSet(locked)
	var known [2][]nftables.SetElement
	ttl := time.Until(l.Until).Truncate(time.Millisecond)
	if ttl <= 0 {
		l.Known = nil
	}
	single := withCompatible(base.PrefixesOf(l.Known))
	for i, v6 := range []bool{false, true} {
		known[i] = intervals(single, v6)
		name, err := w.intervalSet(setKnown, v6, known[i])
		if err != nil {
			return err
		}
		for _, m := range wholeClients(v6) {
			if ttl > 0 {
				w.rule(chainLock, append(append(m, inSet(name)), verdict(expr.VerdictReturn, "")...)...)
			}
		}
	}
	if ttl <= 0 {
		return nil
	}
	for _, ports := range toPorts(l.Ports) {
		m := append(match{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg}, inSet(setLocked)}, ports...)
		if w.Options.Hook != firewall.HookRaw {
			m = append(m, stateIs(expr.CtStateBitNEW)...)
		}
		w.rule(chainLock, append(m, verdict(expr.VerdictDrop, "")...)...)
	}
	return w.conn.SetAddElements(locked, []nftables.SetElement{
		{Key: []byte{unix.NFPROTO_IPV4}, Timeout: ttl}, {Key: []byte{unix.NFPROTO_IPV6}, Timeout: ttl},
	})
}

// addSet puts one block set, and the meter it may need, into the batch.
func (w *Wall) addSet(k kind) error {
	if k.action == firewall.Slow {
		if err := w.conn.AddSet(k.meterSet(w.table), nil); err != nil {
			return err
		}
	}
	s := k.set(w.table, w.Options.MaxSet)
	if err := w.conn.AddSet(s, nil); err != nil || !k.marked() {
		return err
	}
	return w.conn.SetAddElements(s, []nftables.SetElement{{Key: k.mark().Addr().AsSlice()}})
}

// addBlockRules looks into every set: what drops before what rejects before
// what slows, so that of two blocks of one address the harder one holds.
func (w *Wall) addBlockRules(kinds map[kind]bool) {
	for _, k := range sortedKinds(kinds) {
		for _, r := range blockRules(k, w.Options.Slow) {
			w.rule(chainBlocks, r...)
		}
	}
}

func sortedKinds(kinds map[kind]bool) []kind {
	ks := make([]kind, 0, len(kinds))
	for k := range kinds {
		ks = append(ks, k)
	}
	slices.SortFunc(ks, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.action, b.action), cmp.Compare(b.bits, a.bits), cmp.Compare(a.name(), b.name()))
	})
	return ks
}

// Check compares our chains' numbers of rules with what they should be, and
// looks whether the table was put to sleep (nft(8), flags dormant).
func (w *Wall) Check(ctx context.Context) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	table, err := w.standing()
	if err != nil {
		return err
	}
	if table != nil && table.Flags != 0 { // ours has none, in whatever byte order
		w.remake = true // waking it and replacing its base chains do not go into one batch
		return fmt.Errorf("nftables: table %s is dormant: %w", w.Options.Name, firewall.ErrBroken)
	}
	chains, err := w.conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return w.fail("listing chains", err)
	}
	there := map[string]bool{}
	for _, c := range chains {
		if c.Table.Name == w.Options.Name {
			there[c.Name] = true
		}
	}
	want := map[string]int{chainWalls: 4 + len(wholeClients(false)) + len(wholeClients(true)), chainBlocks: 0}
	if w.Options.Hook == firewall.HookRaw {
		want[chainWalls]--
	}
	for _, b := range w.bases() {
		want[b.name] = 1
	}
	for k := range w.sets {
		want[chainBlocks] += len(blockRules(k, w.Options.Slow))
	}
	for name, n := range want {
		if !there[name] {
			return fmt.Errorf("nftables: chain %s of table %s: %w", name, w.Options.Name, firewall.ErrBroken)
		}
		rules, err := w.conn.GetRules(w.table, w.chain(name))
		if err != nil {
			return w.fail("listing chain "+name, err)
		}
		if len(rules) < n {
			return fmt.Errorf("nftables: chain %s of table %s has %d rules of %d: %w", name, w.Options.Name, len(rules), n, firewall.ErrBroken)
		}
	}
	return nil
}

// probe tries a table, a set with timeouts and a chain in one batch that
// deletes them again; nobody ever sees them.
func (w *Wall) Probe(ctx context.Context) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	defer w.Close()
	t := &nftables.Table{Name: w.Options.Name + "-probe", Family: nftables.TableFamilyINet}
	k := kind{bits: 28}
	w.conn.AddTable(t)
	c := w.conn.AddChain(&nftables.Chain{Name: "probe", Table: t, Type: nftables.ChainTypeFilter, Hooknum: w.bases()[0].hook, Priority: nftables.ChainPriorityFilter})
	if err := w.conn.AddSet(k.set(t, 10), nil); err != nil {
		return w.fail("trying a set", err)
	}
	for _, r := range blockRules(k, 1) {
		w.conn.AddRule(&nftables.Rule{Table: t, Chain: c, Exprs: r})
	}
	w.conn.DelTable(t)
	return w.flush("trying a table")
}
