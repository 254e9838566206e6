package rules

import (
	"slices"
	"strings"
	"time"

	"stoplog/internal/f2b"
)

// Rule is what to count, by what key, how much is too much, and what then.
type Rule struct {
	Name   string  `in:"a rule" key:"name,required" doc:"name in lists and messages" is:"name" what:"the name of a rule" eg:"my-app"`
	About  string  `key:"about" doc:"description" what:"a sentence" eg:"Logins of the shop"` // for people
	Match  Match   `key:"match" doc:"events that the rule counts: all conditions must match" eg:"{service: sshd, outcome: failure}"`
	Weight Weight  `key:"weight" doc:"points of an event" default:"1" eg:"{unknown_user: 2, user: {root: 3}}"`
	Key    Key     `key:"key" doc:"what to count by; several are counted together" default:"prefix" eg:"[user, prefix]"`
	Prefix Lens    `key:"prefix" doc:"prefix lengths of this rule (default: those of the file)" eg:"{ipv4: 32}"` // of its keys and blocks
	Floor  Lens    `key:"floor" doc:"no prefix wider than this is ever blocked (default: that of the file)" eg:"{ipv4: 24}"`
	Levels []Level // at least one
	// Clears: a success empties what its own source and account poured.
	Clears bool
	// When changes the room of strangers while a flag is raised.
	When    []When  `key:"when" doc:"another capacity for sources that are not known-good, while a flag is raised or after a block of their prefix" eg:"{flag: captcha, capacity: 1}"`
	Tiers   *Tiers  `key:"tiers" doc:"capacity by customer" eg:"{by: field customer, file: customers.yaml, default: free, free: {capacity: 10, leak: 6s}}"`
	Ports   []Ports `key:"ports" doc:"ports that its blocks cover, by number or by name as in /etc/services (default: all)" eg:"[80, tcp/443, ssh]"`
	Observe bool    // tells, does not block
	// Pattern is the rule's own pattern, nil when it has none. Its events have
	// the rule's name as their service.
	Pattern *Pattern
	// Ready is the ready rule that brought it, empty when a file names it.
	Ready string
	File  string
	Line  int
	// Warnings are those of check about this rule.
	Warnings []Problem
	Text     string // as it is written, YAML; shortened to some kilobytes
	// counted is what Match and Pattern say, in one notation.
	counted string
}

// Pattern is an expression on the message after the envelope, and the lines
// that prove it.
type Pattern struct {
	Text string
	// Of is the filter of fail2ban that stands in place of Text, and Filter is
	// what was read of it: nil when it cannot be used, as a warning says.
	Of           *FilterText
	Filter       *f2b.Filter
	Programs     []string // syslog tags; none: any
	Services     []string // of match: whose lines it reads; none: see Match's source
	Outcome      string
	Kind         string
	Matches      []string
	Ignores      []string
	Line, Column int
	MatchesAt    []int // lines in the file of Matches
	IgnoresAt    []int
}

// LevelKind is how a level counts.
type LevelKind uint8

const (
	// Trigger breaches at each match.
	Trigger LevelKind = iota
	// Bucket leaks: Capacity events fit, one drains in Leak.
	Bucket
	// Window is exact: breaches when more than Over events lie within Within.
	Window
	// Distinct breaches when more than Over different values lie within Within.
	Distinct
)

func (k LevelKind) String() string {
	return [...]string{"trigger", "bucket", "window", "distinct"}[k]
}

// Level is one way to count and its own answer.
type Level struct {
	Kind     LevelKind
	Capacity int           // Bucket
	Leak     time.Duration // Bucket: the time one event takes to drain
	Over     int           // Window, Distinct: more than this many breach
	First    bool          // Window: an event breaches that has none before it in Within
	Within   time.Duration // Window, Distinct
	Of       Key           // Distinct: what is counted
	// Prefix is that of networks in which a Distinct counts the prefixes of the
	// rule, each once; a zero length: not for that family. The zero Lens: the
	// level counts by the rule's key.
	Prefix Lens
	Weight *Weight // its own; nil: the rule's
	// PerConn counts each connection once, by its first failure; a line that
	// belongs to no known connection is not counted.
	PerConn bool
	// Escalation of its own; zero fields: the configured one.
	TTL      time.Duration
	Multiply float64
	Max      time.Duration
	Then     []Answer // at least one
	Line     int
}

// Wide reports whether the level counts the sources of networks.
func (l *Level) Wide() bool { return l.Prefix != Lens{} }

// KeyPart is one part of what is counted by.
type KeyPart uint8

const (
	ByAll KeyPart = iota
	ByPrefix
	ByAddr
	ByUser
	ByService
	ByPath
	ByHost
	ByMethod
	ByAgent
	ByField // a captured field, by Name
	ByParam // a query parameter, by Name
)

// Part is a KeyPart with the name it needs.
type Part struct {
	By   KeyPart
	Name string
}

// Key is what a rule counts by: one or more parts together. The zero Key
// counts all together.
type Key []Part

// HasSource reports whether the key names the event's source, so that a block
// has something to block.
func (k Key) HasSource() bool { return k.Has(ByPrefix) || k.Has(ByAddr) }

// Has reports whether part is in the key.
func (k Key) Has(part KeyPart) bool {
	return slices.ContainsFunc(k, func(p Part) bool { return p.By == part })
}

// When is `when`: strangers have at most this capacity while Flag is raised, or,
// if Flag is empty, when a block of their prefix ended less than Blocked ago.
type When struct {
	Flag     string        `in:"a condition" key:"flag" doc:"while this flag is raised" is:"flag" eg:"captcha"`
	Blocked  time.Duration `key:"blocked" doc:"this long after the end of a block of the prefix" range:"1s..366d" eg:"1d"`
	Capacity int           `key:"capacity,required" doc:"capacity for sources that are not known-good" range:"0..1000000" eg:"1"`
}

func (w *When) check(p place) {
	if p.has("flag") == p.has("blocked") {
		p.fail("", "a condition needs one of flag and blocked")
	}
}

// what names the condition for a message.
func (w *When) what() string {
	if w.Flag != "" {
		return "the flag " + w.Flag
	}
	return "blocked"
}

// Tier is a room of its own for some values of a key.
type Tier struct {
	Capacity int           `in:"a tier" key:"capacity,required" doc:"points its bucket holds" range:"0..1000000" eg:"10"`
	Leak     time.Duration `key:"leak,required" doc:"time in which one point drains" range:"1ms..365d" eg:"6s"`
}

// Tiers give each value of By (a customer) its tier's room. Members is read
// from File; who is not in it has the tier Default.
type Tiers struct {
	By      Part            `in:"tiers" key:"by" doc:"required: the field with the customer, written as in key" eg:"field customer"`
	File    string          `key:"file" doc:"required: a YAML file with lines customer: tier" is:"path" eg:"customers.yaml"` // absolute
	Default string          `key:"default" doc:"required: tier of customers that are not in the file" is:"name" what:"the name of a tier" eg:"free"`
	Tiers   map[string]Tier `key:"*" doc:"each other key is the name of a tier"`
	Members map[string]string
}

// Of returns the tier of a value of By.
func (t *Tiers) Of(value string) Tier {
	if name, ok := t.Members[value]; ok {
		return t.Tiers[name]
	}
	return t.Tiers[t.Default]
}

// AnswerKind is one way to answer a breach.
type AnswerKind uint8

const (
	Block AnswerKind = iota
	BlockContributors
	Observe
	RaiseFlag
	Lockdown
	Tell // `notify`
	Exec
)

func (k AnswerKind) String() string {
	return [...]string{"block", "contributors", "observe", "flag", "lockdown", "notify", "exec"}[k]
}

// Answer is one element of `then`. Fields that its kind does not use are zero.
type Answer struct {
	Kind   AnswerKind
	Action string        // Block: drop, reject, slow; "" = the configured one
	Each   int           // BlockContributors: only who tried at least so often
	Flag   string        // RaiseFlag
	For    time.Duration // RaiseFlag, Lockdown
	Ports  []Ports       // Block, Lockdown; none: all
	Cut    bool          // Block
	Target string        // Tell: a name of `notify`
	Argv   []string      // Exec
}

// String writes a key as the rules file does: "user+prefix", "all".
func (k Key) String() string {
	if len(k) == 0 {
		return "all"
	}
	words := make([]string, len(k))
	for i, p := range k {
		words[i] = p.String()
	}
	return strings.Join(words, "+")
}

var partNames = [...]string{"all", "prefix", "address", "user", "service", "path", "host", "method", "agent", "field", "param"}

// String writes a part as the rules file does: "user", "field customer".
func (p Part) String() string {
	if p.Name != "" {
		return partNames[p.By] + " " + p.Name
	}
	return partNames[p.By]
}
