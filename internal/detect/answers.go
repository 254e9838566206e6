package detect

import (
	"slices"
	"time"

	"stoplog/internal/rules"
)

// answersOf puts a level's answers into the words of a Breach, and tells
// whether one of them blocks the key's own prefix.
func answersOf(r *rules.Rule, l *rules.Level) (out []Answer, blocks bool) {
	kinds := [...]AnswerKind{
		rules.Block: Block, rules.BlockContributors: BlockContributors, rules.Observe: Observe,
		rules.RaiseFlag: RaiseFlag, rules.Lockdown: Lockdown, rules.Tell: Notify, rules.Exec: Exec,
	}
	for _, a := range l.Then {
		b := Answer{Kind: kinds[a.Kind], Action: a.Action, Flag: a.Flag, For: a.For, Cut: a.Cut, Target: a.Target, Argv: slices.Clone(a.Argv)}
		for _, p := range a.Ports {
			b.Ports = append(b.Ports, Ports{Proto: p.Proto, From: p.From, To: p.To})
		}
		out = append(out, b)
		blocks = blocks || a.Kind == rules.Block
	}
	return out, blocks && !r.Observe
}

// hushOf is for how long a level says the same of the same key only once. A
// block needs none, for nothing is poured while it stands; a trigger speaks
// each time. What only tells is silent for as long as the block would have
// stood, or for the length of its window; a flag or lockdown is raised again when
// half of it is over.
func hushOf(set *rules.Set, r *rules.Rule, l *level) int64 {
	if l.First {
		return 0 // the window remembers
	}
	if r.Observe {
		if l.TTL > 0 {
			return int64(l.TTL)
		}
		return int64(set.Block.TTL)
	}
	if l.blocks || l.Kind == rules.Trigger {
		return 0
	}
	hush := time.Duration(0)
	for _, a := range l.answers {
		switch a.Kind {
		case RaiseFlag, Lockdown:
			hush = shorter(hush, a.For/2)
		case BlockContributors:
			hush = shorter(hush, time.Second)
		}
	}
	switch {
	case hush > 0:
	case l.Kind != rules.Bucket:
		hush = max(l.Within, time.Minute)
	default:
		hush = min(max(l.drain(), time.Minute), time.Hour)
	}
	return int64(hush)
}

// shorter is the shorter of two times, of which 0 is none; a second at least.
func shorter(a, b time.Duration) time.Duration {
	b = max(b, time.Second)
	if a == 0 {
		return b
	}
	return min(a, b)
}

// severest leaves, of the breaches that one event made in one rule from first
// on, one block of the prefix: the longest. The others keep their other
// answers, and go when they have none.
func severest(out []Breach, first int, usual time.Duration) []Breach {
	best, longest := -1, time.Duration(-1)
	for i := first; i < len(out); i++ {
		ttl := out[i].TTL
		if ttl == 0 {
			ttl = usual
		}
		if hasBlock(out[i].Answers) && ttl > longest {
			best, longest = i, ttl
		}
	}
	kept := out[:first]
	for i := first; i < len(out); i++ {
		b := out[i]
		if i != best && hasBlock(b.Answers) {
			b.Answers = slices.DeleteFunc(slices.Clone(b.Answers), func(a Answer) bool { return a.Kind == Block })
		}
		if len(b.Answers) > 0 {
			kept = append(kept, b)
		}
	}
	return kept
}

func hasBlock(as []Answer) bool {
	return slices.ContainsFunc(as, func(a Answer) bool { return a.Kind == Block })
}
