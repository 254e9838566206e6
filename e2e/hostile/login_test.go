package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// syslog runs rsyslogd as Debian sets it up.
func syslog(t *testing.T) {
	t.Helper()
	d := scratch(t)
	put(t, d+"/rsyslog.conf", `module(load="imuxsock")
$FileCreateMode 0644
$ActionFileDefaultTemplate RSYSLOG_TraditionalFileFormat
auth,authpriv.* /var/log/auth.log
mail.* /var/log/mail.log
local0.* /var/log/haproxy.log
*.*;auth,authpriv,mail,local0.none /var/log/syslog
`)
	for _, f := range []string{"auth.log", "mail.log", "haproxy.log", "syslog"} {
		put(t, "/var/log/"+f, "")
	}
	s := start(t, "rsyslogd", "-n", "-f", d+"/rsyslog.conf", "-i", d+"/pid")
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat("/dev/log"); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("rsyslogd does not listen:\n%s", s.output())
		}
	}
}

// flushed waits until rsyslogd has written all that it was given before: what
// comes last is in the file.
func flushed(t *testing.T, facility, path string) func() {
	n := 0
	return func() {
		n++
		text := fmt.Sprintf("flush %d of %s", n, t.Name())
		must(t, "logger", "-p", facility, "-t", "hostile-test", text)
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), text) {
				return
			}
		}
		t.Fatalf("rsyslogd does not write %s", path)
	}
}

// sshLogin fails one login with a name and a password of the client's choice.
func sshLogin(port, banner, user string) error {
	c, err := dial(port)
	if err != nil {
		return err
	}
	defer c.Close()
	conf := &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.Password(user)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), ClientVersion: "SSH-2.0-" + banner}
	_, _, _, _ = ssh.NewClientConn(c, serverAddr, conf)
	return nil
}

// printable leaves of a banner what the client's library sends.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), 200)])
}

func TestOpenSSH(t *testing.T) {
	need(t, "rsyslogd", "ssh-keygen", "logger")
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		need(t, "sshd")
	}
	syslog(t)
	d := scratch(t)
	must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d+"/key")
	dir(t, "/run/sshd")
	if err := os.Chmod("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, d+"/sshd_config", fmt.Sprintf("Port 22\nListenAddress %s\nHostKey %s/key\nPidFile none\nStrictModes no\nUsePAM no\nMaxStartups 1000\nLogLevel VERBOSE\nSyslogFacility AUTH\n", serverAddr, d))
	start(t, "/usr/sbin/sshd", "-D", "-f", d+"/sshd_config").listening(t, "22")
	a := attack{
		logs: []string{"/var/log/auth.log"}, n: 60, workers: 16, synced: flushed(t, "auth.info", "/var/log/auth.log"),
		plain: func(name string) error { return sshLogin("22", "x", name) },
		try: func(p string) error {
			if err := sshLogin("22", printable(p), p); err != nil {
				return err
			}
			return say("22", true, p+"\r\n") // no banner at all
		},
	}
	a.run(t)
}

func TestDropbear(t *testing.T) {
	need(t, "rsyslogd", "dropbear", "dropbearkey", "logger")
	syslog(t)
	d := scratch(t)
	must(t, "dropbearkey", "-t", "rsa", "-f", d+"/key")
	start(t, "dropbear", "-F", "-r", d+"/key", "-p", serverAddr+":22", "-P", d+"/pid").listening(t, "22")
	a := attack{
		// Unknown names are not in the log.
		logs: []string{"/var/log/auth.log"}, nameless: true, n: 20, own: 10, workers: 3, synced: flushed(t, "auth.info", "/var/log/auth.log"),
		plain: func(name string) error { return sshLogin("22", "x", "root") },
		try: func(p string) error {
			if err := sshLogin("22", printable(p), p); err != nil {
				return err
			}
			return say("22", true, p+"\r\n")
		},
	}
	a.run(t)
}

// unpacked finds a program that is installed, or was unpacked from its package
// because it cannot be installed beside another one.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	for _, p := range []string{path, "/opt/stoplog-test" + path} {
		if _, err := exec.LookPath(p); err == nil {
			return p
		}
	}
	need(t, path)
	return path
}
