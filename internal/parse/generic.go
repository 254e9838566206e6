package parse

import (
	"net/netip"

	"stoplog/internal/parse/scan"
)

// generic is the last resort for the messages of programs that nobody knows. It
// reads those that consist of nothing but words of a fixed vocabulary and an
// address at the end: "[WORD: ]Login failed from ADDR[ port N]". There is no
// user in it, nor anything else that a client could have chosen, and whatever
// more a message holds leaves it unread. The service is "generic", so that only
// rules that ask for it, or for no service at all, count such lines.
func generic(msg []byte, ev *Event) bool {
	head, a, ok := genericEnd(msg)
	if !ok || len(head) > 96 {
		return false
	}
	if name, rest, ok := scan.Cut(head, ": "); ok {
		if !genericName(name) {
			return false
		}
		head = rest
	}
	if !genericWords(head) {
		return false
	}
	ev.Service, ev.Outcome, ev.Addr = "generic", Failure, a
	return true
}

// genericEnd splits "… from ADDR[ port N]".
func genericEnd(b []byte) (head []byte, a netip.Addr, ok bool) {
	head, tok := scan.LastWord(b)
	if scan.Digits(tok) {
		if h, port := scan.Before(head, " port"); port {
			head, tok = scan.LastWord(h)
		}
	}
	if head, ok = scan.Before(head, " from"); !ok {
		return nil, a, false
	}
	a, ok = scan.AddrPort(tok)
	return head, a, ok
}

// genericName reports whether b can be what a program calls itself or a part of
// itself.
func genericName(b []byte) bool {
	for _, c := range b {
		if c == ' ' || !scan.TagByte(c) || c >= 0x80 {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 32
}

// genericWords reports whether b is only words of the vocabulary, of which at
// least one says that something went wrong.
func genericWords(b []byte) bool {
	bad := false
	for n := 0; len(b) > 0; n++ {
		word, rest := scan.Word(b)
		switch genericWord(word) {
		case wordUnknown:
			return false
		case wordBad:
			bad = true
		}
		if n == 6 {
			return false
		}
		b = scan.TrimLeft(rest)
	}
	return bad
}

const (
	wordUnknown = iota
	wordAbout
	wordBad
)

func genericWord(w []byte) int {
	var low [16]byte
	if len(w) > len(low) {
		return wordUnknown
	}
	for i, c := range w {
		if c-'A' <= 25 {
			c |= 0x20
		}
		low[i] = c
	}
	switch string(low[:len(w)]) {
	case "authentication", "auth", "login", "logon", "password", "passwd", "access", "attempt", "attempts",
		"user", "username", "credentials", "or", "and", "too", "many":
		return wordAbout
	case "failure", "failures", "failed", "fail", "error", "errors", "invalid", "incorrect", "wrong", "bad",
		"denied", "rejected", "unauthorized", "unsuccessful":
		return wordBad
	}
	return wordUnknown
}
