package web

import (
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// What applications say of a login in the message of a structured record. Who
// it is about stands in a field of its own, so that a message which a client
// can choose words of decides nothing but how its own attempt is counted.

var failureWords = [...]string{
	"login failed", "failed login", "failed to login", "failed to log in", "login_failed",
	"login attempt failed", "authentication failed", "authentication failure",
	"failed authentication", "failed to authenticate", "invalid username or password",
	"invalid user name or password", "invalid password", "invalid credentials", "bad credentials",
	"incorrect password", "wrong password", "wrong username or password", "unsuccessful ", "user.login.failed",
	"password mismatch", "auth failed", "usually indicates they do not exist",
}

var unknownWords = [...]string{
	"user not found", "unknown user", "no such user", "user does not exist", "they do not exist",
}

// said returns what the message, the error or the event's name say.
func (r *entry) said() event.Outcome {
	for _, s := range [...]slot{slotMessage, slotError, slotEvent} {
		if holdsAny(r.vals[s], failureWords[:]) {
			return event.Failure
		}
	}
	if ok := r.vals[slotSuccess]; ok != nil && holdsAny(r.vals[slotEvent], []string{"login", "auth"}) {
		switch string(ok) {
		case "false":
			return event.Failure
		case "true":
			return event.Success
		}
	}
	return event.Other
}

func (r *entry) unknownUser() bool {
	return holdsAny(r.vals[slotMessage], unknownWords[:]) || holdsAny(r.vals[slotError], unknownWords[:])
}

// holdsAny looks for lower-case words in the first 200 bytes, in any case.
func holdsAny(text []byte, words []string) bool {
	if len(text) == 0 {
		return false
	}
	var buf [200]byte
	n := copy(buf[:], text)
	for i, c := range buf[:n] {
		if c-'A' <= 25 {
			buf[i] = c | 0x20
		}
	}
	for _, w := range words {
		if scan.Has(buf[:n], w) {
			return true
		}
	}
	return false
}
