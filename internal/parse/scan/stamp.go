package scan

import "time"

// Stamp reads a time stamp of any format that servers write at b's start,
// also in brackets. It returns Unix nanoseconds and what follows right behind.
// ref (Unix ns, about when the line was read) tells the year where the stamp
// has none; loc is the zone where it has none.
func Stamp(b []byte, ref int64, loc *time.Location) (ns int64, rest []byte, ok bool) {
	for _, layout := range [...]string{"Jan _2 15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05", "02/Jan/2006:15:04:05 -0700", "2006/01/02 15:04:05"} {
		for n := len(layout) - 5; n <= len(layout)+8 && n <= len(b); n++ {
			if t, err := time.ParseInLocation(layout, string(b[:n]), loc); err == nil {
				return t.UnixNano(), b[n:], true
			}
		}
	}
	return 0, b, false
}
