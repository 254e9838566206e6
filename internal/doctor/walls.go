package doctor

import (
	"context"
	"errors"
	"strings"

	"stoplog/internal/control"
)

// others are programs of the same trade, and what shows that they run.
var others = []struct{ name, sign string }{
	{"fail2ban", "/run/fail2ban/fail2ban.sock"},
	{"sshguard", "/run/sshguard.pid"},
	{"crowdsec", "/run/crowdsec.pid"},
	{"crowdsec", "/run/crowdsec.sock"},
	{"denyhosts", "/run/denyhosts.pid"},
}

// firewall tells which wall works and who else is at work there.
func (d *doctor) firewall(ctx context.Context) {
	why, err := d.Firewall(ctx)
	switch {
	case err == nil:
		d.say(OK, "firewall", why)
	case d.EUID != 0:
		d.say(Note, "firewall", "not examined: only root can")
	default:
		d.advise(Broken, "firewall", err.Error(), "install one, or try without blocking", "apt install nftables")
	}
	if d.exists("/run/docker.sock") && d.Set != nil && !d.Set.Firewall.Forward {
		d.advise(Warning, "firewall", "docker runs here, and forwarded traffic is not looked at: published ports of containers stay open to blocked prefixes",
			"write firewall: {forward: true} in the rules", "stoplog check && stoplog reload")
	}
	told := map[string]bool{}
	for _, o := range others {
		if d.exists(o.sign) && !told[o.name] {
			told[o.name] = true
			d.advise(Note, "firewall", o.name+" runs as well: both block, each its own; neither harms the other", "keep one", "systemctl disable --now "+o.name)
		}
	}
}

// daemon tells whether one runs and how it fares.
func (d *doctor) daemon(ctx context.Context) {
	s, err := d.Daemon.Status(ctx)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		d.notRunning()
		return
	case err != nil && d.EUID != 0:
		d.say(Note, "daemon", "not asked: "+err.Error())
		return
	case err != nil:
		d.advise(Broken, "daemon", err.Error(), "see what it logged", d.itsLog())
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
		d.advise(Note, "daemon", "it runs with --dry-run: nothing is blocked", "run it without when you have seen enough", "stoplog run")
	}
	if s.Rules != d.RulesName {
		d.say(Note, "daemon", "it runs with other rules: "+s.Rules)
	}
	if len(s.Trouble) == 0 {
		d.say(OK, "daemon", strings.TrimSpace("running, "+plural(s.Blocks, "block")+" now, "+s.State))
	}
}

func (d *doctor) notRunning() {
	if d.unit() {
		d.advise(Warning, "daemon", "none is running", "start it, and at each boot", "systemctl enable --now stoplog")
		return
	}
	d.advise(Warning, "daemon", "none is running", "start it; first to see what it would do", "stoplog run --dry-run")
}

func (d *doctor) itsLog() string {
	if d.unit() {
		return "journalctl -u stoplog -n 50"
	}
	return "stoplog status"
}
