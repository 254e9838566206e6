package doctor

import (
	"fmt"
	"os"
)

// maxTold bounds how many findings one cause may make.
const maxTold = 5

// rules tells every mistake in the rules file.
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
			d.advise(Broken, "rules", p.Error(), "correct it", check)
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
		d.advise(Warning, "rules", w.Error(), "look whether that is meant", check)
	}
	d.say(OK, "rules", fmt.Sprintf("%s: %s, %s", d.RulesName, plural(len(d.Set.Rules), "rule"), plural(len(d.Set.Sources), "source")))
}

// rights tells what who looks may not see, and whom the daemon would become.
func (d *doctor) rights() {
	if d.EUID != 0 {
		d.advise(Note, "rights", fmt.Sprintf("looking as user %d: the firewall and some logs cannot be examined", d.EUID), "look as root", "sudo stoplog doctor")
		return
	}
	if d.User == "nobody" {
		d.advise(Warning, "rights", "there is no user stoplog: the daemon becomes nobody, whose files others may share",
			"make a user of its own", "adduser --system --group --no-create-home stoplog")
		return
	}
	d.say(OK, "rights", "the process that reads logs becomes "+d.User)
}

// clock tells whether time is kept: the rules count by it and blocks end by it.
func (d *doctor) clock() {
	zone, _ := d.Now.Zone()
	if d.Now.Year() < 2024 {
		d.advise(Broken, "clock", "the clock says "+d.Now.Format("2006-01-02 15:04:05 MST"), "set it", d.setClock())
		return
	}
	if by := d.keptBy(); by != "" {
		d.say(OK, "clock", fmt.Sprintf("kept right by %s, zone %s", by, zone))
		return
	}
	synced, err := d.Synced()
	switch {
	case err != nil:
		d.say(Note, "clock", "whether it is kept right is not known: "+err.Error())
	case synced:
		d.say(OK, "clock", "kept right (says the kernel), zone "+zone)
	default:
		d.advise(Warning, "clock", "nothing keeps it right, zone "+zone, "let it be set by NTP: blocks end by it, and stamps are compared with it", d.setClock())
	}
}

// keptBy names who has set the clock: systemd-timesyncd leaves a file once it
// did (systemd-timesyncd.service(8), "Files").
func (d *doctor) keptBy() string {
	if d.exists("/run/systemd/timesync/synchronized") {
		return "systemd-timesyncd"
	}
	return ""
}

// setClock is the command that lets the clock be set.
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
