// Package control is the administrator's door to a running daemon: HTTP with
// JSON bodies over a unix socket that only root and one group can open. It
// carries orders and answers; what they mean is the daemon's business.
package control

import (
	"context"
	"time"

	"stoplog/internal/fleet"
)

// DefaultSocket is where the daemon listens unless told otherwise.
const DefaultSocket = "/run/stoplog/stoplog.sock"

// Daemon is what the door opens on. Its methods may be called from several
// goroutines. By names who asked, as the kernel told of the socket's peer.
type Daemon interface {
	Status(ctx context.Context) (Status, error)
	List(ctx context.Context) ([]Block, error)
	// Explain takes an address or a prefix.
	Explain(ctx context.Context, target string) (Explanation, error)
	History(ctx context.Context, q HistoryQuery) ([]AuditEntry, error)
	Block(ctx context.Context, o Order) (Answer, error)
	Unblock(ctx context.Context, o Order) (Answer, error)
	Allow(ctx context.Context, o Order) (Answer, error)
	Disallow(ctx context.Context, o Order) (Answer, error)
	Allowed(ctx context.Context) ([]AllowEntry, error)
	Flags(ctx context.Context) ([]FlagEntry, error)
	SetFlag(ctx context.Context, o FlagOrder) (Answer, error)
	ClearFlag(ctx context.Context, o FlagOrder) (Answer, error)
	Reload(ctx context.Context) (Answer, error)
	// FleetOrder passes an operator's order to all nodes of the fleet.
	FleetOrder(ctx context.Context, o fleet.Order) (Answer, error)
	Live(ctx context.Context) (Live, error)
	Trend(ctx context.Context, q TrendQuery) (Trend, error)
	Find(ctx context.Context, q BlockQuery) (BlockPage, error)
	Walk(ctx context.Context, q LineQuery) (Walk, error)
}

// Order is a change by hand of one address or prefix.
type Order struct {
	Target string        `json:"target"`
	TTL    time.Duration `json:"ttl,omitempty"` // 0: the default of the order
	Reason string        `json:"reason,omitempty"`
	By     string        `json:"-"`
}

// FlagOrder raises or clears a named flag.
type FlagOrder struct {
	Name string        `json:"name"`
	For  time.Duration `json:"for,omitempty"`
	By   string        `json:"-"`
}

// Answer says what an order did, one sentence a line.
type Answer struct {
	Lines []string `json:"lines"`
	// Problems are mistakes that made the order fail as a whole (a broken
	// rules file on reload).
	Problems []string `json:"problems,omitempty"`
}

// Block is one live block: the shape of `list --json`.
type Block struct {
	Prefix   string    `json:"prefix"`
	Rule     string    `json:"rule"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Count    int       `json:"count"`  // failures
	Points   int       `json:"points"` // what they weighed
	Reason   string    `json:"reason"`
	Backend  string    `json:"backend"`
	By       string    `json:"by,omitempty"`
	Action   string    `json:"action,omitempty"`
	Strikes  int       `json:"strikes,omitempty"`
	Evidence []string  `json:"evidence,omitempty"`
	Partial  bool      `json:"partial,omitempty"`
	Source   string    `json:"source,omitempty"`
	Line     int64     `json:"line,omitempty"`
	// Limited blocks close Ports alone ("tcp/22", "80-90"; none is all), or let Rate
	// new connections a minute pass: lists for walls elsewhere that cannot
	// express it leave them out.
	Limited bool     `json:"limited,omitempty"`
	Ports   []string `json:"ports,omitempty"`
	Rate    int      `json:"rate,omitempty"`
	// Except are prefixes inside that pass: somebody logged in from them.
	Except []string `json:"except,omitempty"`
}

// AllowEntry is one entry of the allowlist, from wherever it comes.
type AllowEntry struct {
	Prefix string     `json:"prefix"`          // with its length, also of one address
	Until  *time.Time `json:"until,omitempty"` // nil: for good
	Origin string     `json:"origin"`          // "rules", "hand", "file …", "protected: …"
	Reason string     `json:"reason,omitempty"`
	By     string     `json:"by,omitempty"`
}

// FlagEntry is a raised flag.
type FlagEntry struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
	By    string    `json:"by,omitempty"`
	// ReadBy are the rules whose limits change while it is raised.
	ReadBy []string `json:"read_by,omitempty"`
}

// Status is the state of the whole on one screen.
type Status struct {
	Version    string         `json:"version"`
	PID        int            `json:"pid"`
	Started    time.Time      `json:"started"`
	State      string         `json:"state"` // "ok", "degraded" or "recovering"
	DryRun     bool           `json:"dry_run,omitempty"`
	Trouble    []string       `json:"trouble,omitempty"` // why it is degraded, one sentence each
	Notes      []string       `json:"notes,omitempty"`
	Rules      string         `json:"rules"` // the file, or "built-in"
	Rights     string         `json:"rights"`
	Sources    []SourceStatus `json:"sources"`
	RuleStats  []RuleStatus   `json:"rule_stats"`
	Backends   []WallStatus   `json:"backends"`
	Blocks     int            `json:"blocks"`
	Lines      uint64         `json:"lines"`
	Events     uint64         `json:"events"`
	Unknown    uint64         `json:"unrecognised"`
	Buckets    int            `json:"buckets"`
	BucketCap  int            `json:"bucket_cap"`
	Evicted    uint64         `json:"evicted"`
	KnownGood  int            `json:"known_good"`
	Flags      []FlagEntry    `json:"flags,omitempty"`
	Doors      []string       `json:"doors,omitempty"` // how feed and check are used
	MemoryKiB  int64          `json:"memory_kib"`
	Fleet      *fleet.Status  `json:"fleet,omitempty"`
	SavedAt    *time.Time     `json:"saved_at,omitempty"`
	ReloadedAt *time.Time     `json:"reloaded_at,omitempty"`
}

// SourceStatus is one origin of lines.
type SourceStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"` // "following", "waiting", "standby"
	Why     string `json:"why,omitempty"`
	Lines   uint64 `json:"lines"`
	Events  uint64 `json:"events"`
	Cut     uint64 `json:"cut,omitempty"`
	Doubted uint64 `json:"doubted,omitempty"` // events not counted: a client may have written their lines
	// Foreign counts journal entries about a service by others than its own
	// units, which are ignored; Foreigner describes one of them.
	Foreign   uint64 `json:"foreign,omitempty"`
	Foreigner string `json:"foreigner,omitempty"`
	// OverLimit counts lines that were too long for the filter of the rule
	// OverLimitOf, or took it too many steps: they count toward nothing.
	OverLimit   uint64 `json:"over_limit,omitempty"`
	OverLimitOf string `json:"over_limit_of,omitempty"`
	LagByte     int64  `json:"lag_bytes"`
	SkewMs      int64  `json:"skew_ms,omitempty"` // stamp minus arrival when last far off
	Ready       string `json:"ready,omitempty"`   // the ready rules that look for it, empty when the rules file names it
}

// RuleStatus is one rule's counters since the start.
type RuleStatus struct {
	Name     string `json:"name"`
	Mode     string `json:"mode,omitempty"`
	Matched  uint64 `json:"matched"`
	Breaches uint64 `json:"breaches"`
}

// WallStatus is one backend.
type WallStatus struct {
	Name    string `json:"name"`
	Why     string `json:"why,omitempty"` // why it was chosen
	State   string `json:"state"`         // "ok" or what is wrong
	Entries int    `json:"entries"`
}

// Explanation is all that is known of one address, or of a prefix.
type Explanation struct {
	Addr string `json:"addr"` // of a prefix: its first address
	// Prefix is what was asked about, when that is more than one address.
	Prefix  string       `json:"prefix,omitempty"`
	Blocked []Block      `json:"blocked,omitempty"` // blocks that cover all of it
	Allowed []AllowEntry `json:"allowed,omitempty"` // entries that cover all of it
	// Inside are blocks of parts of the prefix, the newest first, at most 100 of
	// InsideTotal; Near those of its neighbours in the same /24 or /48.
	Inside      []Block  `json:"inside,omitempty"`
	InsideTotal int      `json:"inside_total,omitempty"`
	Near        []Block  `json:"near,omitempty"`
	NearTotal   int      `json:"near_total,omitempty"`
	NearNet     string   `json:"near_net,omitempty"`   // the network that Near is of
	KnownGood   []string `json:"known_good,omitempty"` // "sshd alice, last 2026-…"
	// AllowedInside are entries for parts of the prefix, which pass even when it
	// is blocked; at most 100.
	AllowedInside []AllowEntry `json:"allowed_inside,omitempty"`
	Levels        []Level      `json:"levels,omitempty"`
	Fleet         []string     `json:"fleet,omitempty"` // what nodes of the fleet count about it
	Rules         []RuleText   `json:"rules,omitempty"` // of Blocked, Inside and Levels that are not empty
	History       []AuditEntry `json:"history,omitempty"`
	Advice        []string     `json:"advice,omitempty"`
}

// RuleText is a rule as it is written.
type RuleText struct {
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
	Where string `json:"where,omitempty"` // file:line
	Text  string `json:"text,omitempty"`  // YAML
}

// Level is how full one bucket is now.
type Level struct {
	Rule     string  `json:"rule"`
	Key      string  `json:"key"`
	Level    float64 `json:"level"`
	Capacity int     `json:"capacity"`
}

// HistoryQuery selects audit entries, newest first.
type HistoryQuery struct {
	Target string    `json:"target,omitempty"` // entries whose prefix overlaps it
	Search string    `json:"search,omitempty"` // as in BlockQuery; Target wins over an address here
	Since  time.Time `json:"since,omitzero"`
	Offset int       `json:"offset,omitempty"` // at most 100000
	Limit  int       `json:"limit,omitempty"`  // at most 10000; 0: 1000
}

// AuditEntry is one line of the audit trail.
type AuditEntry struct {
	Time     time.Time `json:"time"`
	What     string    `json:"what"`
	Prefix   string    `json:"prefix,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	By       string    `json:"by,omitempty"`
	TTL      string    `json:"ttl,omitempty"`
	Count    int       `json:"count,omitempty"`
	Points   int       `json:"points,omitempty"`
	Evidence []string  `json:"evidence,omitempty"`
}
