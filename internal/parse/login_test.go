package parse

import (
	"strings"
	"testing"
)

func TestLogins(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		// sudo, logging.c
		{"h sudo:      ann : 3 incorrect password attempts ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/bin/sh", "failure user=ann"},
		{"h sudo[7]:      ann : 1 incorrect password attempt ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/bin/sh", "failure user=ann"},
		{"h sudo:     bob : user NOT in sudoers ; TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/bin/sh", "failure forbidden user=bob"},
		{"h sudo:     ann : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/bin/sh", "other user=ann"},
		{"h sudo: pam_unix(sudo:session): session opened for user root(uid=0) by ann(uid=1000)", "-"},
		// su
		{"h su[7]: FAILED SU (to root) ann on pts/0", "failure user=root"},
		{"h su: BAD SU ann to root on /dev/pts/1", "failure user=root"},
		{"h su: (to root) ann on pts/0", "other user=root"},
		{"h su: Successful su for root by ann", "other user=root"},
		// login
		{"h login[7]: FAILED LOGIN 1 FROM 192.0.2.7 FOR root, Authentication failure", "failure 192.0.2.7 user=root"},
		{"h login[7]: FAILED LOGIN 2 FROM 192.0.2.7 FOR x, User not known to the underlying authentication module", "failure unknown_user 192.0.2.7 user=x"},
		{"h login[7]: FAILED LOGIN SESSION FROM 192.0.2.7 FOR root, Error in service module", "failure 192.0.2.7 user=root"},
		{"h login[7]: FAILED LOGIN (1) on '/dev/pts/1' from '192.0.2.7' FOR 'root', Authentication failure", "failure 192.0.2.7 user=root"},
		{"h login[7]: FAILED LOGIN 1 FROM tty1 FOR root, Authentication failure", "-"},
		{"h login: 3 LOGIN FAILURES FROM 192.0.2.7, root", "failure 192.0.2.7 user=root"},
		{"h login: 1 LOGIN FAILURE FROM 192.0.2.7", "failure 192.0.2.7"},
		{"h in.telnetd[7]: refused connect from 192.0.2.7 (192.0.2.7)", "failure probe 192.0.2.7"},
		// dropbear
		{"h dropbear[7]: Bad password attempt for 'root' from 192.0.2.7:40312", "failure 192.0.2.7 user=root"},
		{"h dropbear[7]: Bad password attempt for 'root' from ::ffff:192.0.2.7:40312", "failure 192.0.2.7 user=root"},
		{"h dropbear[7]: Bad PAM password attempt for 'root' from 2001:db8::7:40312", "failure 2001:db8::7 user=root"},
		{"h dropbear[7]: Bad password attempt for 'root' from 2001:db8::7:4031", "failure 2001:db8::7 user=root"},
		{"h dropbear[7]: Login attempt for nonexistent user from 192.0.2.7:40312", "failure unknown_user 192.0.2.7"},
		{"h dropbear[7]: Login attempt for nonexistent user 'x' from 192.0.2.7:40312", "failure unknown_user 192.0.2.7 user=x"},
		{"h dropbear[7]: Login attempt with wrong user x from 192.0.2.7:40312", "failure 192.0.2.7 user=x"},
		{"h dropbear[7]: Login attempt with wrong user x from 2001:db8::7:40312", "failure 2001:db8::7 user=x"},
		{"h dropbear[7]: Exit before auth (user 'root', 3 fails): Max auth tries reached - user 'root' from 192.0.2.7:40312", "failure 192.0.2.7 user=root"},
		{"h dropbear[7]: Exit before auth from <192.0.2.7:40312>: (user 'root', 3 fails): Max auth tries reached - user 'root'", "failure 192.0.2.7 user=root"},
		{"h dropbear[7]: Exit before auth from <192.0.2.7:40312>: Timeout before auth", "other probe 192.0.2.7"},
		{"h dropbear[7]: Exit before auth: Exited normally", "other probe"},
		{"h dropbear[7]: Password auth succeeded for 'root' from 192.0.2.8:40312", "success 192.0.2.8 user=root"},
		{"h dropbear[7]: Pubkey auth succeeded for 'root' with ssh-ed25519 key SHA256:abc from 192.0.2.8:40312", "success 192.0.2.8 user=root"},
		{"h dropbear[7]: Password auth succeeded for 'root' from 192.0.2.8:40312, extra auth required", "other 192.0.2.8 user=root"},
		{"h dropbear[7]: Child connection from 192.0.2.7:40312", "other 192.0.2.7"},
		{"h dropbear[7]: Exit (root) from <192.0.2.8:40312>: Disconnect received", "-"},
	} {
		line := "Nov 20 09:23:10 " + c.line
		ev, ok := readLine(t, Options{}, line)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", line, got, c.want)
		}
	}
}

var loginHostile = []string{
	"login[7]: FAILED LOGIN 1 FROM 192.0.2.7 FOR @, Authentication failure",
	"login[7]: FAILED LOGIN (1) on '/dev/pts/1' from '192.0.2.7' FOR '@', Authentication failure",
	"login: 1 LOGIN FAILURE FROM 192.0.2.7, @",
	"dropbear[7]: Bad password attempt for '@' from 192.0.2.7:40312",
	"dropbear[7]: Login attempt for nonexistent user '@' from 192.0.2.7:40312",
	"dropbear[7]: Login attempt with wrong user @ from 192.0.2.7:40312",
	"dropbear[7]: Exit before auth from <192.0.2.7:40312>: (user '@', 3 fails): Max auth tries reached - user '@'",
	"dropbear[7]: Exit before auth (user '@', 3 fails): Max auth tries reached - user '@' from 192.0.2.7:40312",
	"dropbear[7]: Exit before auth from <192.0.2.7:40312>: Incompatible remote version '@'",
	"sudo:   ann : 3 incorrect password attempts ; TTY=pts/0 ; PWD=/@ ; USER=root ; COMMAND=/bin/sh @",
	"su[7]: FAILED SU (to @) ann on pts/0",
}

func TestLoginsHostile(t *testing.T) {
	for _, msg := range loginHostile {
		for _, v := range victims {
			hostile(t, "Nov 20 09:23:10 h "+msg, v)
		}
	}
}

func FuzzLoginUser(f *testing.F) {
	for i, v := range victims {
		f.Add(uint8(i), v)
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		if strings.ContainsAny(text, "\n@") || strings.Contains(text, "192.0.2.7") {
			return
		}
		hostile(t, "Nov 20 09:23:10 h "+loginHostile[int(i)%len(loginHostile)], text)
	})
}

func TestAudit(t *testing.T) {
	const tail = ` exe="/usr/sbin/sshd" hostname=? addr=192.0.2.7 terminal=ssh res=`
	head := func(kind string) string {
		return "type=" + kind + " msg=audit(1795170190.123:9): pid=1277 uid=0 auid=4294967295 ses=4294967295 subj=unconfined msg='"
	}
	for _, c := range []struct{ line, want string }{
		{head("USER_AUTH") + `op=password acct="root"` + tail + "failed'", "failure 192.0.2.7 user=root"},
		{head("USER_AUTH") + `op=PAM:authentication grantors=? acct="root"` + tail + `failed'UID="root" AUID="unset"`, "failure 192.0.2.7 user=root"},
		{head("USER_ERR") + `op=PAM:bad_ident acct="?"` + tail + "failed'", "failure 192.0.2.7 user=?"},
		{head("USER_LOGIN") + `op=login acct=28696E76616C6964207573657229` + tail + "failed'", "failure unknown_user 192.0.2.7"},
		{head("USER_LOGIN") + `op=login id=1000` + tail + "success'", "success 192.0.2.7"},
		{head("USER_AUTH") + `op=pubkey acct="ann"` + tail + "success'", "other 192.0.2.7 user=ann"},
		{head("CRYPTO_KEY_USER") + `op=destroy kind=server` + tail + "success'", "other 192.0.2.7"},
		{"node=h " + head("USER_AUTH") + `op=password acct="root"` + tail + "failed'", "failure 192.0.2.7 user=root"},
		{head("USER_AUTH") + `op=password acct="root" exe="/usr/bin/x" hostname=? addr=192.0.2.7 terminal=ssh res=failed'`, "-"},
		{head("USER_AUTH") + `op=password acct="root" exe="/usr/sbin/sshd" hostname=? addr=? terminal=ssh res=failed'`, "-"},
		{"type=SYSCALL msg=audit(1795170190.123:9): arch=c000003e syscall=59", "-"},
	} {
		ev, ok := readLine(t, Options{}, c.line)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
		if ok && ev.Time != 1795170190123e6 {
			t.Errorf("%s: time %d", c.line, ev.Time)
		}
	}
}
