package parse

import (
	"bytes"
	"net/netip"

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
func dovecotPassdb(msg []byte, ev *Event) bool {
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
			*ev = Event{Time: ev.Time, Verified: ev.Verified, Message: ev.Message, Fields: ev.Fields[:0]}
			return false
		}
		first = id.addr
		if id.verdict && !found {
			tell(ev, "dovecot", Failure, id.kind, id.addr)
			id.name(msg, ev)
			found = true
		}
	}
	return found
}

type dovecotID struct {
	addr    netip.Addr
	kind    Kind
	verdict bool // a message that is known here follows
	at      int  // where ",a" begins
	session []byte
}

// name fills the user and the connection.
func (id *dovecotID) name(msg []byte, ev *Event) {
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
		ev.Conn, ev.Class = ConnID("dovecot", id.session), dovecotAuth
		return
	}
	joinUser(ev, dovecotAuth)
}

// dovecotIdentity reads the identity that ends with the parenthesis at closing,
// and the message behind it. It looks at a bounded part of either.
func dovecotIdentity(msg []byte, closing int) (id dovecotID, ok bool) {
	rest := msg[closing+1:]
	if s, ok := scan.After(rest, "<"); ok {
		if id.session, rest, ok = cutNear(s, ">", 66); !ok {
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
func dovecotVerdict(m []byte) (Kind, bool) {
	m, _ = scan.After(m, "Info: ")
	if db, rest, ok := cutNear(m, ": ", 20); ok && dovecotDriver(db) {
		m = rest
	}
	for i := range dovecotVerdicts {
		if rest, ok := scan.After(m, dovecotVerdicts[i].text); ok {
			if hasPrefix(rest, "User not known") {
				return UnknownUser, true
			}
			return dovecotVerdicts[i].kind, true
		}
	}
	return Plain, false
}

func dovecotDriver(b []byte) bool {
	return oneOf(b, "sql", "pam", "ldap", "passwd-file", "passwd", "shadow", "lua", "static", "dict", "bsdauth",
		"checkpassword", "imap", "oauth2", "policy", "vpopmail", "cache")
}

var dovecotVerdicts = []struct {
	text string
	kind Kind
}{
	{"unknown user", UnknownUser},
	{"Unknown user", UnknownUser},
	{"Password mismatch", Plain},
	{"password mismatch", Plain},
	{"pam_authenticate() failed: ", Plain},
	{"pam_acct_mgmt() failed: ", Plain},
	{"invalid credentials", Plain},
	{"Invalid credentials", Plain},
	{"Invalid password", Plain},
	{"Empty password", Plain},
	{"Login attempted with empty password", Plain},
	{"user not found", UnknownUser},
	{"Username character disallowed by auth_username_chars", Plain},
	{"Empty username", Plain},
	{"Attempted login with password having illegal chars", Plain},
	{"Login failed (status=", Plain}, // db-checkpassword.c
	{"Authentication failure due to policy server refusal", Forbidden},
	{"allow_nets check failed", Forbidden},
	{"Login not permitted", Forbidden},
	{"login failed", Plain},
	{"Authentication failed", Plain},
	{"authentication failed", Plain},
}
