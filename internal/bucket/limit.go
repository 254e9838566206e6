package bucket

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// MaxSpan is the longest that a bucket can take to drain (about 2.2 years).
// Fuller than that it cannot get.
const MaxSpan time.Duration = 1<<56 - 1

// Instants outside ±maxAt (some 146 years around 1970) count as the end.
const maxAt = 1 << 62

// Limit is the size of a bucket and how fast it drains. It is not stored with
// the bucket: one bucket may be poured with different capacities.
type Limit struct {
	Capacity int           // events it holds: capacity 5 breaches at the sixth
	Leak     time.Duration // time for one event to drain; less than 1 ns counts as 1 ns
}

// Check returns why a limit cannot work: a bucket must be able to hold one
// event more than its capacity within MaxSpan.
func (l Limit) Check() error {
	switch {
	case l.Capacity < 0:
		return errors.New("capacity is negative")
	case l.Leak <= 0:
		return errors.New("leak is not positive")
	case span(int64(l.Capacity), l.leak()) >= int64(MaxSpan)-min(l.leak(), int64(MaxSpan)):
		return fmt.Errorf("capacity × leak is longer than %d days", MaxSpan/(24*time.Hour))
	}
	return nil
}

func (l Limit) leak() int64 { return max(int64(l.Leak), 1) }

// span is the time that n events take to drain, at most MaxSpan.
func span(n, leak int64) int64 {
	hi, lo := bits.Mul64(uint64(max(n, 0)), uint64(leak))
	if hi != 0 || lo > uint64(MaxSpan) {
		return int64(MaxSpan)
	}
	return int64(lo)
}

// events is how many events of leak a span is, begun ones counting whole.
func events(span, leak int64) int { return int((span + leak - 1) / leak) }

func clamp(at int64) int64 { return min(max(at, -maxAt), maxAt) }
