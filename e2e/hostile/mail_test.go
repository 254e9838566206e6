package hostile

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestDovecot(t *testing.T) {
	need(t, "dovecot")
	d := scratch(t)
	put(t, d+"/users", "alice:{PLAIN}right\n")
	conf := put(t, d+"/dovecot.conf", fmt.Sprintf(`protocols = imap pop3
listen = %[2]s
base_dir = /run/dovecot
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
auth_verbose = yes
auth_failure_delay = 0
auth_username_format = %%u
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
log_path = /var/log/dovecot.log
passdb {
  driver = passwd-file
  args = %[1]s/users
}
userdb {
  driver = static
  args = uid=65534 gid=65534 home=/nonexistent
}
`, d, serverAddr))
	s := start(t, "dovecot", "-F", "-c", conf)
	s.listening(t, "143")
	s.listening(t, "110")
	a := attack{
		logs: []string{"/var/log/dovecot.log"}, workers: 32, n: 80, own: 60,
		plain: func(name string) error {
			return say("143", true, fmt.Sprintf("a LOGIN %q wrong\r\n", name), "b LOGOUT\r\n")
		},
		try: func(p string) error {
			sasl := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(p, "\x00", "") + "\x00" + strings.ReplaceAll(p, "\x00", "") + "\x00wrong"))
			for _, text := range []string{
				"a AUTHENTICATE PLAIN " + sasl + "\r\n",
				fmt.Sprintf("a LOGIN {%d+}\r\n%s {5+}\r\nwrong\r\n", len(p), p),
				fmt.Sprintf("a ID (\"name\" {%d+}\r\n%s)\r\n", len(p), p),
			} {
				if err := say("143", true, text, "b LOGOUT\r\n"); err != nil {
					return err
				}
			}
			return say("110", true, "USER "+headerText(p)+"\r\n", "PASS wrong\r\n", "QUIT\r\n")
		},
	}
	a.run(t)
}

// smtpTalk fills what a client says to a mail server.
func smtpTalk(p string) error {
	one := headerText(p)
	sasl := base64.StdEncoding.EncodeToString([]byte("\x00" + p + "\x00wrong"))
	for _, lines := range [][]string{
		{"HELO " + one + "\r\n", "MAIL FROM:<" + one + ">\r\n", "RCPT TO:<" + one + "@else.example>\r\n", "QUIT\r\n"},
		{"EHLO x\r\n", "AUTH PLAIN " + sasl + "\r\n", "MAIL FROM:<a@b.example>\r\n", "RCPT TO:<\"" + one + "\"@else.example>\r\n", "QUIT\r\n"},
		{p + "\r\n", "VRFY " + one + "\r\n", "QUIT\r\n"},
	} {
		if err := say("25", true, lines...); err != nil {
			return err
		}
	}
	return nil
}

func smtpPlain(name string) error {
	return say("25", true, "EHLO x\r\n", "MAIL FROM:<"+name+"@b.example>\r\n", "RCPT TO:<"+name+"@else.example>\r\n", "QUIT\r\n")
}

func TestPostfix(t *testing.T) {
	need(t, "postfix", "rsyslogd", "logger")
	syslog(t)
	d := scratch(t)
	if err := os.Chmod(d, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, d+"/main.cf", fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %[1]s/queue
data_directory = %[1]s/data
inet_interfaces = %[2]s
inet_protocols = ipv4
myhostname = h.example
mydestination =
local_recipient_maps =
smtpd_relay_restrictions = reject_unauth_destination
smtpd_error_sleep_time = 0
smtpd_client_connection_count_limit = 0
smtpd_soft_error_limit = 1000
`, d, serverAddr))
	var master strings.Builder
	for _, l := range []string{
		"smtp inet n - n - - smtpd", "pickup unix n - n 60 1 pickup", "cleanup unix n - n - 0 cleanup", "qmgr unix n - n 300 1 qmgr",
		"rewrite unix - - n - - trivial-rewrite", "bounce unix - - n - 0 bounce", "defer unix - - n - 0 bounce", "error unix - - n - - error",
		"anvil unix - - n - 1 anvil", "postlog unix-dgram n - n - 1 postlogd", "proxymap unix - - n - - proxymap",
	} {
		master.WriteString(l + "\n")
	}
	put(t, d+"/master.cf", master.String())
	for _, sub := range []string{"queue", "data"} {
		if err := os.Mkdir(d+"/"+sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "chown", "postfix", d+"/data")
	_ = exec.Command("postfix", "-c", d, "check").Run() // makes the queue's folders
	s := start(t, "postfix", "-c", d, "start-fg")
	t.Cleanup(func() { must(t, "postfix", "-c", d, "stop") }) // master leaves the process group
	s.listening(t, "25")
	a := attack{logs: []string{"/var/log/mail.log"}, workers: 16, n: 100, own: 100, try: smtpTalk, plain: smtpPlain, synced: flushed(t, "mail.info", "/var/log/mail.log")}
	a.run(t)
}

func TestExim(t *testing.T) {
	exim := unpacked(t, "/usr/sbin/exim4")
	need(t)
	d := scratch(t)
	accounts(t)
	if err := os.Chmod(dir(t, "/var/log/exim4"), 0o777); err != nil {
		t.Fatal(err)
	}
	dir(t, "/var/spool/exim4")
	conf := put(t, d+"/exim.conf", fmt.Sprintf(`primary_hostname = h.example
exim_user = Debian-exim
exim_group = Debian-exim
never_users = root
log_file_path = /var/log/exim4/%%slog
spool_directory = /var/spool/exim4
daemon_smtp_ports = 25
local_interfaces = %s
acl_smtp_rcpt = refuse
acl_smtp_helo = named
smtp_accept_max = 0
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
begin acl
named:
  accept
refuse:
  deny message = relay not permitted
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_advertise_condition = yes
  server_prompts = :
  server_condition = no
  server_set_id = $auth2
`, serverAddr))
	start(t, exim, "-C", conf, "-bdf").listening(t, "25")
	a := attack{logs: []string{"/var/log/exim4/mainlog"}, workers: 16, n: 80, own: 60, try: smtpTalk, plain: smtpPlain}
	a.run(t)
}

// accounts adds the account that Debian's package of Exim makes.
func accounts(t *testing.T) {
	t.Helper()
	for file, line := range map[string]string{"passwd": "Debian-exim:x:987:987::/var/spool/exim4:/usr/sbin/nologin\n", "group": "Debian-exim:x:987:\n"} {
		b, err := os.ReadFile("/etc/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "Debian-exim:") {
			continue
		}
		must(t, "mount", "--bind", put(t, scratch(t)+"/"+file, string(b)+line), "/etc/"+file)
		t.Cleanup(func() { must(t, "umount", "/etc/"+file) })
	}
}
