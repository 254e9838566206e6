package control

import (
	"context"
	"net/http"
	"time"
)

// Live is what moves from minute to minute: rates and the fullest buckets.
type Live struct {
	Now time.Time `json:"now"`
	// Minutes are the last hour's, the oldest first; the last one still runs.
	Minutes []Minute `json:"minutes"`
	// Fullest are the fullest buckets of keys that are not blocked, at most 20.
	Fullest []Level `json:"fullest"`
}

// Minute is what happened within one minute of the wall clock, counted when
// it was read.
type Minute struct {
	At     time.Time `json:"at"` // its begin
	Lines  uint64    `json:"lines"`
	Events uint64    `json:"events"`
	Blocks uint64    `json:"blocks"` // prefixes that were free before
}

// TrendQuery chooses bins of one unit.
type TrendQuery struct {
	Unit string    `json:"unit"` // "minute", "hour" or "day"
	From time.Time `json:"from"` // within the first bin
	Bins int       `json:"bins"` // at most Trend.Kept
}

// Trend is what happened in each of Bins bins from From on.
type Trend struct {
	Unit string    `json:"unit"`
	From time.Time `json:"from"`
	Bins int       `json:"bins"`
	Kept int       `json:"kept"` // how many bins of this unit are kept
	// All has one series, or none when nothing happened. The others begin with
	// the series of most events.
	All      []TrendSeries `json:"all"`
	Rules    []TrendSeries `json:"rules"`
	Services []TrendSeries `json:"services"`
}

// TrendSeries has a number for each bin.
type TrendSeries struct {
	Name     string   `json:"name"`
	Events   []uint32 `json:"events"` // that a rule matched; of All and services: understood
	Breaches []uint32 `json:"breaches"`
	Blocks   []uint32 `json:"blocks"` // prefixes that were free before
}

// BlockQuery chooses live blocks, the newest first.
type BlockQuery struct {
	// Search is an address or prefix (blocks that touch it), or else words that
	// prefix, rule, reason or name contain, whatever their case; "" is all.
	Search string `json:"search,omitempty"`
	Offset int    `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"` // at most 1000; 0: 100
}

// BlockPage is one page of live blocks.
type BlockPage struct {
	Blocks  []Block `json:"blocks"`
	Matches int     `json:"matches"` // of the search, all pages together
	Total   int     `json:"total"`   // of all that is blocked
}

func (c *Client) Live(ctx context.Context) (Live, error) {
	return call[Live](ctx, c, http.MethodGet, "/live", nil)
}

func (c *Client) Trend(ctx context.Context, q TrendQuery) (Trend, error) {
	return call[Trend](ctx, c, http.MethodPost, "/trend", q)
}

func (c *Client) Find(ctx context.Context, q BlockQuery) (BlockPage, error) {
	return call[BlockPage](ctx, c, http.MethodPost, "/find", q)
}
