package web

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"
)

// draft is an order that was filled in but not carried out: it comes back as
// a form to look over, never by itself.
type draft struct {
	Do     string // block, unblock, allow, disallow, flag/set, flag/clear; "" = none
	Target string // an address or prefix, or a flag's name
	TTL    string // seconds, one of the choices
	Reason string
}

// maxField bounds what a form's field may hold.
const maxField = 500

// trimmed is a field of a form or query without blanks around it, bounded,
// and without what cannot be seen: nobody types that.
func trimmed(r *http.Request, name string) string {
	s := strings.TrimSpace(r.FormValue(name))
	s = strings.ToValidUTF8(s[:min(len(s), maxField)], "")
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, s)
}

func draftOf(r *http.Request) draft {
	d := draft{Do: trimmed(r, "do"), Target: trimmed(r, "target"), TTL: trimmed(r, "ttl"), Reason: trimmed(r, "reason")}
	switch d.Do {
	case "block", "unblock", "allow", "disallow", "flag/set", "flag/clear":
		return d
	}
	return draft{}
}

// OfFlag reports whether the order is of a flag.
func (d draft) OfFlag() bool { return strings.HasPrefix(d.Do, "flag/") }

// URL is the page that shows the draft again.
func (d draft) URL() string {
	if d.Do == "" {
		return "/"
	}
	q := url.Values{"do": {d.Do}, "target": {d.Target}, "ttl": {d.TTL}, "reason": {d.Reason}}
	if d.OfFlag() {
		return "/?" + q.Encode() + "#flags"
	}
	q.Set("addr", d.Target)
	return "/look?" + q.Encode()
}

// In words, for people.
func (d draft) String() string {
	words := map[string]string{"block": "Block", "unblock": "Unblock", "allow": "Allow", "disallow": "Stop allowing", "flag/set": "Set flag", "flag/clear": "Clear flag"}
	return words[d.Do] + " " + d.Target
}
