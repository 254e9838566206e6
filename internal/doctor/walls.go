package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"stoplog/internal/control"
)

// others are similar programs, and files that exist while they run.
var others = []struct{ name, sign string }{
	{"fail2ban", "/run/fail2ban/fail2ban.sock"},
	{"sshguard", "/run/sshguard.pid"},
	{"crowdsec", "/run/crowdsec.pid"},
	{"crowdsec", "/run/crowdsec.sock"},
	{"denyhosts", "/run/denyhosts.pid"},
}

// firewall reports which backend works and which similar programs run.
func (d *doctor) firewall(ctx context.Context) {
	why, err := d.Firewall(ctx)
	switch {
	case err == nil:
		d.say(OK, "firewall", why)
	case d.EUID != 0:
		d.say(Note, "firewall", "not checked: this needs root")
	case errors.Is(err, fs.ErrPermission):
		d.advise(Broken, "firewall", err.Error(), "run stoplog on the host, or start the container with CAP_NET_ADMIN", "docker run --cap-add NET_ADMIN …")
	default:
		d.advise(Broken, "firewall", err.Error(), "install a firewall, or run without blocking", "apt install nftables")
	}
	if d.exists("/run/docker.sock") && d.Set != nil && !d.Set.Firewall.Forward {
		d.advise(Warning, "firewall", "docker is running, but forwarded traffic is not filtered: blocked prefixes can still reach published container ports",
			"set firewall: {forward: true} in the rules", "stoplog check && stoplog reload")
	}
	told := map[string]bool{}
	for _, o := range others {
		if d.exists(o.sign) && !told[o.name] {
			told[o.name] = true
			d.advise(Note, "firewall", o.name+" is running, too: both block independently of each other", "run only one of them", "systemctl disable --now "+o.name)
		}
	}
}

// daemon reports whether it runs and what is wrong with it.
func (d *doctor) daemon(ctx context.Context) {
	s, err := d.Daemon.Status(ctx)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		d.notRunning()
		return
	case err != nil && d.EUID != 0:
		d.say(Note, "daemon", "could not be asked: "+err.Error())
		return
	case err != nil:
		d.advise(Broken, "daemon", err.Error(), "see its log", d.itsLog())
		return
	}
	d.status = &s
	for _, t := range s.Trouble {
		d.advise(Broken, "daemon", t, "see its log", d.itsLog())
	}
	for _, n := range s.Notes {
		d.say(Note, "daemon", n)
	}
	if s.DryRun {
		d.advise(Note, "daemon", "stoplog runs with --dry-run: nothing is blocked", "run it without --dry-run to block", "stoplog run")
	}
	if s.Rules != d.RulesName {
		d.say(Note, "daemon", "the daemon uses other rules: "+s.Rules)
	}
	if len(s.Trouble) == 0 {
		d.say(OK, "daemon", strings.TrimSpace("running, "+plural(s.Blocks, "block")+" now, "+s.State))
	}
}

func (d *doctor) notRunning() {
	if d.unit() {
		d.advise(Warning, "daemon", "stoplog is not running", "start it, now and at boot", "systemctl enable --now stoplog")
		return
	}
	d.advise(Warning, "daemon", "stoplog is not running", "start it, first without blocking", "stoplog run --dry-run")
}

func (d *doctor) itsLog() string {
	if d.unit() {
		return "journalctl -u stoplog -n 50"
	}
	return "stoplog status"
}
