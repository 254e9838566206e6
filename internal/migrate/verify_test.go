package migrate

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestVerify compares with fail2ban-regex on a log in which both find the same,
// but for a name and a line with two addresses.
func TestVerify(t *testing.T) {
	if _, err := exec.LookPath("fail2ban-regex"); err != nil {
		t.Skip("fail2ban is not installed")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "app.log")
	at := "2026-11-20 10:00:0"
	if err := os.WriteFile(log, []byte(at+"1 bad login by 192.0.2.1\n"+at+"2 bad login by 192.0.2.1\n"+at+"3 all is well\n"+
		at+"4 bad login by www.example.org\n"+at+"5 bad login by 198.51.100.9 bad login by 192.0.2.2\n"+at+"6 bad coupon of 2001:db8::1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	conf := config(t, map[string]string{
		"jail.local":        "[app]\nenabled = true\nmaxretry = 2\nfilter = app[what=coupon]\nlogpath = " + log + "\n[other]\nenabled = true\nfilter = app\nlogpath = /srv/other.log\n",
		"filter.d/app.conf": "[Definition]\nwhat = x\nfailregex = bad login by <HOST>\n ^ bad <what> of <HOST>$\n",
	})
	all, err := Verify(t.Context(), conf, []string{log}, time.Local)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v; want the one jail that reads the log", all, err)
	}
	c := all[0]
	if c.Jail != "app" || c.Lines != 6 || c.Theirs != 5 || c.Ours != 3 || c.Equal != 3 || c.BansTheirs != 1 || c.BansOurs != 1 {
		t.Errorf("got %+v", c)
	}
	if d := strings.Join(c.Differences, "\n"); len(c.Differences) != 2 || !strings.Contains(d, "names are never looked up") || !strings.Contains(d, "two addresses") {
		t.Errorf("got the differences %s", d)
	}
}

func TestBans(t *testing.T) {
	got, err := ReadBans(strings.NewReader("[{'sshd': ['192.0.2.1', '2001:db8::1']}, {'none': []}, {'my jail': ['10.0.0.0/8', 'a name']}]\n"))
	want := []Ban{{"192.0.2.1", "sshd"}, {"2001:db8::1", "sshd"}, {"10.0.0.0/8", "my-jail"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := ReadBans(strings.NewReader("something else")); err == nil {
		t.Error("what is no list of bans was read")
	}
}
