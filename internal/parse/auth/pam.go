package auth

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// PAM reads what PAM's modules write in a service's name: pam_unix, pam_sss,
// pam_ldap, pam_winbind, pam_tally(2), pam_faillock… (support.c and
// pam_unix_auth.c of linux-pam, and their like). The service is the one in
// "pam_unix(sshd:auth)", else the tag.
//
// ruser and user are the client's words, and rhost may be a host's name, which
// is never resolved.
func PAM(env *event.Message, msg []byte, ev *event.Event) bool {
	whole := msg
	msg, service, ok := pamModule(env, msg)
	if !ok {
		return false
	}
	ev.Service = pamService(service)
	if len(env.PID) > 0 {
		ev.Conn = event.ConnID(ev.Service, env.PID)
	}
	ev.Class, ev.Count = event.ClassPAM, 1
	if scan.Has(env.Module, "pam_") && !scan.HasPrefix(env.Module, "(pam_unix") || scan.HasPrefix(whole, "pam_") && !scan.HasPrefix(whole, "pam_unix") {
		ev.Class = event.ClassOtherPAM
	}
	rest, more, ok := pamFailures(msg)
	if !ok {
		return pamOther(msg, ev)
	}
	ev.Count, msg = more, rest
	ev.Outcome = event.Failure
	return pamFields(msg, ev)
}

// pamFailures reads "authentication failure; ", "1 more authentication failure; "
// and "2 more authentication failures; ".
func pamFailures(msg []byte) (rest []byte, n int, ok bool) {
	for _, head := range [...]string{"authentication failure; ", "Authentication failure; ", "1 more authentication failure; "} {
		if rest, ok := scan.After(msg, head); ok {
			return rest, 1, true
		}
	}
	v, rest, ok := scan.Uint(msg)
	if !ok {
		return nil, 0, false
	}
	rest, ok = scan.After(rest, " more authentication failures; ")
	return rest, int(min(v, maxCount)), ok && v > 0
}

// pamModule drops "pam_unix(sshd:auth): ", "pam_unix: ", "(pam_unix) " and
// "PAM ", or takes them from the tag, and returns the service.
func pamModule(env *event.Message, msg []byte) (rest, service []byte, ok bool) {
	if env.Module != nil && scan.HasPrefix(env.Module, "(pam_") {
		return msg, env.Tag, true
	}
	if env.Module != nil && env.Tag != nil && bytes.IndexByte(env.Module, ':') > 0 {
		return msg, env.Tag, true
	}
	switch {
	case scan.HasPrefix(msg, "pam_"):
		head, rest, ok := scan.Cut(msg, ": ")
		if !ok || len(head) > 64 {
			return nil, nil, false
		}
		if i := bytes.IndexByte(head, '('); i > 0 && head[len(head)-1] == ')' {
			if svc, _, ok := scan.Cut(head[i+1:len(head)-1], ":"); ok {
				return rest, svc, true
			}
		}
		return rest, env.Tag, true
	case scan.HasPrefix(msg, "(pam_"):
		_, rest, ok := scan.Cut(msg, ") ")
		return rest, env.Tag, ok
	case scan.HasPrefix(msg, "PAM "):
		return msg[4:], env.Tag, true
	}
	return nil, nil, false
}

// pamFields reads "logname= uid=0 euid=0 tty=ssh ruser= rhost=ADDR  user=USER".
func pamFields(b []byte, ev *event.Event) bool {
	_, rest, ok := scan.Cut(b, "ruser=")
	if !ok {
		return false
	}
	var found netip.Addr
	named, n := false, 0
	for at := 0; ; {
		i := scan.Index(rest[at:], "rhost=")
		if i < 0 {
			break
		}
		i += at
		at = i + 6
		a, user, ok := pamHost(rest, i)
		if !ok {
			continue
		}
		if n++; n == 1 {
			found, ev.User, named = a, user, user != nil
			if i == 1 && !clientNamesRuser(ev.Service) {
				// No remote user: what follows is the host, whatever user= holds.
				break
			}
		} else if a != found {
			ev.User = nil
			return ev.Conn != 0
		}
	}
	ev.Addr = found
	return n > 0 && (found.IsValid() || named || ev.Conn != 0)
}

// clientNamesRuser reports whether service hands the name that its client gave
// to PAM as the remote user's, too, where it may begin with a space.
func clientNamesRuser(service string) bool {
	return service == "vsftpd" || service == "dovecot" || service == "samba"
}

// pamHost reads the rhost= at b[i:]: one word, and then the end or user=.
func pamHost(b []byte, i int) (a netip.Addr, user []byte, ok bool) {
	if i == 0 || b[i-1] != ' ' {
		return a, nil, false
	}
	tok, rest := scan.Word(b[i+6:])
	rest = scan.TrimLeft(rest)
	if len(rest) > 0 {
		if user, ok = scan.After(rest, "user="); !ok {
			return a, nil, false
		}
	}
	a, _ = scan.Addr(tok)
	return a, user, true
}

// pamOther reads pam_access's "access denied for user `USER' from `ADDR'". The
// modules' other lines name no address, and the service tells the same.
func pamOther(b []byte, ev *event.Event) bool {
	rest, ok := scan.After(b, "access denied for user `")
	if !ok {
		return false
	}
	if rest, ok = scan.Before(rest, "'"); !ok {
		return false
	}
	user, tok, ok := scan.Last(rest, "' from `")
	if !ok {
		return false
	}
	ev.Outcome, ev.Kind, ev.Class, ev.User = event.Failure, event.Forbidden, event.ClassOtherPAM, user
	ev.Addr, ok = scan.Addr(tok)
	return ok
}

// pamService interns the names that services give themselves to PAM.
func pamService(b []byte) string {
	switch string(b) {
	case "sshd", "sshd-session", "ssh":
		return "sshd"
	case "sudo", "sudo-i":
		return "sudo"
	case "su", "su-l":
		return "su"
	case "login", "remote":
		return "login"
	case "vsftpd", "ftp":
		return "vsftpd"
	case "dovecot", "dovecot-auth", "imap", "pop3":
		return "dovecot"
	case "proftpd":
		return "proftpd"
	case "cockpit", "cockpit-session":
		return "cockpit"
	case "smtp", "smtpd", "postfix":
		return "postfix"
	case "exim", "exim4":
		return "exim"
	case "pure-ftpd":
		return "pure-ftpd"
	case "xrdp-sesman", "xrdp":
		return "xrdp"
	case "dropbear":
		return "dropbear"
	case "cyrus", "saslauthd":
		return "saslauthd"
	case "webmin", "usermin":
		return "webmin"
	case "samba":
		return "samba"
	case "proxmox-ve-auth":
		return "proxmox"
	}
	return "pam"
}
