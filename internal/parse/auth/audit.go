package auth

import (
	"bytes"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// Audit reads auditd's records of sshd ("type=USER_AUTH msg=audit(…): …
// msg='op=password acct="root" exe="/usr/sbin/sshd" hostname=? addr=ADDR
// terminal=ssh res=failed'"; audit-userspace, lib/audit_logging.c). acct is
// quoted, or hexadecimal when it holds a quote, a space or a control byte, so
// that no name reaches beyond its field.
func Audit(env *event.Message, line []byte, ev *event.Event) bool {
	if rest, ok := scan.After(line, "node="); ok {
		_, line = scan.Word(rest)
	}
	rest, ok := scan.After(line, "type=")
	if !ok {
		return false
	}
	kind, rest := scan.Word(rest)
	if rest, ok = scan.After(rest, "msg="); !ok {
		return false
	}
	ns, rest, ok := scan.Stamp(rest, env.Ref, env.Loc)
	if !ok {
		return false
	}
	_, body, ok := scan.Cut(rest, " msg='")
	if !ok || !scan.Has(body, `exe="/usr/sbin/sshd"`) && !scan.Has(body, `exe="/usr/libexec/openssh/sshd-`) && !scan.Has(body, `exe="/usr/lib/openssh/sshd-`) {
		return false
	}
	ev.Time, ev.Service = ns, "sshd"
	return auditResult(kind, body, rest, ev)
}

func auditResult(kind, body, rest []byte, ev *event.Event) bool {
	addr, ok := auditField(body, " addr=")
	if !ok {
		return false
	}
	if ev.Addr, ok = scan.Addr(addr); !ok {
		return false
	}
	if pid, ok := auditField(rest, " pid="); ok || scan.HasPrefix(rest, "pid=") {
		ev.Conn = event.ConnID("sshd", pid)
	}
	result, _ := auditField(body, " res=")
	acct, _ := auditField(body, " acct=")
	ev.User = bytes.Trim(acct, `"`)
	if n := len(ev.User); n > 0 && n == len(acct) {
		// Hexadecimal: "(unknown user)" and "(invalid user)" are sshd's own words.
		ev.User = nil
		if scan.HasPrefix(acct, "28756E6B6E6F776E") || scan.HasPrefix(acct, "28696E76616C6964") {
			ev.Kind = event.UnknownUser
		}
	}
	failed := scan.HasPrefix(result, "failed")
	switch {
	case !failed && string(kind) == "USER_LOGIN":
		ev.Outcome = event.Success
		return scan.HasPrefix(result, "success")
	case !failed:
		return scan.HasPrefix(result, "success")
	case string(kind) == "USER_AUTH", string(kind) == "USER_ERR":
		ev.Outcome, ev.Class = event.Failure, sshdFailed
	case string(kind) == "USER_LOGIN":
		ev.Outcome, ev.Class = event.Failure, sshdLeft
	default:
		return false
	}
	return true
}

// auditField returns the value behind name in b, up to the next space or
// closing quote of the record.
func auditField(b []byte, name string) ([]byte, bool) {
	i := scan.Index(b, name)
	if i < 0 {
		return nil, false
	}
	v := b[i+len(name):]
	if len(v) > 0 && v[0] == '"' {
		if n := bytes.IndexByte(v[1:], '"'); n >= 0 {
			return v[:n+2], true
		}
	}
	if n := bytes.IndexAny(v, " '"); n >= 0 {
		v = v[:n]
	}
	return v, true
}
