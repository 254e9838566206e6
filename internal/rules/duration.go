package rules

import (
	"errors"
	"math"
	"strconv"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// maxDurationText bounds what ParseDuration looks at.
const maxDurationText = 32

var units = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute,
	"h": time.Hour, "d": day, "w": week,
}

var errDuration = errors.New("write durations as 90s, 10m, 1h30m, 7d or 2w")

// ParseDuration reads 250ms, 90s, 10m, 1h30m, 7d, 2w: whole numbers, each with
// its unit, the larger units first. A day is 24 hours. Zero is "0s".
func ParseDuration(text string) (time.Duration, error) {
	if text == "" || len(text) > maxDurationText {
		return 0, errDuration
	}
	var sum time.Duration
	last := time.Duration(math.MaxInt64)
	for rest := text; rest != ""; {
		n, unit, after := cutTerm(rest)
		scale, ok := units[unit]
		if !ok || n < 0 || scale >= last {
			return 0, errDuration
		}
		if n > int64((math.MaxInt64-sum)/scale) {
			return 0, errors.New("longer than 292 years")
		}
		sum += time.Duration(n) * scale
		last, rest = scale, after
	}
	return sum, nil
}

// cutTerm splits "90s…" into 90, "s" and the rest; n is -1 when text does not
// begin with a number.
func cutTerm(text string) (n int64, unit, rest string) {
	i := span(text, func(c byte) bool { return c >= '0' && c <= '9' })
	n, err := strconv.ParseInt(text[:i], 10, 64)
	if err != nil {
		return -1, "", ""
	}
	text = text[i:]
	i = span(text, func(c byte) bool { return c >= 'a' && c <= 'z' })
	return n, text[:i], text[i:]
}

func span(s string, in func(byte) bool) int {
	i := 0
	for i < len(s) && in(s[i]) {
		i++
	}
	return i
}

// FormatDuration writes d as ParseDuration reads it: 7d, 1h30m, 250ms.
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	var out []byte
	for _, u := range [...]string{"d", "h", "m", "s", "ms"} {
		if n := d / units[u]; n > 0 {
			out = strconv.AppendInt(out, int64(n), 10)
			out = append(out, u...)
			d -= n * units[u]
		}
	}
	if len(out) == 0 {
		return "0s" // below a millisecond
	}
	return string(out)
}
