package web

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of wrong logins: so many at once from one place, and one more each
// tryLeak.
const (
	maxTries  = 5
	tryLeak   = 12 * time.Second
	maxPlaces = 1000
)

// attempts are leaky buckets of wrong logins by place: an instant each, when
// the bucket would be empty.
type attempts struct {
	mu    sync.Mutex
	empty map[string]time.Time
}

func newAttempts() *attempts { return &attempts{empty: map[string]time.Time{}} }

// wait is how long the place must wait before it may try again, 0: not at all.
func (a *attempts) wait(place string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, a.empty[a.known(place)].Add(-(maxTries-1)*tryLeak).Sub(now))
}

// wrong counts a wrong login.
func (a *attempts) wrong(place string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	place = a.room(place, now)
	from := a.empty[place]
	if from.Before(now) {
		from = now
	}
	a.empty[place] = from.Add(tryLeak)
}

// known is the bucket that a place is counted in.
func (a *attempts) known(place string) string {
	if _, ok := a.empty[place]; !ok && len(a.empty) >= maxPlaces {
		return ""
	}
	return place
}

// room makes room for a place; when there is none, all new ones share a bucket.
func (a *attempts) room(place string, now time.Time) string {
	if _, ok := a.empty[place]; ok || len(a.empty) < maxPlaces {
		return place
	}
	for k, t := range a.empty {
		if !t.After(now) {
			delete(a.empty, k)
		}
	}
	return a.known(place)
}

// placeOf is what logins are counted by: the peer's /28 or /64.
func placeOf(addr netip.Addr) string {
	bits := 28
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return "socket"
	}
	return p.String()
}
