package daemon

import (
	"time"

	"stoplog/internal/rules"
)

// slack is less than what a clock is set back by when it is set; what a time
// service corrects bit by bit is below it.
const slack = time.Second

// clock notices that the machine's clock was set back: a kernel counts a
// block's time by a clock that nobody sets, the ledger by this one.
type clock struct {
	now  time.Time     // when it was looked at last
	runs time.Duration // how long we had run then
}

// setBack is by how much the clock was set back since the last call, 0 when it
// was not. runs is how long we run by the clock that nobody sets.
func (c *clock) setBack(now time.Time, runs time.Duration) time.Duration {
	last := *c
	*c = clock{now.Round(0), runs} // without the reading of the other clock
	by := runs - last.runs - c.now.Sub(last.now)
	if last.now.IsZero() || by < slack {
		return 0
	}
	return by
}

// followClock lets blocks end when they were to end by the clock before. The
// snapshot is written at once: the journal has the old time.
func (d *daemon) followClock(by time.Duration, now time.Time) {
	d.log.Warn("the clock was set back; blocks, flags and lockdowns keep their length", "by", rules.FormatDuration(by.Round(time.Second)))
	if err := d.ledger.SetBack(by, now); err != nil {
		d.note("flags: " + err.Error())
	}
	d.showAll(now)
	d.tellPolicy()
	d.save(now)
}
