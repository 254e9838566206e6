package parse

import (
	"strings"
	"testing"
)

func TestPAM(t *testing.T) {
	for _, c := range []struct{ line, service, want string }{
		{"h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root", "sshd", "failure 192.0.2.7 user=root"},
		{"h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7 ", "sshd", "failure 192.0.2.7"},
		{"h sshd-session[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=2001:db8::7  user=root", "sshd", "failure 2001:db8::7 user=root"},
		{"h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=h.example  user=root", "sshd", "failure user=root"},
		{"h sshd[1]: pam_sss(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7 user=ann", "sshd", "failure 192.0.2.7 user=ann"},
		{"h sshd[1]: pam_ldap(sshd:auth): Authentication failure; user=ann", "sshd", "-"},
		{"h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=face  user=root", "sshd", "failure user=root"},
		{"h sshd[1]: pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=fe80::7  user=root", "sshd", "failure user=root"},
		{"h sshd[1]: PAM 2 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root", "sshd", "failure 192.0.2.7 user=root"},
		{"h sshd[1]: PAM 1 more authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root", "sshd", "failure 192.0.2.7 user=root"},
		{"h sshd[1]: (pam_unix) authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root", "sshd", "failure 192.0.2.7 user=root"},
		{"h sshd(pam_unix)[1]: authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=192.0.2.7  user=root", "sshd", "failure 192.0.2.7 user=root"},
		{"h login(pam_unix)[1]: 3 more authentication failures; logname= uid=0 euid=0 tty=tty1 ruser= rhost=192.0.2.7  user=root", "login", "failure 192.0.2.7 user=root"},
		{"h vsftpd: pam_unix(vsftpd:auth): authentication failure; logname= uid=0 euid=0 tty=ftp ruser=bob rhost=192.0.2.7  user=bob", "vsftpd", "failure 192.0.2.7 user=bob"},
		{"h vsftpd: pam_unix(vsftpd:auth): authentication failure; logname= uid=0 euid=0 tty=ftp ruser=bob rhost=::ffff:192.0.2.7 ", "vsftpd", "failure 192.0.2.7"},
		{"h sudo: pam_unix(sudo:auth): authentication failure; logname=ann uid=1000 euid=0 tty=/dev/pts/1 ruser=ann rhost=  user=ann", "sudo", "failure user=ann"},
		{"h newd[5]: pam_unix(newd:auth): authentication failure; logname= uid=0 euid=0 tty= ruser= rhost=192.0.2.7  user=x", "pam", "failure 192.0.2.7 user=x"},
		{"pam_unix(cockpit:auth): authentication failure; logname= uid=0 euid=0 tty= ruser= rhost=192.0.2.7 user=root", "cockpit", "failure 192.0.2.7 user=root"},
		{"h sshd[1]: pam_unix(sshd:auth): check pass; user unknown", "sshd", "-"},
		{"h sshd[1]: pam_unix(sshd:session): session opened for user ann by (uid=0)", "sshd", "-"},
		{"h sshd[1]: pam_access(sshd:account): access denied for user `ann' from `192.0.2.7'", "sshd", "failure forbidden 192.0.2.7 user=ann"},
		{"h sshd[1]: pam_access(sshd:account): access denied for user `ann' from `h.example'", "sshd", "-"},
		{"h sshd[1]: pam_unix(sshd:session): session closed for user ann", "sshd", "-"},
		{"h sshd[1]: pam_env(sshd:session): deprecated reading of user environment enabled", "sshd", "-"},
	} {
		line := c.line
		if strings.HasPrefix(line, "h ") {
			line = "Nov 20 09:23:10 " + line
		}
		ev, ok := readLine(t, Options{}, line)
		if got := brief(&ev, ok); got != c.want || ok && ev.Service != c.service {
			t.Errorf("%s\n got %s %s\nwant %s %s", line, got, ev.Service, c.want, c.service)
		}
	}
}

func TestPAMCounts(t *testing.T) {
	ev, ok := readLine(t, Options{}, "Nov 20 09:23:10 h sshd[1]: PAM 2 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=root")
	if !ok || ev.Count != 2 {
		t.Errorf("count = %d, %v, want 2", ev.Count, ok)
	}
}

var pamHostile = []string{
	"pam_access(sshd:account): access denied for user `@' from `192.0.2.7'",
	"pam_unix(sshd:auth): authentication failure; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=@",
	"pam_unix(vsftpd:auth): authentication failure; logname= uid=0 euid=0 tty=ftp ruser=@ rhost=192.0.2.7  user=@",
	"pam_unix(vsftpd:auth): authentication failure; logname= uid=0 euid=0 tty=ftp ruser=@ rhost=192.0.2.7 ",
	"pam_unix(dovecot:auth): authentication failure; logname= uid=0 euid=0 tty=dovecot ruser=@ rhost=192.0.2.7  user=@",
	"pam_unix(newd:auth): authentication failure; logname= uid=0 euid=0 tty= ruser=a@ rhost=192.0.2.7 ",
	"PAM 2 more authentication failures; logname= uid=0 euid=0 tty=ssh ruser= rhost=192.0.2.7  user=@",
}

func TestPAMHostile(t *testing.T) {
	for _, msg := range pamHostile {
		for _, v := range victims {
			hostile(t, "Nov 20 09:23:10 h vsftpd[7]: "+msg, v)
			hostile(t, "Nov 20 09:23:10 h sshd[7]: "+msg, v)
		}
	}
}

func FuzzPAMUser(f *testing.F) {
	for i, v := range victims {
		f.Add(uint8(i), v)
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		if strings.ContainsAny(text, "\n@") || strings.Contains(text, "192.0.2.7") {
			return
		}
		hostile(t, "Nov 20 09:23:10 h vsftpd[7]: "+pamHostile[int(i)%len(pamHostile)], text)
	})
}
