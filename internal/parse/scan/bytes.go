package scan

import "bytes"

func digit(c byte) bool { return c-'0' <= 9 }

func hexDigit(c byte) bool { return digit(c) || (c|0x20)-'a' <= 5 }

func hexValue(c byte) byte {
	if digit(c) {
		return c - '0'
	}
	return (c | 0x20) - 'a' + 10
}

// nameByte reports whether c can be part of a host name or address word.
func nameByte(c byte) bool {
	return digit(c) || (c|0x20)-'a' <= 25 || c == '-' || c == '_'
}

// Cut splits b around the first sep.
func Cut(b []byte, sep string) (before, after []byte, ok bool) {
	if i := Index(b, sep); i >= 0 {
		return b[:i], b[i+len(sep):], true
	}
	return b, nil, false
}

// Last splits b around the last sep.
func Last(b []byte, sep string) (before, after []byte, ok bool) {
	if len(sep) == 0 {
		return b, nil, false
	}
	for i := len(b) - len(sep); i >= 0; i-- {
		j := bytes.LastIndexByte(b[:i+1], sep[0])
		if j < 0 {
			break
		}
		if string(b[j:j+len(sep)]) == sep {
			return b[:j], b[j+len(sep):], true
		}
		i = j
	}
	return b, nil, false
}

// Index is bytes.Index for a sep that is a string.
func Index(b []byte, sep string) int {
	if len(sep) == 0 {
		return 0
	}
	for off := 0; off+len(sep) <= len(b); {
		i := bytes.IndexByte(b[off:len(b)-len(sep)+1], sep[0])
		if i < 0 {
			return -1
		}
		off += i
		if string(b[off:off+len(sep)]) == sep {
			return off
		}
		off++
	}
	return -1
}

// Has reports whether sep occurs in b.
func Has(b []byte, sep string) bool { return Index(b, sep) >= 0 }

// After returns what follows prefix at b's start.
func After(b []byte, prefix string) (rest []byte, ok bool) {
	if len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix {
		return b[len(prefix):], true
	}
	return b, false
}

// Before returns what stands before suffix at b's end.
func Before(b []byte, suffix string) (head []byte, ok bool) {
	if n := len(b) - len(suffix); n >= 0 && string(b[n:]) == suffix {
		return b[:n], true
	}
	return b, false
}

// Word splits off the bytes up to the first space; rest begins behind it.
func Word(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// LastWord splits off the bytes behind the last space.
func LastWord(b []byte) (head, word []byte) {
	if i := bytes.LastIndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return nil, b
}

// Uint reads the decimal digits at b's start, at most 18 of them.
func Uint(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && digit(b[i]) {
		if i == 18 {
			return 0, b, false
		}
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	return v, b[i:], i > 0
}

// Digits reports whether b is one or more decimal digits.
func Digits(b []byte) bool {
	for _, c := range b {
		if !digit(c) {
			return false
		}
	}
	return len(b) > 0
}

// TrimLeft drops spaces and tabs at b's start.
func TrimLeft(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// Trim drops spaces and tabs at both ends.
func Trim(b []byte) []byte {
	b = TrimLeft(b)
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

// FoldEqual reports whether b is s but for the case of ASCII letters; s is in
// lower case.
func FoldEqual(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		c := b[i]
		if c-'A' <= 25 {
			c |= 0x20
		}
		if c != s[i] {
			return false
		}
	}
	return true
}
