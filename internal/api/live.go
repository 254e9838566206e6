package api

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
)

const (
	maxFullest = 20
	// maxLooked is how many buckets are looked at for those of sources that are
	// not blocked: a bucket is full when its source has just been blocked.
	maxLooked = 500
	// lookAgain bounds how often all buckets are looked through, however many
	// people watch.
	lookAgain = time.Second
	maxFound  = 1000
	maxOffset = 1 << 24 // more than a ledger holds
)

// liveLook is the last look at the fullest buckets.
type liveLook struct {
	at      time.Time
	fullest []control.Level
}

func (x *API) Live(ctx context.Context) (l control.Live, err error) {
	err = x.loop.Ask(ctx, func(s State) { l = x.lively(s, time.Now()) })
	return l, err
}

func (x *API) lively(s State, now time.Time) control.Live {
	if x.live.fullest == nil || now.Sub(x.live.at) >= lookAgain || now.Before(x.live.at) {
		levels := []control.Level{}
		for _, l := range s.Engine.Fullest(maxLooked, now.UnixNano()) {
			if len(levels) == maxFullest {
				break
			}
			if l.Level > 0 && !s.standing(l.Prefix, now) {
				levels = append(levels, control.Level{Rule: l.Rule, Key: l.Key, Level: float64(l.Level), Capacity: l.Capacity})
			}
		}
		x.live = liveLook{now, levels}
	}
	return control.Live{Now: now.UTC(), Minutes: lastHour(x.loop.Trends(now), now), Fullest: x.live.fullest}
}

// standing reports whether all of p is blocked; never of a bucket that is not
// of a prefix.
func (s State) standing(p netip.Prefix, now time.Time) bool {
	return p.IsValid() && slices.ContainsFunc(s.Ledger.Covering(p.Addr(), now), func(b ledger.Block) bool { return covers(b.Prefix, p) })
}

// Find looks through all blocks on the loop, but copies only what it gives.
func (x *API) Find(ctx context.Context, q control.BlockQuery) (control.BlockPage, error) {
	limit := min(q.Limit, maxFound)
	if limit <= 0 {
		limit = 100
	}
	p := control.BlockPage{Blocks: []control.Block{}}
	want := wanted(q.Search)
	err := x.loop.Ask(ctx, func(s State) {
		var page []ledger.Block
		page, p.Matches, p.Total = s.Ledger.Newest(time.Now(), want, min(q.Offset, maxOffset), limit)
		p.Blocks = x.allShown(s, page)
	})
	return p, err
}

// wanted is what a search takes.
func wanted(search string) func(*ledger.Block) bool {
	search = strings.ToLower(strings.TrimSpace(search))
	if search == "" {
		return func(*ledger.Block) bool { return true }
	}
	if p, err := target(search); err == nil {
		return func(b *ledger.Block) bool { return b.Prefix.Overlaps(p) }
	}
	return func(b *ledger.Block) bool {
		for _, s := range [...]string{b.Prefix.String(), b.Rule, b.Reason, b.By, b.Service} {
			if strings.Contains(strings.ToLower(s), search) {
				return true
			}
		}
		return b.Rule == "" && strings.Contains("by hand", search)
	}
}
