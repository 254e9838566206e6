package parse

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestExportedJournal(t *testing.T) {
	const rest = `"__REALTIME_TIMESTAMP":"1795166590123456","_PID":"12","_TRANSPORT":"syslog"`
	for _, c := range []struct{ line, want string }{
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Failed password for root from 192.0.2.7 port 22 ssh2",` + rest + `}`, "failure 192.0.2.7 user=root"},
		{`{"__CURSOR":"s=1;i=2","_COMM":"sshd-session","MESSAGE":"Invalid user a\"b from 192.0.2.7 port 22","_CMDLINE":"x","_CAP":null,"X":[1,2],` + rest + ` }`, `failure unknown_user 192.0.2.7 user=a"b`},
		{`{"SYSLOG_IDENTIFIER":"myapp","MESSAGE":"Failed password for root from 192.0.2.7 port 22 ssh2",` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"stoplog","MESSAGE":"login failed from 192.0.2.7",` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":[70,97,105],` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"","x":1,` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"x","MESSAGE":"Invalid user x from 192.0.2.7","SYSLOG_IDENTIFIER":"sshd",` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7",` + rest, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7",` + rest + `} x`, "-"},

		// What is not all text comes as an array of its bytes.
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":[` + bytesOf("Invalid user a\x00b from 192.0.2.7 port 22") + `],` + rest + `}`, "failure unknown_user 192.0.2.7 user=a\x00b"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":[73, 256],` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":["a"],` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":[],` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":null,` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":["sshd","x"],"MESSAGE":"Invalid user x from 192.0.2.7",` + rest + `}`, "-"},

		// Who wrote it counts as in the journal.
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7","_UID":"0","_SYSTEMD_UNIT":"ssh.service",` + rest + `}`, "failure unknown_user 192.0.2.7 user=x"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7","_UID":"0","_EXE":"/usr/sbin/sshd","_SYSTEMD_UNIT":"session-1.scope",` + rest + `}`, "failure unknown_user 192.0.2.7 user=x"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7","_UID":"1000",` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7","_UID":"0","CONTAINER_NAME":"x","_SYSTEMD_UNIT":"docker.service",` + rest + `}`, "-"},
		{`{"SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.7","_UID":"0","_SYSTEMD_UNIT":"ssh.service","_LINE_BREAK":"nul",` + rest + `}`, "-"},
	} {
		ev, ok := readLine(t, Options{}, c.line)
		if got := brief(&ev, ok); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
		}
		if ok && (ev.Time != time.Date(2026, 11, 20, 9, 23, 10, 123456000, time.UTC).UnixNano() || ev.Verified || ev.Conn == 0) {
			t.Errorf("%s\nat %v, verified %v, connection %x", c.line, time.Unix(0, ev.Time).UTC(), ev.Verified, ev.Conn)
		}
	}
}

func bytesOf(s string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(s)), " ", ","), "[]")
}

// FuzzExportedJournal: a message is its tag's, whatever it holds.
func FuzzExportedJournal(f *testing.F) {
	for _, s := range []string{"x", `","SYSLOG_IDENTIFIER":"sshd","MESSAGE":"Invalid user x from 192.0.2.99`, `\"`, "\n"} {
		f.Add(s)
	}
	p := daemonParser(f, "")
	f.Fuzz(func(t *testing.T, s string) {
		ev, ok := parseOne(t, p, fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"1795166590123456","SYSLOG_IDENTIFIER":"sshd","MESSAGE":%q}`, "Invalid user "+s+" from 192.0.2.7 port 22"))
		if ok && ev.Addr.IsValid() && ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%q blames %v", s, ev.Addr)
		}
		p.Reset()
	})
}
