package boot

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// service is the unit's state: whether it starts at boot, and whether it runs.
func (m *machine) service() string {
	enabled, _ := m.try("systemctl", "is-enabled", "stoplog")
	active, _ := m.try("systemctl", "is-active", "stoplog")
	return strings.TrimSpace(enabled) + " " + strings.TrimSpace(active)
}

// step is one order to the package manager or systemd, and the unit's state
// that must follow.
type step struct{ do, want string }

func (m *machine) steps(system string, steps []step, dirs map[string]string) {
	m.t.Helper()
	for i, s := range steps {
		argv := strings.Fields(s.do)
		for j, a := range argv {
			if p, ok := dirs[a]; ok {
				argv[j] = p
			}
		}
		out, err := m.try(argv...)
		if err != nil {
			m.t.Fatalf("%s, step %d, %s: %v\n%s", system, i, s.do, err, out)
		}
		if strings.Contains(out, "did not start") || strings.Contains(out, "warning: ") && strings.Contains(out, "scriptlet") {
			m.t.Errorf("%s, step %d, %s printed:\n%s", system, i, s.do, out)
		}
		m.until(fmt.Sprintf("%s, step %d, after %s: want %q, have %q", system, i, s.do, s.want, m.service()), func() bool { return m.service() == s.want })
	}
}

const gone = "not-found inactive"

// TestPackageLifecycle installs, upgrades, downgrades, removes, installs again
// and purges, with and without an administrator's disable and mask.
func TestPackageLifecycle(t *testing.T) {
	soak(t)
	m := boot(t, "trixie")
	dirs := map[string]string{}
	for name, version := range map[string]string{"OLD": "7.0.1", "NEW": "7.0.2"} {
		path := deb(t, version)
		command(t, "cp", path, m.path("/root"))
		dirs[name] = "/root/" + filepath.Base(path)
	}
	m.steps("dpkg", []step{
		{"dpkg -i OLD", "enabled active"},
		{"dpkg -i NEW", "enabled active"},
		{"dpkg -i OLD", "enabled active"}, // a downgrade
		{"dpkg -r stoplog", gone},
		{"dpkg -i OLD", "enabled active"},
		{"systemctl disable --now stoplog", "disabled inactive"},
		{"dpkg -i NEW", "disabled inactive"},
		{"dpkg -r stoplog", gone},
		{"dpkg -i NEW", "disabled inactive"},
		{"systemctl enable --now stoplog", "enabled active"},
		{"systemctl stop stoplog", "enabled inactive"},
		{"systemctl start stoplog", "enabled active"},
		{"dpkg -r stoplog", gone},
		{"dpkg -P stoplog", gone},
		{"dpkg -i OLD", "enabled active"}, // as on a fresh machine
		{"systemctl disable --now stoplog", "disabled inactive"},
		{"dpkg -P stoplog", gone},
		{"dpkg -i OLD", "enabled active"}, // a purge forgets the disable
		{"systemctl mask --now stoplog", "masked inactive"},
		{"dpkg -i NEW", "masked inactive"},
		{"systemctl unmask stoplog", "enabled inactive"},
		{"dpkg -P stoplog", gone},
	}, dirs)
	for _, p := range []string{"/etc/stoplog", "/var/lib/stoplog", "/var/lib/stoplog-rules", "/run/stoplog"} {
		if out, err := m.try("stat", p); err == nil {
			t.Errorf("after a purge: %s", out)
		}
	}
	if out, err := m.try("getent", "passwd", "stoplog"); err == nil {
		t.Errorf("after a purge: %s", out)
	}
	if k := m.kernel(); strings.Contains(k, "table inet stoplog {") {
		t.Errorf("after a purge the kernel holds\n%s", k)
	}
}

// TestRPMLifecycle does the same with the package for Red Hat and its kin,
// where presets decide what is enabled.
func TestRPMLifecycle(t *testing.T) {
	soak(t)
	m := boot(t, "trixie")
	dirs := map[string]string{}
	for name, version := range map[string]string{"OLD": "7.0.1", "NEW": "7.0.2"} {
		path := pack(t, "rpm", version)
		command(t, "cp", path, m.path("/root"))
		dirs[name] = "/root/" + filepath.Base(path)
	}
	m.write("/etc/systemd/system-preset/50-stoplog.preset", "disable stoplog.service\n", 0o644)
	m.steps("rpm", []step{
		{"rpm -i --nodeps OLD", "disabled inactive"},
		{"systemctl enable --now stoplog", "enabled active"},
		{"rpm -U --nodeps NEW", "enabled active"},
		{"rpm -U --nodeps --oldpackage OLD", "enabled active"},
		{"systemctl disable --now stoplog", "disabled inactive"},
		{"rpm -U --nodeps NEW", "disabled inactive"},
		{"rpm -e stoplog", gone},
	}, dirs)
	m.write("/etc/systemd/system-preset/50-stoplog.preset", "enable stoplog.service\n", 0o644)
	m.steps("rpm with a preset", []step{
		{"rpm -i --nodeps OLD", "enabled active"},
		{"rpm -U --nodeps NEW", "enabled active"},
		{"rpm -e stoplog", gone},
	}, dirs)
	if k := m.kernel(); strings.Contains(k, "table inet stoplog {") {
		t.Errorf("after a removal the kernel holds\n%s", k)
	}
}

// TestStartsAreNotLimited: many restarts by hand, and broken rules, leave the
// service running.
func TestStartsAreNotLimited(t *testing.T) {
	soak(t)
	m := boot(t, "trixie")
	m.installBuilt()
	m.run("systemctl", "start", "stoplog")
	for range 12 {
		m.run("systemctl", "restart", "stoplog")
	}
	m.awaitUnit("stoplog", "active")
	m.write("/etc/stoplog/rules.yaml", "rulez: []\n", 0o644)
	if out, err := m.try("systemctl", "restart", "stoplog"); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, m.run("journalctl", "--no-pager", "-u", "stoplog", "-n", "20"))
	}
	m.login("203.0.113.5", "alice", "wrong", "wrong", "wrong")
	m.login("203.0.113.5", "alice", "wrong", "wrong", "wrong")
	m.awaitBlock("203.0.113.0/28")
	if out := m.run("stoplog", "status"); !strings.Contains(out, "degraded") || !strings.Contains(out, "last good rules") {
		t.Errorf("status of a service with broken rules:\n%s", out)
	}
	m.reboot()
	m.awaitUnit("stoplog.service", "inactive") // not enabled: installBuilt enables nothing
	m.run("systemctl", "start", "stoplog")
	m.awaitUnit("stoplog", "active")
	if out := m.run("ps", "-C", "stoplog", "-o", "comm="); strings.Count(out, "stoplog\n") < 2 {
		t.Errorf("ps shows\n%s, want two processes called stoplog", out)
	}
}
