package hostile

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
)

// ftpLogin fails a login, and sends the payload as a command of its own.
func ftpLogin(p string) error {
	errs := make(chan error) // at the same time, because servers answer failures late
	one := strings.NewReplacer("\n", "\v", "\r", "\v").Replace(p)
	attempts := [][]string{
		{"USER " + one + "\r\n", "PASS " + one + "\r\n", "QUIT\r\n"},
		{"USER x\x00" + one + "\r\n", "PASS x\r\n", "QUIT\r\n"},
		{"USER " + p + "\r\n", "PASS x\r\n", "QUIT\r\n"},
		{one + "\r\n", "SITE " + one + "\r\n", "QUIT\r\n"},
	}
	for _, lines := range attempts {
		go func() { errs <- say("21", true, lines...) }()
	}
	var err error
	for range attempts {
		err = cmp.Or(<-errs, err)
	}
	return err
}

func ftpPlain(name string) error {
	return say("21", true, "USER "+name+"\r\n", "PASS wrong\r\n", "QUIT\r\n")
}

func TestVsftpd(t *testing.T) {
	vsftpd := unpacked(t, "/usr/sbin/vsftpd")
	need(t)
	d := scratch(t)
	conf := put(t, d+"/vsftpd.conf", fmt.Sprintf(`listen=YES
listen_address=%s
background=NO
anonymous_enable=NO
local_enable=YES
xferlog_enable=YES
log_ftp_protocol=YES
xferlog_std_format=NO
vsftpd_log_file=/var/log/vsftpd.log
secure_chroot_dir=%s
delay_failed_login=0
max_per_ip=0
max_login_fails=5
isolate_network=NO
seccomp_sandbox=NO
`, serverAddr, dir(t, d+"/empty")))
	if err := os.Chmod(d+"/empty", 0o555); err != nil {
		t.Fatal(err)
	}
	start(t, vsftpd, conf).listening(t, "21")
	a := attack{logs: []string{"/var/log/vsftpd.log"}, n: 30, own: 30, workers: 16, try: ftpLogin, plain: ftpPlain}
	a.run(t)
}

func TestProFTPD(t *testing.T) {
	proftpd := unpacked(t, "/usr/sbin/proftpd")
	need(t)
	d, log := scratch(t), dir(t, "/var/log/proftpd")
	conf := put(t, d+"/proftpd.conf", fmt.Sprintf(`ServerName h
ServerType standalone
DefaultAddress %[2]s
SocketBindTight on
Port 21
User nobody
Group nogroup
UseReverseDNS off
UseIPv6 off
WtmpLog off
TransferLog none
PidFile %[1]s/pid
ScoreboardFile %[1]s/run/scoreboard
AuthOrder mod_auth_unix.c
MaxInstances 500
MaxLoginAttempts 5
`, d, serverAddr))
	said, err := os.Create(log + "/proftpd.log")
	if err != nil {
		t.Fatal(err)
	}
	put(t, d+"/run/x", "") // a folder that others cannot write
	// In the foreground it prints what goes to its SystemLog otherwise.
	startInto(t, said, proftpd, "-n", "-c", conf).listening(t, "21")
	a := attack{logs: []string{log + "/*.log"}, n: 60, own: 60, workers: 16, try: ftpLogin, plain: ftpPlain}
	a.run(t)
}

func TestPureFTPd(t *testing.T) {
	pure := unpacked(t, "/usr/sbin/pure-ftpd")
	need(t, "rsyslogd", "logger")
	syslog(t)
	start(t, pure, "-4", "-S", serverAddr+",21", "-E", "-H", "-c", "500", "-C", "500", "-g", scratch(t)+"/pid", "-l", "unix").listening(t, "21")
	a := attack{logs: []string{"/var/log/syslog"}, n: 16, own: 16, workers: 128, synced: flushed(t, "ftp.info", "/var/log/syslog"), try: ftpLogin, plain: ftpPlain}
	a.run(t)
}
