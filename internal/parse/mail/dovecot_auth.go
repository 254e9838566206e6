package mail

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// dovecotPassdb reads what the auth process says of a user:
//
//	pam(user,a): unknown user
//	sql(user,a,<session>): Password mismatch
//	auth(user,a,sasl:login)<session>: Info: sql: Password mismatch
//
// User and, where passwords are logged, what follows are the client's. So each
// place where an identity could end is looked at, also before a message that
// is not known here; two that tell different addresses mean none.
func dovecotPassdb(msg []byte, ev *event.Event) bool {
	var first netip.Addr
	found := false
	open := bytes.IndexByte(msg, '(')
	if open < 0 {
		return false
	}
	for off := open + 1; off < len(msg); {
		i := bytes.IndexByte(msg[off:], ')')
		if i < 0 {
			break
		}
		off += i
		id, ok := dovecotIdentity(msg, off)
		off++
		if !ok {
			continue
		}
		if first.IsValid() && id.addr != first {
			*ev = event.Event{Time: ev.Time, Verified: ev.Verified, Message: ev.Message, Fields: ev.Fields[:0]}
			return false
		}
		first = id.addr
		if id.verdict && !found {
			ev.Set("dovecot", event.Failure, id.kind, id.addr)
			id.name(msg, ev)
			found = true
		}
	}
	return found
}

type dovecotID struct {
	addr    netip.Addr
	kind    event.Kind
	verdict bool // a message that is known here follows
	at      int  // where ",a" begins
	session []byte
}

// name fills the user and the connection.
func (id *dovecotID) name(msg []byte, ev *event.Event) {
	head := msg[:id.at]
	if i := bytes.IndexByte(head, '('); i >= 0 {
		if _, m, ok := scan.Cut(head, "auth-worker<"); ok { // "conn unix:auth-worker (uid=143): auth-worker<13>: sql(user"
			if j := bytes.IndexByte(m, '('); j >= 0 {
				i = len(head) - len(m) + j
			}
		}
		ev.User = head[i+1:]
	}
	if len(id.session) > 0 {
		ev.Conn, ev.Class = event.ConnID("dovecot", id.session), dovecotAuth
		return
	}
	joinUser(ev, dovecotAuth)
}

// dovecotIdentity reads the identity that ends with the parenthesis at closing,
// and the message behind it. It looks at a bounded part of either.
func dovecotIdentity(msg []byte, closing int) (id dovecotID, ok bool) {
	rest := msg[closing+1:]
	if s, ok := scan.After(rest, "<"); ok {
		if id.session, rest, ok = scan.CutNear(s, ">", 66); !ok {
			return id, false
		}
	}
	m, ok := scan.After(rest, ": ")
	if !ok {
		return id, false
	}
	id.kind, id.verdict = dovecotVerdict(m)
	head := msg[:closing]
	for range 3 { // from the right: session, mechanism, address
		i := lastComma(head)
		if i < 0 {
			return id, false
		}
		part := head[i+1:]
		head = head[:i]
		if a, ok := scan.Addr(part); ok {
			id.addr, id.at = a, i
			return id, true
		}
		if s, ok := scan.After(part, "<"); ok {
			id.session, ok = scan.Before(s, ">")
			if !ok {
				return id, false
			}
		} else if _, ok := scan.After(part, "sasl:"); !ok {
			return id, false
		}
	}
	return id, false
}

// lastComma finds the comma before the last part of an identity: no address
// and no session id is longer than what it looks at.
func lastComma(b []byte) int {
	from := max(0, len(b)-72)
	if i := bytes.LastIndexByte(b[from:], ','); i >= 0 {
		return from + i
	}
	return -1
}

// dovecotVerdict reads the message behind an identity.
func dovecotVerdict(m []byte) (event.Kind, bool) {
	m, _ = scan.After(m, "Info: ")
	if db, rest, ok := scan.CutNear(m, ": ", 20); ok && dovecotDriver(db) {
		m = rest
	}
	for i := range dovecotVerdicts {
		if rest, ok := scan.After(m, dovecotVerdicts[i].text); ok {
			if scan.HasPrefix(rest, "User not known") {
				return event.UnknownUser, true
			}
			return dovecotVerdicts[i].kind, true
		}
	}
	return event.Plain, false
}

func dovecotDriver(b []byte) bool {
	return scan.OneOf(b, "sql", "pam", "ldap", "passwd-file", "passwd", "shadow", "lua", "static", "dict", "bsdauth",
		"checkpassword", "imap", "oauth2", "policy", "vpopmail", "cache")
}

var dovecotVerdicts = []struct {
	text string
	kind event.Kind
}{
	{"unknown user", event.UnknownUser},
	{"Unknown user", event.UnknownUser},
	{"Password mismatch", event.Plain},
	{"password mismatch", event.Plain},
	{"pam_authenticate() failed: ", event.Plain},
	{"pam_acct_mgmt() failed: ", event.Plain},
	{"invalid credentials", event.Plain},
	{"Invalid credentials", event.Plain},
	{"Invalid password", event.Plain},
	{"Empty password", event.Plain},
	{"Login attempted with empty password", event.Plain},
	{"user not found", event.UnknownUser},
	{"Username character disallowed by auth_username_chars", event.Plain},
	{"Empty username", event.Plain},
	{"Attempted login with password having illegal chars", event.Plain},
	{"Login failed (status=", event.Plain}, // db-checkpassword.c
	{"Authentication failure due to policy server refusal", event.Forbidden},
	{"allow_nets check failed", event.Forbidden},
	{"Login not permitted", event.Forbidden},
	{"login failed", event.Plain},
	{"Authentication failed", event.Plain},
	{"authentication failed", event.Plain},
}
