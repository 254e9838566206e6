package record

import (
	"bytes"
	"unicode/utf8"
)

// Unescape appends v to dst with the escapes of JSON (RFC 8259, section 7),
// and \xHH, replaced by what they stand for. An escape that is none is kept.
func Unescape(dst, v []byte) []byte {
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			dst = append(dst, v[i])
			continue
		}
		i++
		switch c := v[i]; c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case '"', '\\', '/':
			dst = append(dst, c)
		case 'x':
			if h, ok := hexOf(v, i+1, 2); ok {
				dst = append(dst, byte(h))
				i += 2
				continue
			}
			dst = append(dst, '\\', c)
		case 'u':
			r, n := unicodeEscape(v, i+1)
			if n == 0 {
				dst = append(dst, '\\', c)
				continue
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		default:
			dst = append(dst, '\\', c)
		}
	}
	return dst
}

// unicodeEscape reads the digits of \uXXXX at v[i], and the second half of a
// surrogate pair behind them; n is how many bytes it took, 0 for none.
func unicodeEscape(v []byte, i int) (r rune, n int) {
	h, ok := hexOf(v, i, 4)
	if !ok {
		return 0, 0
	}
	if h < 0xd800 || h > 0xdbff {
		return h, 4
	}
	if i+6 <= len(v) && v[i+4] == '\\' && v[i+5] == 'u' {
		if low, ok := hexOf(v, i+6, 4); ok && low >= 0xdc00 && low <= 0xdfff {
			return (h-0xd800)<<10 + (low - 0xdc00) + 0x10000, 10
		}
	}
	return utf8.RuneError, 4
}

func hexOf(v []byte, i, n int) (rune, bool) {
	if i+n > len(v) {
		return 0, false
	}
	r := rune(0)
	for _, c := range v[i : i+n] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case (c|0x20)-'a' <= 5:
			c = (c | 0x20) - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Text is a string's value without its escapes. What had some is appended to
// *memory, else it aliases v.
func Text(v []byte, memory *[]byte) []byte {
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return v
	}
	start := len(*memory)
	*memory = Unescape(append(*memory, v[:i]...), v[i:])
	return (*memory)[start:len(*memory):len(*memory)]
}
