package control

import (
	"context"
	"net/http"
	"time"
)

// LineQuery is one log line to walk through the rules.
type LineQuery struct {
	Text    string `json:"text"`
	Source  string `json:"source,omitempty"`  // the file it would stand in, for the source's own settings
	Service string `json:"service,omitempty"` // what wrote it, to try first
}

// Walk is what becomes of one line, step by step: the shape of
// `explain --line --json`. Nothing was counted by asking.
type Walk struct {
	Line  string `json:"line"`
	Rules string `json:"rules"` // the file, or "built-in"
	// Live: levels and verdicts are those of the running daemon; else buckets
	// are empty, and nobody is known or blocked.
	Live       bool        `json:"live"`
	Stamp      *time.Time  `json:"stamp,omitempty"` // the line's own time, when its envelope has one
	Understood bool        `json:"understood"`
	Events     []WalkEvent `json:"events,omitempty"`
}

// WalkEvent is what a line says, and what each rule makes of it.
type WalkEvent struct {
	CountsAt time.Time         `json:"counts_at"`      // the instant that buckets would see
	Late     string            `json:"late,omitempty"` // why that is not the stamp
	Addr     string            `json:"ip,omitempty"`
	Verdict  string            `json:"verdict,omitempty"` // of the address: "stranger", "known-good", "allowed" or "blocked"
	Service  string            `json:"service"`
	Outcome  string            `json:"outcome"`
	Kind     string            `json:"kind,omitempty"`
	Message  string            `json:"message,omitempty"` // what is left without the envelope
	Fields   map[string]string `json:"fields,omitempty"`  // user, method, path, status…
	Rules    []WalkRule        `json:"rules"`
	Hints    []string          `json:"hints,omitempty"` // what check says of rules that the event nearly matches
}

// WalkRule is what one rule makes of an event.
type WalkRule struct {
	Rule   string      `json:"rule"`
	Mode   string      `json:"mode,omitempty"`
	Why    string      `json:"why,omitempty"` // what keeps it from counting; "" when it counts
	Key    string      `json:"key,omitempty"` // what it counts for
	Levels []WalkLevel `json:"levels,omitempty"`
}

// WalkLevel is what an event would do to one bucket or window.
type WalkLevel struct {
	Kind     string `json:"kind"`
	Weight   int    `json:"weight"` // events that it counts for
	Held     int    `json:"held"`   // before it
	Capacity int    `json:"capacity"`
	Breaches bool   `json:"breaches"`
	TTL      string `json:"ttl,omitempty"`    // of the block; "" is the configured one
	Drains   string `json:"drains,omitempty"` // until it is empty, before the event
}

func (c *Client) Walk(ctx context.Context, q LineQuery) (Walk, error) {
	return call[Walk](ctx, c, http.MethodPost, "/walk", q)
}
