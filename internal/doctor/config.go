package doctor

import (
	"fmt"
	"os"
)

// maxTold bounds how many findings one cause may make.
const maxTold = 5

// rules reports every mistake in the rules file.
func (d *doctor) rules() {
	check := "stoplog check"
	if d.RulesName != "built-in" {
		check += " " + quote(d.RulesName)
	}
	mistakes := 0
	for _, p := range d.Problems {
		if p.Warning {
			continue
		}
		if mistakes++; mistakes <= maxTold {
			d.advise(Broken, "rules", p.Error(), "correct the rules file", check)
		}
	}
	if mistakes > maxTold {
		d.say(Broken, "rules", fmt.Sprintf("and %d more mistakes", mistakes-maxTold))
	}
	if d.Set == nil {
		return
	}
	for i, w := range d.Set.Warnings {
		if i == maxTold {
			d.say(Warning, "rules", fmt.Sprintf("and %d more warnings", len(d.Set.Warnings)-maxTold))
			break
		}
		d.advise(Warning, "rules", w.Error(), "check whether this is intended", check)
	}
	d.say(OK, "rules", fmt.Sprintf("%s: %s, %s", d.RulesName, plural(len(d.Set.Rules), "rule"), plural(len(d.Set.Sources), "source")))
}

// rights reports what this user cannot check, and as which user the daemon runs.
func (d *doctor) rights() {
	if d.EUID != 0 {
		d.advise(Note, "rights", fmt.Sprintf("running as user %d: the firewall and some logs cannot be checked", d.EUID), "run it as root", "sudo stoplog doctor")
		return
	}
	if d.User == "nobody" {
		d.advise(Warning, "rights", "there is no user stoplog: the daemon runs as nobody, whose files other programs may share",
			"create a user for stoplog", "adduser --system --group --no-create-home stoplog")
		return
	}
	d.say(OK, "rights", "the process that reads logs runs as "+d.User)
}

// clock reports whether the clock is synchronised: rules and blocks depend on it.
func (d *doctor) clock() {
	zone, _ := d.Now.Zone()
	if d.Now.Year() < 2024 {
		d.advise(Broken, "clock", "the clock is wrong: "+d.Now.Format("2006-01-02 15:04:05 MST"), "set the clock", d.setClock())
		return
	}
	if by := d.keptBy(); by != "" {
		d.say(OK, "clock", fmt.Sprintf("the clock is synchronised by %s, time zone %s", by, zone))
		return
	}
	synced, err := d.Synced()
	switch {
	case err != nil:
		d.say(Note, "clock", "cannot find out whether the clock is synchronised: "+err.Error())
	case synced:
		d.say(OK, "clock", "the clock is synchronised according to the kernel, time zone "+zone)
	default:
		d.advise(Warning, "clock", "the clock is not synchronised, time zone "+zone, "use NTP: blocks end by the clock, and timestamps are compared with it", d.setClock())
	}
}

// keptBy names the program that set the clock: systemd-timesyncd creates a file
// once it did (systemd-timesyncd.service(8), "Files").
func (d *doctor) keptBy() string {
	if d.exists("/run/systemd/timesync/synchronized") {
		return "systemd-timesyncd"
	}
	return ""
}

// setClock is the command that turns on clock synchronisation.
func (d *doctor) setClock() string {
	if d.systemd() {
		return "timedatectl set-ntp true"
	}
	return "apt install chrony"
}

// systemd reports whether systemd runs here (sd_booted(3)).
func (d *doctor) systemd() bool { return d.exists("/run/systemd/system") }

// unit reports whether stoplog is installed as a service.
func (d *doctor) unit() bool {
	return d.systemd() && (d.exists("/usr/lib/systemd/system/stoplog.service") || d.exists("/lib/systemd/system/stoplog.service") || d.exists("/etc/systemd/system/stoplog.service"))
}

func (d *doctor) exists(path string) bool {
	_, err := os.Stat(d.path(path))
	return err == nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
