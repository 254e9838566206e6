package auth

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// pureftpd reads "(user@a) [WARNING] Authentication failed for user [x]" of
// Pure-FTPd (src/ftpd.c, logfile()). Before the login the user is "?", and
// with DontResolve the peer is an address. The text is translated at compile
// time, so a warning that ends with a user in brackets is a failure.
func pureftpd(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, "(")
	if !ok {
		return false
	}
	head, m, ok := scan.Cut(m, ") [")
	at := bytes.LastIndexByte(head, '@')
	if !ok || at < 0 {
		return false
	}
	a, ok := scan.Addr(head[at+1:])
	level, m, ok2 := scan.Cut(m, "] ")
	if !ok || !ok2 {
		return false
	}
	ev.Set("pure-ftpd", event.Other, event.Plain, a)
	m = scan.TrimTimes(m)
	switch string(level) {
	case "WARNING":
		pureftpdWarning(m, env.Hint != "" || string(head[:at]) == "?", ev)
	case "INFO", "NOTICE":
		if user, ok := scan.Before(m, " is now logged in"); ok {
			ev.User, ev.Outcome = user, event.Success
		}
	case "ERROR":
		if scan.HasAny(m, "Too many connections", "too many authentication failures", "Too many authentication failures") {
			ev.Outcome, ev.Kind = event.Failure, event.Limited
		}
	}
	return true
}

func pureftpdWarning(m []byte, before bool, ev *event.Event) {
	user, ok := scan.After(m, "Authentication failed for user ")
	if ok {
		ev.Outcome = event.Failure
		if u, ok := scan.After(user, "["); ok {
			ev.User, _ = scan.Before(u, "]")
		}
		return
	}
	head, closed := scan.Before(m, "]")
	if _, user, ok := scan.Cut(head, " ["); closed && before && ok {
		ev.User, ev.Outcome = user, event.Failure
	}
}
