package scan

import "time"

const daySec = 86400

// resolve turns what was read into Unix nanoseconds.
func (s *stamp) resolve(ref int64, loc *time.Location) (int64, bool) {
	if s.absolute {
		return s.unix*1e9 + s.nano, true
	}
	if s.hour > 23 || s.minute > 59 || s.sec > 60 {
		return 0, false
	}
	if s.short {
		s.year += 2000
	}
	if s.either && s.day <= 12 && s.month <= 12 {
		s.chooseOrder(ref)
	}
	sec, ok := s.near(ref, loc)
	return sec*1e9 + s.nano, ok
}

// near finds the year where there is none, or 0000: the latest one in which the date
// exists and is not more than a day after ref.
func (s *stamp) near(ref int64, loc *time.Location) (int64, bool) {
	if s.month < 1 || s.month > 12 || s.day < 1 || s.day > 31 {
		return 0, false
	}
	if s.year > 0 || s.short {
		if s.year < 1900 || s.day > daysIn(s.year, s.month) {
			return 0, false
		}
		return s.seconds(s.year, ref, loc), true
	}
	year := yearOf(ref / 1e9)
	if s.month == 1 {
		year++
	}
	limit := ref/1e9 + daySec
	for last := year - 9; year > last; year-- {
		if s.day > daysIn(year, s.month) {
			continue
		}
		if t := s.seconds(year, ref, loc); t <= limit {
			return t, true
		}
	}
	return 0, false
}

// chooseOrder swaps day and month when the other order is nearer before ref.
func (s *stamp) chooseOrder(ref int64) {
	limit := ref/1e9 + daySec
	a := daysFromCivil(s.year, s.month, s.day) * daySec
	b := daysFromCivil(s.year, s.day, s.month) * daySec
	if b <= limit && (a > limit || b > a) {
		s.month, s.day = s.day, s.month
	}
}

// seconds gives the Unix time of the stamp in year.
func (s *stamp) seconds(year int, ref int64, loc *time.Location) int64 {
	t := daysFromCivil(year, s.month, s.day)*daySec + int64(s.hour*3600+s.minute*60+s.sec)
	if s.zoned && s.abbr == nil {
		return t - int64(s.offset)
	}
	if s.zoned {
		if name, off := zoneAt(t-int64(s.offset), loc); name == string(s.abbr) {
			return t - int64(off)
		}
		return t - int64(s.offset)
	}
	return local(t, ref/1e9, loc)
}

// local turns local seconds into Unix seconds. When clocks were set back and
// the hour came twice, it takes the later one that is not after ref; a time
// that was skipped is read by the offset before it.
func local(t, ref int64, loc *time.Location) int64 {
	if loc == nil || loc == time.UTC {
		return t
	}
	_, before := zoneAt(t-daySec/2, loc)
	_, after := zoneAt(t+daySec/2, loc)
	early, late := t-int64(before), t-int64(after)
	if before == after {
		return early
	}
	if _, off := zoneAt(late, loc); off != after {
		return early
	}
	if _, off := zoneAt(early, loc); off != before {
		return late
	}
	if late <= ref+60 {
		return late
	}
	return early
}

func zoneAt(unix int64, loc *time.Location) (string, int) {
	if loc == nil {
		return "UTC", 0
	}
	return time.Unix(unix, 0).In(loc).Zone()
}

// daysFromCivil counts days from 1970-01-01, by the shifted calendar whose
// years begin in March.
func daysFromCivil(y, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := y / 400
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	return int64(era*146097+yoe*365+yoe/4-yoe/100+doy) - 719468
}

// yearOf gives the year of a Unix time in UTC.
func yearOf(unix int64) int {
	days := unix / daySec
	if unix%daySec < 0 {
		days--
	}
	y := int(days*400/146097) + 1970
	for daysFromCivil(y, 1, 1) > days {
		y--
	}
	for daysFromCivil(y+1, 1, 1) <= days {
		y++
	}
	return y
}

func daysIn(y, m int) int {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
