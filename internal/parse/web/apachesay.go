package web

import (
	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// What modules of Apache say behind "[client A] " about somebody who was
// refused. The address is read already, so that the text, which a client can
// choose parts of, decides the outcome alone. From the modules' sources:
// aaa/mod_auth_basic.c, mod_auth_digest.c, mod_authz_core.c,
// mod_access_compat.c, mod_authz_owner.c, mod_authnz_ldap.c, ssl/ssl_engine_kernel.c,
// and those of mod_security, mod_evasive, mod_qos and suhosin.

func apacheMessage(msg []byte, ev *event.Event) {
	code, msg := apacheCode(msg)
	switch {
	case scan.HasPrefix(msg, "user "):
		apacheUser(msg[5:], ev)
	case scan.HasPrefix(msg, "Digest: "):
		apacheDigest(msg[8:], ev)
	case code >= 1774 && code <= 1794:
		apacheDigest(msg, ev)
	case scan.HasPrefix(msg, "ModSecurity: "), scan.HasPrefix(msg, "mod_security: "):
		if scan.Has(msg, "Access denied with ") || scan.Has(msg, "Access denied using ") {
			ev.Outcome, ev.Kind = event.Failure, event.Forbidden
		}
	case phpSays(msg, ev):
	default:
		apacheRefused(msg, ev)
	}
}

// phpSays reads what applications in PHP write with error_log(), which servers
// log as it is (mod_php) or as "Got error 'PHP message: …'" (FPM): Baikal's
// (Core/PDOBasicAuth.php, Core/Frameworks/Flake), ZoneMinder's
// (web/includes/auth.php, logger.php) and BookStack's (its documentation,
// Security, LOG_FAILED_LOGIN_MESSAGE).
func phpSays(msg []byte, ev *event.Event) bool {
	msg, _ = scan.After(msg, "Got error '")
	msg, _ = scan.After(msg, "PHP message: ")
	for i := range phpFailures {
		f := &phpFailures[i]
		if rest, ok := scan.After(msg, f.head); ok {
			if user, _, ok := scan.Cut(rest, f.tail); ok {
				ev.Outcome, ev.Kind, ev.User = event.Failure, f.kind, user
				return true
			}
		}
	}
	return false
}

var phpFailures = [...]struct {
	head, tail string
	kind       event.Kind
}{
	{"user ", " authentication failure for Baikal", event.Plain},
	{"WAR [Login denied for user \"", "\"]", event.Plain},
	{"ERR [Could not retrieve user ", " details]", event.UnknownUser},
	{"WAR [Could not retrieve user ", " details]", event.UnknownUser},
	{"Failed login for ", "", event.Plain},
}

// apacheCode splits off "AH01617: ".
func apacheCode(msg []byte) (code uint64, rest []byte) {
	if !scan.HasPrefix(msg, "AH") {
		return 0, msg
	}
	n, rest, ok := scan.Uint(msg[2:])
	if rest, is := scan.After(rest, ": "); ok && is {
		return n, rest
	}
	return 0, msg
}

// apacheUser reads mod_auth_basic's and mod_auth_form's messages about a user.
func apacheUser(b []byte, ev *event.Event) {
	if user, rest, ok := quotedName(b); ok && scan.HasPrefix(rest, " in realm ") {
		ev.Outcome, ev.User = event.Failure, user
		if scan.Has(rest, "' not found: ") {
			ev.Kind = event.UnknownUser
		}
		return
	}
	for _, s := range [...]struct {
		text string
		kind event.Kind
	}{
		{`: authentication failure for "`, event.Plain},
		{`: authorization failure for "`, event.Plain},
		{`: password mismatch: `, event.Plain},
		{` not found: `, event.UnknownUser},
	} {
		if user, _, ok := scan.Cut(b, s.text); ok {
			ev.Outcome, ev.Kind, ev.User = event.Failure, s.kind, bareName(user)
			return
		}
	}
	if user, _, ok := scan.Cut(b, phpFailures[0].tail); ok {
		ev.Outcome, ev.User = event.Failure, user
		return
	}
	if user, ok := scan.Before(b, " not found"); ok {
		ev.Outcome, ev.Kind, ev.User = event.Failure, event.UnknownUser, bareName(user)
		return
	}
}

// bareName drops the quotes that mod_auth_form writes.
func bareName(user []byte) []byte {
	if u, rest, ok := quotedName(user); ok && len(rest) == 0 {
		user = u
	}
	return orNone(user)
}

// quotedName reads `name' or 'name'.
func quotedName(b []byte) (name, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '`' && b[0] != '\'' {
		return nil, b, false
	}
	return scan.Cut(b[1:], "'")
}

// apacheDigest reads mod_auth_digest's messages. A nonce that is too old, or
// was made by another server, is no attempt: browsers answer it by themselves.
func apacheDigest(msg []byte, ev *event.Event) {
	if rest, ok := scan.After(msg, "user "); ok {
		apacheUser(rest, ev)
		return
	}
	switch {
	case scan.HasPrefix(msg, "realm mismatch - "), scan.HasPrefix(msg, "unknown algorithm "),
		scan.HasPrefix(msg, "invalid qop "), scan.HasPrefix(msg, "uri mismatch - "),
		scan.HasPrefix(msg, "client used wrong authentication scheme "),
		scan.HasPrefix(msg, "invalid nonce ") && (scan.Has(msg, " received - length is not ") ||
			scan.Has(msg, " received - user attempted time travel")):
		ev.Outcome = event.Failure
	}
}

// apacheRefusals are beginnings of messages about a request that was refused.
var apacheRefusals = [...]struct {
	head string
	kind event.Kind
}{
	{"client used wrong authentication scheme", event.Plain},
	{"client denied by server configuration: ", event.Forbidden},
	{"access to ", event.Forbidden},
	{"Hostname ", event.Forbidden},
	{"No hostname was provided via SNI for a name based virtual host", event.Forbidden},
	{"Certificate Verification: Error ", event.Plain},
	{"mod_qos(", event.Limited},
	{"ALERT - ", event.Forbidden},
	{"AuthExtern ", event.Plain},
	{"PAM authentication failed for user ", event.Plain},
	{"Invalid URI in request ", event.Forbidden},
	{"invalid URI path (", event.Forbidden},
}

func apacheRefused(msg []byte, ev *event.Event) {
	if rest, ok := scan.After(msg, "Authorization of user "); ok {
		if user, after, ok := scan.Cut(rest, " to access "); ok && scan.Has(after, " failed, reason: ") {
			ev.Outcome, ev.Kind, ev.User = event.Failure, event.Forbidden, orNone(user)
		}
		return
	}
	if apacheLDAP(msg, ev) || !apacheSays(msg) {
		return
	}
	for i := range apacheRefusals {
		if r := &apacheRefusals[i]; scan.HasPrefix(msg, r.head) {
			ev.Outcome, ev.Kind = event.Failure, r.kind
			return
		}
	}
	if scan.HasAny(msg[:min(len(msg), 200)], "error importing function definition for ", ": ignoring function definition attempt") {
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
	}
}

// apacheSays sorts out those messages with the beginning of a refusal that are
// none.
func apacheSays(msg []byte) bool {
	switch {
	case scan.HasPrefix(msg, "access to "):
		return scan.Has(msg, " failed, reason: ")
	case scan.HasPrefix(msg, "Hostname "):
		return scan.Has(msg, " provided via SNI")
	case scan.HasPrefix(msg, "mod_qos("):
		return scan.Has(msg[:min(len(msg), 40)], "): access denied")
	case scan.HasPrefix(msg, "AuthExtern "):
		return scan.Has(msg, "]: Failed (")
	}
	return true
}

// apacheLDAP reads "auth_ldap authenticate: user U authentication failed; URI
// P [reason][error]"; 2.2 writes "[pid] " before it.
func apacheLDAP(msg []byte, ev *event.Event) bool {
	if scan.HasPrefix(msg, "[") {
		if pid, rest, ok := scan.Cut(msg[1:], "] "); ok && scan.Digits(pid) {
			msg = rest
		}
	}
	rest, ok := scan.After(msg, "auth_ldap authenticate: user ")
	if !ok {
		return false
	}
	if user, reason, ok := scan.Cut(rest, " authentication failed; URI "); ok {
		ev.Outcome, ev.User = event.Failure, orNone(user)
		if scan.Has(reason, "[User not found]") {
			ev.Kind = event.UnknownUser
		}
	}
	return true
}
