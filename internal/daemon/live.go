package daemon

import (
	"context"
	"slices"
	"strings"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
)

const (
	maxFullest = 20
	// lookAgain bounds how often all buckets are looked through, however many
	// people watch.
	lookAgain = time.Second
	maxFound  = 1000
)

// liveLook is the last look at the fullest buckets.
type liveLook struct {
	at      time.Time
	fullest []control.Level
}

func (x *door) Live(ctx context.Context) (l control.Live, err error) {
	err = x.d.ask(ctx, func() { l = x.d.lively(time.Now()) })
	return l, err
}

func (d *daemon) lively(now time.Time) control.Live {
	if d.live.fullest == nil || now.Sub(d.live.at) >= lookAgain || now.Before(d.live.at) {
		levels := []control.Level{}
		for _, l := range d.engine.Fullest(maxFullest, now.UnixNano()) {
			if l.Level > 0 {
				levels = append(levels, control.Level{Rule: l.Rule, Key: l.Key, Level: float64(l.Level), Capacity: l.Capacity})
			}
		}
		d.live = liveLook{now, levels}
	}
	return control.Live{Now: now.UTC(), Minutes: d.rates.last(now), Fullest: d.live.fullest}
}

// Find copies the blocks on the loop and sorts them here.
func (x *door) Find(ctx context.Context, q control.BlockQuery) (control.BlockPage, error) {
	var live []ledger.Block
	if err := x.d.ask(ctx, func() { live = x.d.ledger.List(time.Now()) }); err != nil {
		return control.BlockPage{}, err
	}
	p := control.BlockPage{Total: len(live), Blocks: []control.Block{}}
	live = slices.DeleteFunc(live, func(b ledger.Block) bool { return !touches(b, q.Search) })
	slices.SortFunc(live, newestFirst)
	p.Matches = len(live)
	if q.Limit <= 0 {
		q.Limit = 100
	}
	from := min(max(q.Offset, 0), len(live))
	for _, b := range live[from:min(from+min(q.Limit, maxFound), len(live))] {
		p.Blocks = append(p.Blocks, x.d.shown(b))
	}
	return p, nil
}

// touches reports whether a block is one of those searched for.
func touches(b ledger.Block, search string) bool {
	search = strings.ToLower(strings.TrimSpace(search))
	if search == "" {
		return true
	}
	if p, err := target(search); err == nil {
		return b.Prefix.Overlaps(p)
	}
	for _, s := range []string{b.Prefix.String(), b.Rule, b.Reason, b.By, b.Service} {
		if strings.Contains(strings.ToLower(s), search) {
			return true
		}
	}
	return b.Rule == "" && strings.Contains("by hand", search)
}

func newestFirst(a, b ledger.Block) int {
	if c := b.Since.Compare(a.Since); c != 0 {
		return c
	}
	return a.Prefix.Compare(b.Prefix)
}
