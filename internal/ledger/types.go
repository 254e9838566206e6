package ledger

import (
	"net/netip"
	"time"

	"stoplog/internal/detect"
)

// Block is one prefix that is, or was, blocked. Since and Until are of the
// log's time for blocks of rules, of the wall clock for blocks by hand.
type Block struct {
	Prefix   netip.Prefix   `json:"prefix"`
	Rule     string         `json:"rule,omitempty"` // "" by hand, "deny" of a list, "widen" of neighbours
	Since    time.Time      `json:"since"`
	Until    time.Time      `json:"until"`
	Forever  bool           `json:"forever,omitempty"` // Until is a lease that Expire renews
	Count    int            `json:"count,omitempty"`   // events that filled the bucket: see detect.Breach
	Points   int            `json:"points,omitempty"`  // the weight of them that it held
	Reason   string         `json:"reason,omitempty"`
	By       string         `json:"by,omitempty"`     // who ordered it; "" for a rule
	Action   string         `json:"action,omitempty"` // drop, reject, slow; "" = the configured default
	Ports    []detect.Ports `json:"ports,omitempty"`  // none = all
	Cut      bool           `json:"cut,omitempty"`    // running connections too
	Strikes  int            `json:"strikes,omitempty"`
	Evidence []string       `json:"evidence,omitempty"` // oldest first; dropped from memory before the block is
	Partial  bool           `json:"partial,omitempty"`  // the bucket held more than Evidence shows
	Source   string         `json:"source,omitempty"`
	Line     int64          `json:"line,omitempty"`
	Key      string         `json:"key,omitempty"`     // what was counted
	Service  string         `json:"service,omitempty"` // of the line that breached
	User     string         `json:"user,omitempty"`
	Level    int            `json:"level,omitempty"` // index of the rule's bucket
	// Except are prefixes inside that pass: somebody logged in from them before
	// the whole network was blocked.
	Except []netip.Prefix `json:"except,omitempty"`
}

// Op is what to do with a Block.
type Op uint8

const (
	Set  Op = iota // block the prefix until Until, or refresh it
	Lift           // unblock the prefix now
)

// Change is what the walls must be told. Apply changes in order. A Set whose
// Block.Cut is true and whose New is true also wants running connections cut.
type Change struct {
	Op    Op
	Block Block
	New   bool // Set: the prefix was not blocked before
}

// Outcome is what came of a breach.
type Outcome struct {
	Changes []Change        // for the walls
	Answers []detect.Answer // left for the caller: Notify and Exec; none when the breach was known
	Fresh   bool            // not known from before a restart: tell of it
	Refused []string        // why something was not blocked, for the log
	// Policy is true when the lockdown changed: tell the walls.
	Policy bool
	// Flags and Lockdown are what the breach raised or prolonged.
	Flags    []FlagState
	Lockdown *LockdownState
}

// Lifted is what an unblock did.
type Lifted struct {
	Changes []Change
	// Forget are prefixes whose buckets the caller empties: those inside them.
	Forget []netip.Prefix
}

// Allowance is an address range exempt by hand.
type Allowance struct {
	Prefix netip.Prefix `json:"prefix"`
	Since  time.Time    `json:"since"`
	Until  time.Time    `json:"until,omitzero"` // zero: for good
	Reason string       `json:"reason,omitempty"`
	By     string       `json:"by,omitempty"`
}

// FlagState is a raised flag.
type FlagState struct {
	Name   string    `json:"name"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // "" for a rule
	Rule   string    `json:"rule,omitempty"`
}

// LockdownState is a lockdown that stands while Until is in the future.
type LockdownState struct {
	Ports []detect.Ports `json:"ports,omitempty"` // none = all
	// Services are those of which a known-good source is let in; none = all.
	Services []string  `json:"services,omitempty"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Rule     string    `json:"rule,omitempty"`
}

// Escalation is how the TTL of a repeat offender grows.
type Escalation struct {
	TTL      time.Duration // of the first block, unless the rule says; default 10m
	Multiply float64       // each strike multiplies it; default 4, less than 1 counts as 1
	Max      time.Duration // at most; default 30 days
	Decay    time.Duration // one strike is forgotten each Decay after the block's end; default 30 days
}

// Widening blocks a whole network once enough of its prefixes stand blocked.
// The zero Widening is off.
type Widening struct {
	Count int // prefixes blocked by rules within it; 0 = off
	Bits4 int // length of the network, default 24
	Bits6 int // default 48
	// TTL is how long; 0: as long as the block that made enough of them.
	TTL time.Duration
}

// Options configure a ledger. Zero fields mean their defaults.
type Options struct {
	Escalation Escalation
	Floor4     int // no shorter IPv4 prefix is blocked; default 16
	Floor6     int // default 32
	Widen      Widening
	Allow      []netip.Prefix // of the rules file and the files it names
	Deny       []netip.Prefix // likewise: blocked as long as listed
	KnownGood  time.Duration  // how long a login vouches; default 30 days, negative: never
	FlagsDir   string         // where flags are files, such as /run/stoplog/flags; "" = none

	MaxBlocks   int           // default 200,000; over it those that end first are lifted
	MaxKnown    int           // default 100,000 logins remembered
	MaxStrikes  int           // default 100,000 prefixes remembered
	MaxEvidence int           // bytes of evidence in memory, default 4 MiB
	MaxAudit    int64         // bytes of one audit file, default 16 MiB
	AuditFiles  int           // how many are kept, default 4
	KeepAudit   time.Duration // entries are deleted after this time; 0: when the files are full
}

// Recovered is what Open found on disk.
type Recovered struct {
	// Parts are what Save was given, nil when there was no snapshot.
	Parts map[string][]byte
	// SavedAt is when the snapshot was written, zero when there was none.
	SavedAt time.Time
	// Forget are prefixes unblocked by hand since: the caller empties their
	// buckets once those are restored.
	Forget []netip.Prefix
	// Pending blocks stand for the walls, and for detection once their breach
	// was found again.
	Pending int
	// Lost says that there was no state to be read: what firewalls still hold of
	// ours is all that is left of it.
	Lost bool
	// Notes say what was lost or set aside, one line each.
	Notes []string
}

// Stats are counts since Open, and sizes now.
type Stats struct {
	Blocks, Pending, Ended  int    // standing; of them pending; ended but remembered
	Known, Strikes, Allowed int    // logins, prefixes with strikes, allowances by hand
	Set, Lifted, Expired    uint64 // blocks set, lifted by hand, expired
	Refused                 uint64 // breaches that asked for what is never blocked
	Evicted                 uint64 // blocks lifted because of MaxBlocks
	KnownEvicted            uint64 // logins forgotten because of MaxKnown
	StrikesEvicted          uint64
	Journal                 int64 // bytes written since the last snapshot
}
