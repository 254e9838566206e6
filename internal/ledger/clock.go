package ledger

import "time"

// SetBack moves blocks, flags, the lockdown and pardons back by as much as the
// clock was set back at now, the new time: else what has ended would stand
// again, and what stands last longer than it was to. What is remembered for
// days (known-good logins, offences, allowances) keeps its time. Until recovery
// is done it does nothing, for the lines that are read until then have the old
// time. The error is of flag files that could not be written.
func (l *Ledger) SetBack(by time.Duration, now time.Time) error {
	if l.recovering || by <= 0 {
		return nil
	}
	for r := range l.blocks.all() {
		r.setBack(by)
	}
	for i := range l.ends {
		l.ends[i].at -= int64(by)
	}
	for k := range l.forgiven {
		l.forgiven[k] -= int64(by)
	}
	if !l.lockdown.Until.IsZero() {
		l.lockdown.Since, l.lockdown.Until = l.lockdown.Since.Add(-by), l.lockdown.Until.Add(-by)
	}
	l.flags.setBack(by)
	return l.flags.writeAll(now.UnixNano())
}

func (f *flags) setBack(by time.Duration) {
	f.seen -= int64(by)
	for _, spans := range f.by {
		for i := range spans {
			spans[i].Since, spans[i].Until = spans[i].Since.Add(-by), spans[i].Until.Add(-by)
		}
	}
}
