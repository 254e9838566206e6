package daemon

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/firewall"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
	"stoplog/internal/source"
)

func seed() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

// entryOf is a block as the walls see it.
func entryOf(b ledger.Block, set *rules.Set) firewall.Entry {
	action := b.Action
	if action == "" {
		action = set.Firewall.Action
	}
	a, err := firewall.ParseAction(action)
	if err != nil {
		a = firewall.Drop
	}
	ports := wallPorts(b.Ports)
	if len(ports) == 0 {
		for _, p := range set.Firewall.Ports {
			ports = append(ports, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
		}
	}
	return firewall.Entry{Prefix: b.Prefix, Until: b.Until, Action: a, Ports: ports, Cut: b.Cut || set.Firewall.Cut}
}

func wallPorts(ps []detect.Ports) []firewall.Ports {
	var out []firewall.Ports
	for _, p := range ps {
		out = append(out, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
	}
	return out
}

// entries are all blocks, for a wall to be compared with.
func (d *daemon) entries(now time.Time) []firewall.Entry {
	es := make([]firewall.Entry, 0, d.ledger.Stats().Blocks)
	d.ledger.Each(now, func(b *ledger.Block) {
		e := entryOf(*b, d.set)
		e.Cut = false // running connections were cut when the block was new
		es = append(es, e)
	})
	return es
}

// policy is what stands around the blocks.
func (d *daemon) policy(now time.Time) firewall.Policy {
	p := firewall.Policy{Allow: d.ledger.AllowedPrefixes(now)}
	d.allowEnds = d.ledger.NextAllowanceEnd(now)
	if l := d.ledger.Lockdown(); l.Until.After(now) {
		p.Lockdown.Ports = wallPorts(l.Ports)
		p.Lockdown.Until = l.Until
		p.Lockdown.Known = d.ledger.KnownAddrs(now)
	}
	return p
}

// tellPolicy tells walls and lists who is allowed, and of lockdowns and flags.
func (d *daemon) tellPolicy() {
	now := time.Now()
	d.keeper.setPolicy(d.policy(now))
	d.showPolicy(now)
}

// ledgerOptions are the rules' part in the ledger, the files of allowed and
// denied prefixes as they are now.
func (d *daemon) ledgerOptions(set *rules.Set) ledger.Options {
	allow, allowProblems := set.Allow.Read()
	deny, denyProblems := set.ReadDeny()
	d.listErrs = nil
	for _, p := range append(allowProblems, denyProblems...) {
		d.listErrs = append(d.listErrs, p.Error())
		d.log.Warn(p.Error())
	}
	for _, s := range set.Sources {
		allow = append(allow, s.Client.Trusted...) // a proxy speaks for everybody behind it
	}
	o := ledger.Options{
		Escalation: ledger.Escalation(set.Block),
		Floor4:     set.Floor.V4, Floor6: set.Floor.V6,
		Allow: allow, Deny: deny,
		KnownGood: set.Protect.KnownGood,
		FlagsDir:  d.opt.FlagsDir,
		MaxBlocks: set.Limits.Blocks, MaxKnown: set.Limits.KnownGood, MaxStrikes: set.Limits.Strikes,
		MaxEvidence: set.Limits.Evidence, MaxAudit: int64(set.Limits.Audit),
	}
	if set.Protect.KnownGood == 0 {
		o.KnownGood = -1
	}
	if set.Widen.On {
		o.Widen = ledger.Widening{Count: set.Widen.Over + 1, TTL: set.Widen.TTL, Bits4: set.Widen.Lens.V4, Bits6: set.Widen.Lens.V6}
	}
	return o
}

// sourceSpecs are the rules' sources as the source package wants them.
func sourceSpecs(set *rules.Set) []source.Spec {
	specs := make([]source.Spec, len(set.Sources))
	for i, s := range set.Sources {
		spec := source.Spec{Service: s.Service, Format: s.Format, Exclude: s.Exclude}
		switch s.Kind {
		case rules.Auth:
			spec.Auth = true
		case rules.File:
			spec.File = s.Path
		case rules.Journal:
			spec.Journal = &source.JournalMatch{Units: s.Units, Identifiers: s.Identifiers, Raw: s.Matches}
		case rules.Stdin:
			spec.Stdin = true
		case rules.Pipe:
			spec.Pipe = s.Path
		}
		specs[i] = spec
	}
	return specs
}

// refreshProtected looks again at who must never be blocked.
func (d *daemon) refreshProtected(now time.Time) {
	found := protectFinder().Find(d.set.Protect.Own, d.set.Protect.SSHPeers)
	if slices.Equal(found, d.protected) {
		return
	}
	d.protected = found
	ps := make([]netip.Prefix, len(found))
	for i, a := range found {
		ps[i] = a.Prefix()
	}
	lifted := d.ledger.SetProtected(slices.Compact(ps), now)
	d.lift(lifted, "protected")
	d.tellPolicy()
}

// lift applies what an order lifted and empties the buckets it names.
func (d *daemon) lift(l ledger.Lifted, why string) {
	d.apply(l.Changes, why)
	for _, p := range l.Forget {
		d.engine.Forget(p)
	}
}

// backendName is how list names the walls.
func (d *daemon) backendName() string {
	if d.opt.DryRun {
		return "dry-run"
	}
	return strings.ReplaceAll(d.opt.WallName, "+", ",")
}

// lockless says that rules may ask for a lockdown which no wall of ours
// carries out; "" when none asks, or one does.
func (d *daemon) lockless(set *rules.Set) string {
	walls := strings.Split(d.opt.WallName, "+")
	if d.opt.DryRun || slices.ContainsFunc(walls, firewall.LocksDown) {
		return ""
	}
	for _, r := range set.Rules {
		for _, l := range r.Levels {
			if slices.ContainsFunc(l.Then, func(a rules.Answer) bool { return a.Kind == rules.Lockdown }) {
				return "the lockdown of rule " + r.Name + " shuts nothing: " + strings.Join(walls, " and ") + " cannot refuse all but some"
			}
		}
	}
	return ""
}
