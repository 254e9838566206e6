package parse

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"stoplog/internal/parse/scan"
	"stoplog/internal/source"
)

// JournalOptions say which journal entries a source names by fields that their
// writers cannot choose. The zero value names none.
type JournalOptions struct {
	// Units are full names of systemd units (_SYSTEMD_UNIT).
	Units []string
	// Containers are names of containers whose text Docker or Podman logs.
	Containers []string
	// All: whatever the source selects, it selects by such fields.
	All bool
	// Users: All, and by the account that wrote it, whichever that is.
	Users bool
}

// writers says who may write the journal entries of one service.
type writers struct {
	// units are names of systemd services, without ".service" and without an
	// instance; a "*" stands for any text.
	units []string
	// exes are the programs of a service that logs people in. Its processes
	// are root's. systemd-logind moves one that opened a session into that
	// session's scope, among the processes of the person who logged in.
	exes []string
	uids accounts
}

// accounts are those that may write for a service.
type accounts uint8

const (
	// systemAccounts are root, accounts below UID_MIN (login.defs(5)) and
	// systemd's dynamic ones: mail servers and their kin start programs of
	// people's (.forward, suexec) within their own unit.
	systemAccounts accounts = iota
	rootOnly
	anyAccount
)

func (a accounts) has(uid int64) bool {
	switch a {
	case rootOnly:
		return uid == 0
	case anyAccount:
		return uid >= 0
	}
	return uid >= 0 && uid < 1000 || uid >= 61184 && uid <= 65519 // systemd.exec(5), DynamicUser=
}

// superservers start the daemons of services without a unit of their own.
const superservers = " inetd xinetd openbsd-inetd inetutils-inetd"

var serviceWriters = func() map[string]*writers {
	m := map[string]*writers{}
	for _, r := range [...]struct {
		services, units, exes string
		uids                  accounts
	}{
		// Logins of people. auditd relays what the kernel reports about them.
		{"sshd", "ssh sshd sshd-unix-local sshd-vsock auditd", "sshd sshd-session sshd-auth", rootOnly},
		{"dropbear", "dropbear" + superservers, "dropbear", rootOnly},
		{"login", "getty serial-getty console-getty container-getty telnet telnetd in.telnetd rlogin rsh" + superservers, "login in.telnetd telnetd in.rlogind in.rshd in.rexecd", rootOnly},
		{"cockpit", "cockpit cockpit-session", "cockpit-session cockpit-ws", rootOnly},
		{"xrdp", "xrdp xrdp-sesman", "xrdp-sesman xrdp-sesexec", rootOnly},
		{"webmin", "webmin usermin", "", rootOnly},
		{"proxmox", "pvedaemon pveproxy pmgdaemon pmgproxy proxmox-backup proxmox-backup-proxy proxmox-datacenter-api proxmox-datacenter-privileged-api", "", systemAccounts},
		// Accounts of the machine, changed by whoever is root in whatever unit.
		{"shadow", "*", "useradd userdel usermod groupadd groupdel groupmod gpasswd passwd chpasswd newusers chage chsh chfn", rootOnly},
		{"systemd", "", "systemd", rootOnly},
		{"screensharingd", "", "", rootOnly},

		// Mail.
		{"postfix", "postfix", "", systemAccounts},
		{"postgrey", "postgrey", "", systemAccounts},
		{"dovecot", "dovecot", "", systemAccounts},
		{"exim", "exim exim4 exim4-base", "", systemAccounts},
		{"sendmail", "sendmail sm-client", "", systemAccounts},
		{"opensmtpd", "opensmtpd smtpd", "", systemAccounts},
		{"cyrus", "cyrus cyrus-imapd cyrus-imap cyrus-master", "", systemAccounts},
		{"courier", "courier courier-authdaemon courier-imap courier-imap-ssl courier-pop courier-pop-ssl courier-mta courier-mta-ssl courier-msa courier-esmtpd", "", systemAccounts},
		{"perdition", "perdition", "", systemAccounts},
		{"qmail rblsmtpd", "qmail qmail-smtpd svscan daemontools" + superservers, "", systemAccounts},
		{"vpopmail", "vpopmail qmail svscan daemontools courier-authdaemon dovecot", "", systemAccounts},
		{"uw-imap", "imapd uw-imapd" + superservers, "", systemAccounts},
		{"cucipop solid-pop3d", "cucipop solid-pop3d" + superservers, "", systemAccounts},
		{"saslauthd", "saslauthd", "", systemAccounts},
		{"assp", "assp", "", systemAccounts},
		{"domino", "domino", "", systemAccounts},

		// Files, databases, names.
		{"vsftpd", "vsftpd" + superservers, "vsftpd", systemAccounts},
		{"proftpd", "proftpd" + superservers, "proftpd", systemAccounts},
		{"pure-ftpd", "pure-ftpd pure-ftpd-mysql pure-ftpd-ldap pure-ftpd-postgresql" + superservers, "pure-ftpd", systemAccounts},
		{"ftpd", "ftpd in.ftpd wu-ftpd" + superservers, "ftpd in.ftpd", systemAccounts},
		{"samba", "samba samba-ad-dc smb smbd nmbd winbind", "", systemAccounts},
		{"mysql", "mysql mysqld mariadb", "", systemAccounts},
		{"postgres", "postgresql postgresql-* postgres", "", systemAccounts},
		{"mongodb", "mongod mongos mongodb", "", systemAccounts},
		{"mssql", "mssql-server", "", systemAccounts},
		{"redis", "redis redis-server redis-sentinel valkey valkey-server", "", systemAccounts},
		{"slapd", "slapd openldap", "", systemAccounts},
		{"named", "named named-chroot bind9", "", systemAccounts},
		{"nsd", "nsd", "", systemAccounts},

		// The web. Their scripts may be people's.
		{"nginx", "nginx angie openresty tengine", "", systemAccounts},
		{"apache", "apache2 httpd", "", systemAccounts},
		{"lighttpd", "lighttpd", "", systemAccounts},
		{"caddy", "caddy caddy-api", "", systemAccounts},
		{"traefik", "traefik", "", systemAccounts},
		{"haproxy", "haproxy", "", systemAccounts},
		{"envoy", "envoy", "", systemAccounts},
		{"varnish", "varnish varnishncsa varnishlog", "", systemAccounts},
		{"squid", "squid squid3", "", systemAccounts},
		{"http", "nginx angie openresty tengine apache2 httpd lighttpd caddy caddy-api traefik haproxy envoy varnish varnishncsa squid squid3", "", systemAccounts},
		{"coraza", "coraza-spoa caddy haproxy nginx apache2 httpd", "", systemAccounts},
		{"suhosin", "php*-fpm apache2 httpd lighttpd", "", systemAccounts},

		// Networks. What the kernel says has a transport of its own.
		{"netfilter", "ulogd ulogd2", "", systemAccounts},
		{"wireguard", "", "", systemAccounts},
		{"openvpn", "openvpn openvpn-server openvpn-client openvpnas", "", systemAccounts},
		{"charon", "strongswan strongswan-starter strongswan-swanctl ipsec charon charon-systemd", "", systemAccounts},
		{"pptpd", "pptpd", "", systemAccounts},
		{"xl2tpd", "xl2tpd", "", systemAccounts},
		{"dante", "danted sockd", "", systemAccounts},
		{"stunnel", "stunnel stunnel4", "", systemAccounts},
		{"asterisk", "asterisk freepbx", "", systemAccounts},
		{"freeswitch", "freeswitch", "", systemAccounts},
		{"ejabberd", "ejabberd", "", systemAccounts},
		{"pfsense", "php*-fpm", "", systemAccounts},
		{"fail2ban", "fail2ban", "", rootOnly},
		{"sshguard", "sshguard", "", rootOnly},
	} {
		w := &writers{strings.Fields(r.units), strings.Fields(r.exes), r.uids}
		for _, s := range strings.Fields(r.services) {
			m[s] = w
		}
	}
	return m
}()

// exeServices are the services by their programs' names.
var exeServices = func() map[string]string {
	m := map[string]string{}
	for service, w := range serviceWriters {
		for _, exe := range w.exes {
			m[exe] = service
		}
	}
	return m
}()

// wrote reports whether en is by w's own unit or, for logins, by a process of
// w's that systemd moved or that ended before journald looked at it. journald
// takes the account from the kernel, with the message, but the unit and the
// program from /proc, a little later: what has ended by then has neither.
func (w *writers) wrote(en *source.Entry, named bool) bool {
	switch {
	case !w.uids.has(en.UID):
		return false
	case named || matchesAny(w.units, unitName(en.Unit)):
		return true
	case en.UID != 0 || len(w.exes) == 0:
		return false
	case len(en.Unit) == 0:
		return len(en.Exe) == 0 || w.runs(en.Exe)
	}
	return (inSession(en.Unit) || string(en.Unit) == managerUnit) && w.runs(en.Exe)
}

// managerUnit is that of the system's own systemd, process 1.
const managerUnit = "init.scope"

func (w *writers) runs(exe []byte) bool {
	base := string(exe[bytes.LastIndexByte(exe, '/')+1:])
	for _, e := range w.exes {
		if e == base {
			return true
		}
	}
	return false
}

// inSession reports whether unit is a login session of logind's.
func inSession(unit []byte) bool {
	return bytes.HasPrefix(unit, []byte("session-")) && bytes.HasSuffix(unit, []byte(".scope"))
}

// unitName is a system service's name without ".service" and its instance, nil
// for anything else. The units of a user's own manager are the user's.
func unitName(unit []byte) []byte {
	name, ok := scan.Before(unit, ".service")
	if !ok || len(name) == 0 || scan.HasPrefix(name, "user@") {
		return nil
	}
	if name, _, ok := scan.Cut(name, "@"); ok {
		return name
	}
	return name
}

// matchesAny compares name with names, of which each may hold one "*".
func matchesAny(names []string, name []byte) bool {
	if len(name) == 0 {
		return false
	}
	for _, n := range names {
		head, tail, star := strings.Cut(n, "*")
		if n == string(name) || star && len(name) > len(head)+len(tail) && scan.HasPrefix(name, head) && bytes.HasSuffix(name, []byte(tail)) {
			return true
		}
	}
	return false
}

// speaksFor reports whether the writer of en may speak for service. A source may
// name units, containers and accounts that speak for the service it names or,
// when it names none, for any application without a unit in the table above.
func (p *Parser) speaksFor(en *source.Entry, service string) bool {
	if en.Transport == source.KernelTransport {
		return true
	}
	named := p.named(en)
	w := serviceWriters[service]
	if len(en.Container) > 0 && !named {
		return false // Docker and Podman write it with their own rights, whatever it says
	}
	if w != nil {
		if named && p.opt.Journal.Users && p.isHint(service, w) {
			return true
		}
		return w.wrote(en, named && p.isHint(service, w))
	}
	if named {
		return true
	}
	unit := unitName(en.Unit)
	switch {
	case unit == nil:
		return false
	case service == "pam":
		return en.UID == 0
	case service == "su" || service == "sudo" || service == "generic" || service == "app":
		return false
	}
	if string(unit) == service || p.opt.Packs == nil {
		return string(unit) == service
	}
	pk := p.opt.Packs.Pack(service)
	return pk != nil && slices.Contains(pk.Programs(), string(unit))
}

// provenTag is the tag that users' own patterns may go by, false when they may
// not read the line at all. In the journal a tag is the writer's choice: it
// holds for writers that the source names or that may speak for the service of
// that tag; any other unit's entries are under the unit's name, and those of
// people's sessions and of containers are nobody's.
func (p *Parser) provenTag() (tag []byte, ok bool) {
	en := p.from
	if en == nil || p.named(en) {
		return p.tag, true
	}
	name, _ := scan.Before(p.tag, "/")
	service := string(name)
	if s, ok := exeServices[service]; ok {
		service = s
	}
	if en.Transport == source.KernelTransport || serviceWriters[service] != nil && p.speaksFor(en, service) {
		return p.tag, true
	}
	unit := unitName(en.Unit)
	return unit, unit != nil && len(en.Container) == 0
}

// named reports whether the source names who wrote en.
func (p *Parser) named(en *source.Entry) bool {
	j := &p.opt.Journal
	if len(en.Container) > 0 && fromRuntime(en) {
		return j.All && len(j.Containers) == 0 || containsText(j.Containers, en.Container)
	}
	return j.All || containsText(j.Units, en.Unit)
}

// fromRuntime reports whether en is by what logs containers' text: dockerd, or
// Podman's conmon, run by root.
func fromRuntime(en *source.Entry) bool {
	return en.UID == 0 && (string(en.Unit) == "docker.service" || scan.HasPrefix(en.Unit, "libpod-conmon-") || bytes.HasSuffix(en.Exe, []byte("/conmon")))
}

// isHint reports whether the source says that its lines are of service, by
// its name, the name of one of its units, or that with a suffix.
func (p *Parser) isHint(service string, w *writers) bool {
	for name := p.opt.Service; name != ""; {
		if name == service || matchesAny(w.units, []byte(name)) {
			return true
		}
		i := strings.LastIndexByte(name, '-')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	return false
}

func containsText(list []string, b []byte) bool {
	for _, s := range list {
		if s == string(b) {
			return true
		}
	}
	return false
}

// byCaller reports whether en was written by su or sudo itself. Both are
// started by whoever likes to, and their records carry the caller's account.
func byCaller(en *source.Entry, service string) bool {
	return (service == "su" || service == "sudo") && bytes.HasSuffix(en.Exe, []byte("/bin/"+service))
}

// Foreign counts the journal entries whose text reports a login, a failure or
// a probe of a service that their writer may not speak for, and describes the
// last of them. They are no events.
func (p *Parser) Foreign() (n uint64, last string) { return p.foreign, p.foreigner }

// refuse counts an entry that speaks for service without the right to.
func (p *Parser) refuse(en *source.Entry, service string) {
	p.foreign++
	if p.foreign > 1 && p.foreign&(p.foreign-1) != 0 {
		return // describing each would cost more than reading it
	}
	unit := "no unit"
	if len(en.Unit) > 0 {
		unit = string(en.Unit[:min(len(en.Unit), 100)])
	}
	if len(en.Container) > 0 {
		unit += ", container " + string(en.Container[:min(len(en.Container), 100)])
	}
	p.foreigner = fmt.Sprintf("%s by %s, uid %d", service, unit, en.UID)
}
