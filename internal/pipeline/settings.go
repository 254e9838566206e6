package pipeline

import (
	"math/rand/v2"

	"stoplog/internal/detect"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// NewEngine returns an engine with empty buckets, whose tables nobody outside
// can predict.
func NewEngine(set *rules.Set) *detect.Engine {
	return detect.New(set, detect.Options{Seed: rand.Uint64()})
}

// LedgerOptions returns what set says about blocks, with the files of allowed
// and denied prefixes as they are now. Problems are the files that could not be
// read, one sentence each. Flags have no directory: that is the caller's.
func LedgerOptions(set *rules.Set) (o ledger.Options, problems []string) {
	allow, allowProblems := set.Allow.Read()
	deny, denyProblems := set.ReadDeny()
	for _, p := range append(allowProblems, denyProblems...) {
		problems = append(problems, p.Error())
	}
	for _, s := range set.Sources {
		allow = append(allow, s.Client.Trusted...) // a proxy speaks for everybody behind it
	}
	o = ledger.Options{
		Escalation: ledger.Escalation(set.Block),
		Floor4:     set.Floor.V4, Floor6: set.Floor.V6,
		Allow: allow, Deny: deny,
		KnownGood: set.Protect.KnownGood,
		MaxBlocks: set.Limits.Blocks, MaxKnown: set.Limits.KnownGood, MaxStrikes: set.Limits.Strikes,
		MaxEvidence: set.Limits.Evidence, MaxAudit: int64(set.Limits.Audit), KeepAudit: set.Privacy.Keep,
	}
	if set.Protect.KnownGood == 0 {
		o.KnownGood = -1
	}
	if set.Widen.On {
		o.Widen = ledger.Widening{Count: set.Widen.Over + 1, TTL: set.Widen.TTL, Bits4: set.Widen.Lens.V4, Bits6: set.Widen.Lens.V6}
	}
	return o, problems
}
