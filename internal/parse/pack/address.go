package pack

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/scan"
)

// span is an address and where in a text it stands, with its port or brackets
// or without: several spans may tell of one address.
type span struct {
	addr     netip.Addr
	from, to int
}

// maxSpans bounds the addresses of a text that are looked at. A text with more
// is somebody's game and matches nothing.
const maxSpans = 32

// maxWord is the length of the longest address with brackets and port, and
// some: a longer word is none, nor is any part of it.
const maxWord = 64

// addresses appends the addresses that stand in text to spans, the longest
// span of each first. ok is false when there are more than fit.
func addresses(text []byte, spans []span) (_ []span, ok bool) {
	for i := 0; i < len(text); {
		if !mayStart(text, i) {
			i++
			continue
		}
		n := len(spans)
		end := wordEnd(text, i)
		if end-i > maxWord {
			i = end
			continue
		}
		spans = at(text, i, end, spans)
		if len(spans) > maxSpans-4 {
			return nil, false
		}
		if len(spans) == n {
			i = skipWord(text, i)
			continue
		}
		i = spans[n].to
	}
	return spans, true
}

// mayStart reports whether an address may begin at i: nothing before it
// continues it to the left.
func mayStart(text []byte, i int) bool {
	c := text[i]
	if !hexDigit(c) && c != '[' && c != ':' {
		return false
	}
	return i == 0 || c == '[' || !alnum(text[i-1]) && text[i-1] != '.'
}

// skipWord returns where the next address may begin after one at i did not:
// behind the letters and digits there, if it was a word.
func skipWord(text []byte, i int) int {
	word := alnum(text[i])
	for i++; word && i < len(text) && alnum(text[i]); i++ {
	}
	return i
}

// at appends the spans of the address that begins the word from i to end, if
// one does.
func at(text []byte, i, end int, spans []span) []span {
	var whole netip.Addr
	if a, ok := scan.AddrPort(text[i:end]); ok {
		whole = a
		spans = append(spans, span{a, i, end})
	}
	spans = cutPort(text, i, end, spans)
	a, rest, ok := scan.AddrPrefix(text[i:])
	if !ok || whole.IsValid() && whole != a {
		return spans
	}
	stop := len(text) - len(rest)
	if !whole.IsValid() || stop != end {
		spans = append(spans, span{a, i, stop})
	}
	if text[i] == '[' {
		spans = append(spans, span{a, i + 1, stop - 1})
		spans = cutPort(text, i+1, stop-1, spans)
	}
	return spans
}

// cutPort appends the IPv6 address of a word whose last group may as well be a
// port, as in 2001:db8::1:4489. A pattern takes it only where it asks for the
// port, and then not the whole word.
func cutPort(text []byte, i, end int, spans []span) []span {
	colon := bytes.LastIndexByte(text[i:end], ':') + i
	if colon <= i || !scan.Digits(text[colon+1:end]) || end-colon > 6 {
		return spans
	}
	if a, ok := scan.Addr(text[i:colon]); ok && a.Is6() {
		spans = append(spans, span{a, i, colon})
	}
	return spans
}

// wordEnd returns the end of what looks like an address with a port at i,
// without the full stop or colon of the sentence around it.
func wordEnd(text []byte, i int) int {
	end := i
	if text[i] == '[' {
		for end++; end < len(text) && (addrByte(text[end]) || text[end] == ']'); end++ {
		}
	}
	for end < len(text) && addrByte(text[end]) {
		end++
	}
	for end > i && (text[end-1] == '.' || text[end-1] == ':' && !twoColons(text[i:end])) {
		end--
	}
	return end
}

// twoColons reports whether b ends in "::", which belongs to an address.
func twoColons(b []byte) bool { return len(b) > 1 && b[len(b)-2] == ':' }

func addrByte(c byte) bool {
	return hexDigit(c) || c == '.' || c == ':' || c == '#'
}

func hexDigit(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 5 }

func alnum(c byte) bool { return c-'0' <= 9 || (c|0x20)-'a' <= 25 }
