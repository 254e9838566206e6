package cmd

import (
	"strings"
	"testing"
	"time"

	"stoplog/internal/control"
)

func TestPrintStatus(t *testing.T) {
	var b strings.Builder
	err := printStatus(&b, control.Status{
		State:   "degraded",
		Trouble: []string{"iptables: exit status 4: Can't lock\nAnother app holds it.\n"},
		Sources: []control.SourceStatus{
			{Name: "/var/log/auth.log", State: "following", Lines: 3, Ready: "ssh"},
			{Name: "/srv/typo.log", State: "waiting", Why: "missing"},
			{Name: "/var/log/mail.log", State: "waiting", Why: "unreadable: permission denied", Ready: "mail"},
			{Name: "/var/log/caddy/*.log", State: "waiting", Why: "no file matches", Ready: "web"},
			{Name: "/var/log/vsftpd.log", State: "waiting", Why: "missing", Ready: "ftp"},
		},
		Backends: []control.WallStatus{{Name: "iptables", State: "iptables: exit status 4: Can't lock\nAnother app holds it.\n"}},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"! iptables: exit status 4: Can't lock; Another app holds it.\n", "/srv/typo.log", "/var/log/mail.log", "(2 more places", "failing, see above"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	for _, no := range []string{"caddy", "vsftpd"} {
		if strings.Contains(got, no) {
			t.Errorf("%s is told of:\n%s", no, got)
		}
	}
}
