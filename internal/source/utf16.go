package source

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is how the text of a file is encoded. SQL Server and other programs
// from Windows write UTF-16. Positions are in the file's bytes in any case; lines
// are handed on in UTF-8.
type encoding int

const (
	utf8Text encoding = iota // or any other in which a newline is one byte
	utf16LE
	utf16BE
)

// encodingOf tells the encoding of a file by its start: a byte order mark, or
// four characters of ASCII in UTF-16, for the mark is gone once the log was
// truncated in place.
func encodingOf(head []byte) encoding {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return utf16LE
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return utf16BE
	case len(head) < 8:
		return utf8Text
	}
	little, big := true, true
	for i := 0; i < 8; i += 2 {
		little = little && isText(head[i]) && head[i+1] == 0
		big = big && head[i] == 0 && isText(head[i+1])
	}
	switch {
	case little:
		return utf16LE
	case big:
		return utf16BE
	}
	return utf8Text
}

func isText(c byte) bool { return c >= ' ' && c < 0x7f || c == '\t' || c == '\r' || c == '\n' }

// newline is the offset of the first newline in b and of what follows it, -1
// when there is none. odd says that b begins within a character of UTF-16.
func (e encoding) newline(b []byte, odd bool) (at, next int) {
	if e == utf8Text {
		at = bytes.IndexByte(b, '\n')
		return at, at + 1
	}
	low := 0 // of the two bytes, which one holds the newline
	if e == utf16BE {
		low = 1
	}
	if odd {
		low ^= 1
	}
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return -1, 0
		}
		i += from
		from = i + 1
		if i&1 != low {
			continue
		}
		if e == utf16LE && i+1 < len(b) && b[i+1] == 0 {
			return i, i + 2
		}
		if e == utf16BE && i > 0 && b[i-1] == 0 {
			return i - 1, i + 1
		}
	}
}

// lastLine is the offset of what follows the last newline in b, -1 when there is
// none.
func (e encoding) lastLine(b []byte) int {
	if e == utf8Text {
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return i + 1
		}
		return -1
	}
	last := -1
	for from := 0; ; {
		at, next := e.newline(b[from:], false)
		if at < 0 {
			return last
		}
		from += next
		last = from
	}
}

// unitSize is how many bytes the smallest character takes.
func (e encoding) unitSize() int64 {
	if e == utf8Text {
		return 1
	}
	return 2
}

// whole is n without half a character.
func (e encoding) whole(n int64) int64 {
	if e == utf8Text {
		return n
	}
	return n &^ 1
}

// text is b in UTF-8, b itself when it is that, without a byte order mark. Half a
// character at the end is dropped; half a surrogate pair becomes U+FFFD.
func (e encoding) text(b []byte) []byte {
	if e == utf8Text {
		return b
	}
	out := make([]byte, 0, len(b)/2+8)
	for i := 0; i+1 < len(b); i += 2 {
		r := e.unit(b[i:])
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+3 < len(b) {
				pair = utf16.DecodeRune(r, e.unit(b[i+2:]))
			}
			if pair != utf8.RuneError {
				i += 2
			}
			r = pair
		}
		if r != '\ufeff' || i > 0 {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func (e encoding) unit(b []byte) rune {
	if e == utf16BE {
		return rune(b[0])<<8 | rune(b[1])
	}
	return rune(b[1])<<8 | rune(b[0])
}
