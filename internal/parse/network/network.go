package network

import (
	"bytes"
	"net/netip"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// dante reads sockd's log (Dante's doc/sockd.conf and log.c): "info: block(1):
// tcp/accept ]: 1.2.3.4.50550 0.0.0.0.1080: error after …: … failed for user
// "u"". The client is the first address behind the bracket.
func dante(env *event.Message, msg []byte, ev *event.Event) bool {
	m, _ := scan.After(msg, "info: ")
	m, block := scan.After(m, "block(")
	if !block {
		var ok bool
		if m, ok = scan.After(m, "pass("); !ok {
			return false
		}
	}
	_, tail, ok := scan.CutNear(m, "]: ", 48)
	if !ok {
		if _, tail, ok = scan.CutNear(m, "[: ", 48); !ok {
			return false
		}
	}
	w, rest := scan.Word(tail)
	if i := bytes.LastIndexByte(w, '@'); i >= 0 {
		w = w[i+1:]
	}
	a, ok := scan.AddrPort(w)
	if !ok {
		return false
	}
	ev.Set("dante", event.Other, event.Plain, a)
	if block {
		ev.Outcome, ev.Kind = event.Failure, event.Forbidden
		if scan.HasAny(rest, " failed", "could not access user") {
			ev.Kind = event.Plain
		}
	}
	if _, u, ok := scan.Cut(rest, `user "`); ok {
		ev.User, _, _ = scan.Cut(u, `"`)
	}
	return true
}

// stunnel reads "LOG3[28228:140093368055552]: SSL_accept from a:33454 : why"
// and "Service [s] accepted connection from a:port" (src/log.c, src/client.c).
func stunnel(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if rest, ok := scan.After(m, "LOG"); ok {
		if _, rest, ok = scan.Cut(rest, "]: "); !ok {
			return false
		}
		m = rest
	}
	if rest, ok := scan.After(m, "SSL_accept from "); ok {
		w, why := scan.Word(rest)
		a, ok := scan.AddrPort(w)
		if !ok {
			return false
		}
		ev.Set("stunnel", event.Other, event.Probe, a)
		if scan.HasAny(why, "certificate", "CERTIFICATE") {
			ev.Outcome, ev.Kind = event.Failure, event.Plain
		}
		return true
	}
	rest, ok := scan.After(m, "Service [")
	_, rest, ok2 := scan.Cut(rest, "] ")
	if !ok || !ok2 {
		return false
	}
	if peer, ok := scan.After(rest, "accepted connection from "); ok {
		a, ok := scan.AddrPort(peer)
		return ok && ev.Set("stunnel", event.Other, event.Plain, a)
	}
	if _, peer, ok := scan.Last(rest, " by libwrap from "); ok {
		a, ok := scan.AddrPort(peer)
		return ok && ev.Set("stunnel", event.Failure, event.Forbidden, a)
	}
	return false
}

// kernel reads the lines of netfilter's LOG target (nf_log_syslog.c), also in
// ufw's and firewalld's wording, and WireGuard's refused handshakes. A packet
// that was logged is no failure by itself, and its source can be forged.
func kernel(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if rest, ok := scan.After(m, "["); ok {
		if up, rest, ok := scan.Cut(rest, "] "); ok && len(bytes.Trim(up, " 0123456789.")) == 0 {
			m = rest
		}
	}
	if rest, ok := scan.After(m, "wireguard: "); ok {
		_, rest, ok := scan.Cut(rest, ": Invalid handshake initiation from ")
		a, ok2 := scan.AddrPort(rest)
		return ok && ok2 && ev.Set("wireguard", event.Failure, event.Plain, a)
	}
	_, rest, ok := scan.Cut(m, "IN=")
	_, rest, ok2 := scan.Cut(rest, " SRC=")
	if !ok || !ok2 {
		return false
	}
	src, rest := scan.Word(rest)
	a, ok := scan.Addr(src)
	_, ok2 = scan.After(rest, "DST=")
	return ok && ok2 && ev.Set("netfilter", event.Other, event.Plain, a)
}

// fail2ban reads that fail2ban blocked somebody: "fail2ban.actions [123]:
// NOTICE [sendmail] Ban a" (server/actions.py). What its own repeat offenders'
// filter blocked is not counted a second time.
func fail2ban(env *event.Message, msg []byte, ev *event.Event) bool {
	m := msg
	if _, rest, ok := scan.Cut(m, "NOTICE"); ok {
		m = scan.TrimLeft(rest)
	}
	rest, ok := scan.After(m, "[")
	name, rest, ok2 := scan.Cut(rest, "] ")
	if !ok || !ok2 || len(name) > 64 || string(name) == "recidive" {
		return false
	}
	o := event.Failure
	addr, ok := scan.After(rest, "Ban ")
	if !ok {
		if addr, ok = scan.After(rest, "Found "); !ok {
			return false
		}
		addr, _ = scan.Word(addr)
		o = event.Other
	}
	a, ok := scan.Addr(scan.Trim(addr))
	return ok && ev.Set("fail2ban", o, event.Limited, a)
}

// sshguard reads its own messages (src/blocker/blocker.c): "Attack from "a" on
// service 100 with danger 10.", "Blocking "a/32" for 300 secs (…)".
func sshguard(env *event.Message, msg []byte, ev *event.Event) bool {
	m, ok := scan.After(msg, `Attack from "`)
	if !ok {
		if m, ok = scan.After(msg, `Blocking "`); !ok {
			return false
		}
	}
	w, rest := scan.UpTo(m, `"/`)
	a, ok := scan.Addr(w)
	if !ok || !scan.HasAny(rest, " with danger ", " for ") {
		return false
	}
	return ev.Set("sshguard", event.Failure, event.Limited, a)
}

// pfsense reads the web configurators of pfSense and OPNsense:
// "/index.php: webConfigurator authentication error for user 'u' from: a". The
// address ends the line.
func pfsense(env *event.Message, msg []byte, ev *event.Event) bool {
	_, m, ok := scan.CutNear(msg, ": ", 64)
	if !ok || len(msg) == 0 || msg[0] != '/' {
		return false
	}
	o := event.Failure
	u, ok := scan.After(m, "webConfigurator authentication error for ")
	if !ok {
		if u, ok = scan.After(m, "Web GUI authentication error for "); !ok {
			if u, ok = scan.After(m, "Successful login for user "); !ok {
				return false
			}
			o = event.Success
		}
	}
	u, _ = scan.After(u, "user ")
	user, rest, ok := scan.Last(u, " from: ")
	if !ok {
		user, rest, ok = scan.Last(u, " from ")
	}
	addr, db := scan.Word(rest)
	a, ok2 := scan.Addr(addr)
	if !ok || !ok2 || len(db) > 0 && db[0] != '(' {
		return false
	}
	ev.User = bytes.Trim(user, "'")
	return ev.Set("pfsense", o, event.Plain, a)
}

// pptp reads "CTRL: Client a control connection started" of pptpd, and xl2tpd's
// "Connection established to a, 1701.".
func pptp(env *event.Message, msg []byte, ev *event.Event) bool {
	var a netip.Addr
	if m, ok := scan.After(msg, "CTRL: Client "); ok {
		w, _ := scan.Word(m)
		if a, ok = scan.Addr(w); ok {
			return ev.Set("pptpd", event.Other, event.Plain, a)
		}
		return false
	}
	m, ok := scan.After(msg, "Connection established to ")
	w, _ := scan.UpTo(m, ", ")
	a, ok2 := scan.Addr(w)
	return ok && ok2 && ev.Set("xl2tpd", event.Other, event.Plain, a)
}
