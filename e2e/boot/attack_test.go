package boot

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// from gives the attacker's side one more address, behind the gateway.
func (m *machine) from(addr string) {
	m.t.Helper()
	a := netip.MustParseAddr(addr)
	command(m.t, "ip", "-n", m.outside, "addr", "replace", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "out", "nodad")
}

// outsider is a command line that runs argv on the attacker's side.
func (m *machine) outsider(argv ...string) []string {
	return append([]string{"ip", "netns", "exec", m.outside}, argv...)
}

// ssh connects from addr as user, offers the passwords one after the other in
// one connection, and runs script with the account's shell. An error is a
// refused login or a script that failed.
func (m *machine) ssh(addr, user, script string, passwords ...string) (string, error) {
	m.t.Helper()
	m.from(addr)
	dir := m.t.TempDir()
	// ssh asks this program for each password.
	ask := `#!/bin/sh
n=$(cat "$0.n" 2>/dev/null || echo 1)
echo $((n + 1)) >"$0.n"
sed -n "${n}p" "$0.passwords"
`
	prog := filepath.Join(dir, "ask")
	for name, text := range map[string]string{prog: ask, prog + ".passwords": strings.Join(passwords, "\n") + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	to := address
	if netip.MustParseAddr(addr).Is6() {
		to = address6
	}
	argv := m.outsider("setsid", "ssh", "-F", "none", "-b", addr, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "PreferredAuthentications=password", "-o", "PubkeyAuthentication=no", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10",
		"-o", fmt.Sprintf("NumberOfPasswordPrompts=%d", len(passwords)), user+"@"+to, script)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "SSH_ASKPASS="+prog, "SSH_ASKPASS_REQUIRE=force", "DISPLAY=none")
	out, err := c.CombinedOutput()
	return string(out), err
}

// login tries passwords, none of them right.
func (m *machine) login(addr, user string, passwords ...string) {
	m.t.Helper()
	if out, err := m.ssh(addr, user, "true", passwords...); err == nil {
		m.t.Fatalf("%s got in as %s with %q\n%s", addr, user, passwords, out)
	}
}

// session logs in as user with the right password and runs a script there, in
// a session of logind's.
func (m *machine) session(addr, user, script string) string {
	m.t.Helper()
	out, err := m.ssh(addr, user, script, user+"-password")
	if err != nil {
		m.t.Fatalf("%s as %s: %v\n%s", script, user, err, out)
	}
	return out
}

// TestBoot is the rig's own test: stoplog runs as the unit says, counts real
// logins that fail, and blocks.
func TestBoot(t *testing.T) {
	m := boot(t, "trixie")
	m.installBuilt()
	m.run("systemctl", "start", "stoplog")
	if out := m.session("203.0.113.77", "alice", "cat /proc/self/cgroup"); !strings.Contains(out, "session-") {
		t.Errorf("a login is in no session: %s", out)
	}
	for range 3 {
		m.login("203.0.113.5", "alice", "wrong1", "wrong2", "wrong3")
	}
	m.awaitBlock("203.0.113.0/28")
	if bs := m.blocks(); len(bs) != 1 {
		t.Errorf("got blocks %v, want one", bs)
	}
	m.reboot()
	m.run("systemctl", "start", "stoplog")
	m.awaitBlock("203.0.113.0/28") // it outlives a reboot
}
