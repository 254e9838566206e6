package replay

import (
	"cmp"
	"net/netip"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
)

// Kind is what would have happened.
type Kind string

const (
	Block    Kind = "block"
	Unblock  Kind = "unblock" // before its time
	Observe  Kind = "observe" // a breach of a rule that only reports
	Flag     Kind = "flag"
	Lockdown Kind = "lockdown"
	Notify   Kind = "notify"
	Exec     Kind = "exec"
)

// Answer is one thing that would have happened. Fields that its kind does not
// use are zero.
type Answer struct {
	Kind   Kind
	At     time.Time // of the line that breached
	Rule   string
	Key    string       // what was counted, printable
	Prefix netip.Prefix // invalid when nothing of one source was counted
	// TTL is how long a block, flag or lockdown holds; of Observe, how long the
	// rule then reports nothing more of the key, as if it were blocked.
	TTL    time.Duration
	Action string // Block: reject or slow; "" for drop
	Ports  []detect.Ports
	Count  int // failures
	Points int // what they weighed
	// Counted says Count and Points in words.
	Counted func() string
	Source  string
	Line    int64
	Except  []netip.Prefix // inside, and not blocked
	Flag    string
	Target  string   // Notify
	Argv    []string // Exec
	Would   []Kind   // Observe: what the rule would have done without mode: observe
}

// answers lists what came of a breach, in the order of its happening: a slice
// that the next call uses again.
func (r *replay) answers(b *detect.Breach, o ledger.Outcome) []Answer {
	out := r.last[:0]
	base := Answer{
		At: time.Unix(0, b.At), Rule: b.Rule, Key: b.Key, Prefix: b.Prefix, Count: b.Count, Points: b.Points, Counted: b.Counted,
		Source: b.Source, Line: b.Line,
	}
	add := func(k Kind, fill func(*Answer)) {
		a := base
		a.Kind = k
		fill(&a)
		out = append(out, a)
	}
	for _, c := range o.Changes {
		if c.Op == ledger.Set {
			add(Block, func(a *Answer) { r.fillBlock(a, &c.Block) })
		} else {
			add(Unblock, func(a *Answer) { a.Rule, a.Prefix = c.Block.Rule, c.Block.Prefix })
		}
	}
	for _, f := range o.Flags {
		add(Flag, func(a *Answer) { a.Flag, a.TTL = f.Name, f.Until.Sub(f.Since) })
	}
	if l := o.Lockdown; l != nil {
		add(Lockdown, func(a *Answer) { a.Ports, a.TTL = l.Ports, l.Until.Sub(l.Since) })
	}
	if o.Fresh && observes(b) {
		add(Observe, func(a *Answer) { a.TTL, a.Would = r.quiet(b), would(b) })
	}
	for _, left := range o.Answers {
		switch left.Kind {
		case detect.Notify:
			add(Notify, func(a *Answer) { a.Target = left.Target })
		case detect.Exec:
			add(Exec, func(a *Answer) { a.Argv = left.Argv })
		}
	}
	r.last = out
	return out
}

func (r *replay) fillBlock(a *Answer, b *ledger.Block) {
	a.At, a.Rule, a.Prefix, a.TTL = b.Since, b.Rule, b.Prefix, b.Until.Sub(b.Since)
	a.Count, a.Points, a.Except, a.Ports = b.Count, b.Points, b.Except, b.Ports
	if a.Action = cmp.Or(b.Action, r.opt.Set.Firewall.Action); a.Action == "drop" {
		a.Action = ""
	}
}

// observes reports whether a breach is only reported.
func observes(b *detect.Breach) bool {
	if b.Observe {
		return true
	}
	for _, a := range b.Answers {
		if a.Kind == detect.Observe {
			return true
		}
	}
	return false
}

// would lists what the rule would do without mode: observe.
func would(b *detect.Breach) (out []Kind) {
	if !b.Observe {
		return nil
	}
	if len(b.Answers) == 0 {
		return []Kind{Block}
	}
	for _, a := range b.Answers {
		switch a.Kind {
		case detect.Block, detect.BlockContributors:
			out = append(out, Block)
		case detect.RaiseFlag:
			out = append(out, Flag)
		case detect.Lockdown:
			out = append(out, Lockdown)
		case detect.Exec:
			out = append(out, Exec)
		}
	}
	return out
}

// quiet is how long the first block of the breach would have held.
func (r *replay) quiet(b *detect.Breach) time.Duration {
	return cmp.Or(b.TTL, r.opt.Set.Block.TTL)
}
