package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// A log of generated lines, replayed with the ready rules at the lines' own time.

// written collects the lines of one log, each with its instant.
type written struct {
	service, format string
	lines           []string
	stamp           func(time.Time) string
}

var monday = time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)

func (w *written) at(d time.Duration, format string, args ...any) {
	at := monday.Add(d)
	// The first field sorts the lines, and is cut off before they are replayed.
	w.lines = append(w.lines, at.Format("2006-01-02T15:04:05.000 ")+w.stamp(at)+fmt.Sprintf(format, args...))
}

// blocks replays the lines in the order of their instants.
func (w *written) blocks(t *testing.T) (out []Answer, prevented uint64) {
	t.Helper()
	set, problems := rules.LoadBytes("test.yaml", []byte("use: [auto, voip]\n"), "")
	if set == nil {
		t.Fatal(problems)
	}
	slices.SortStableFunc(w.lines, func(a, b string) int { return strings.Compare(a[:23], b[:23]) })
	var text strings.Builder
	for _, l := range w.lines {
		text.WriteString(l[24:] + "\n")
	}
	o := Options{Set: set, Files: []string{"-"}, Stdin: strings.NewReader(text.String()), Service: w.service, Format: w.format, Zone: time.UTC}
	sum, err := Run(context.Background(), o, func(a Answer) error {
		if a.Kind == Block {
			out = append(out, a)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Events < sum.Lines*9/10 {
		t.Fatalf("only %d of %d lines were understood", sum.Events, sum.Lines)
	}
	return out, sum.Prevented
}

func syslog(host string) func(time.Time) string {
	return func(at time.Time) string { return at.Format(time.RFC3339Nano) + " " + host + " " }
}

func authLog() *written { return &written{stamp: syslog("h")} }
func mailLog() *written { return &written{stamp: syslog("h")} }

func accessLog() *written {
	return &written{format: "combined", stamp: func(at time.Time) string { return at.Format("[02/Jan/2006:15:04:05 -0700] ") }}
}

// connection writes one to sshd: wrong passwords three seconds apart, and then
// the right one, unless there is none.
func (w *written) connection(d time.Duration, pid int, user, from string, wrong int, right bool) {
	for i := range wrong {
		w.at(d+time.Duration(i)*3*time.Second, "sshd[%d]: Failed password for %s from %s port 40312 ssh2", pid, user, from)
	}
	if right {
		w.at(d+time.Duration(wrong)*3*time.Second, "sshd[%d]: Accepted password for %s from %s port 40312 ssh2", pid, user, from)
	} else {
		w.at(d+time.Duration(wrong)*3*time.Second, "sshd[%d]: Connection closed by authenticating user %s %s port 40312 [preauth]", pid, user, from)
	}
}

// request writes one to a web server.
func (w *written) request(d time.Duration, from, user, request string, status int) {
	at := monday.Add(d)
	w.lines = append(w.lines, at.Format("2006-01-02T15:04:05.000 ")+
		fmt.Sprintf(`%s - %s [%s] "%s HTTP/1.1" %d 120 "-" "curl/8"`, from, user, at.Format("02/Jan/2006:15:04:05 -0700"), request, status))
}

func (w *written) imap(d time.Duration, from, user string, right bool) {
	if right {
		w.at(d, "dovecot: imap-login: Login: user=<%s>, method=PLAIN, rip=%s, lip=198.51.100.1, mpid=%d, TLS, session=<s%d>", user, from, len(w.lines), len(w.lines))
		return
	}
	w.at(d, "dovecot: imap-login: Disconnected (auth failed, 1 attempts in 2 secs): user=<%s>, method=PLAIN, rip=%s, lip=198.51.100.1, TLS, session=<s%d>", user, from, len(w.lines))
}

const aDay = 24 * time.Hour

// TestHonestPeople replays what people and their machines do who mean no harm,
// and holds how long they are blocked at most, in all and at once.
func TestHonestPeople(t *testing.T) {
	const home = "192.0.2.9"
	for _, c := range []struct {
		name    string
		log     func() *written
		longest time.Duration // of one block; 0: none
		most    time.Duration // of all together
	}{
		{"SSH: five people of an office mistype on Monday morning", func() *written {
			w := authLog()
			for i := range 5 {
				user := fmt.Sprint("person", i)
				w.connection(time.Duration(i)*4*time.Minute, 100+i, user, home, 3, false)
				w.connection(time.Duration(i)*4*time.Minute+20*time.Second, 200+i, user, home, 1, true)
			}
			return w
		}, 0, 0},
		{"SSH: a family of four behind one IPv6 /64, with a new address every day", func() *written {
			w := authLog()
			for day := range 30 {
				for i := range 4 {
					from := fmt.Sprintf("2001:db8:1:2:%x:%x::%x", day*7+1, i*31+5, day+i+1)
					w.connection(time.Duration(day)*aDay+time.Duration(i)*time.Minute, 100+day*4+i, fmt.Sprint("person", i), from, 2, true)
				}
			}
			return w
		}, 0, 0},
		{"SSH: an account mistyped in one connection with two passwords, and the right one", func() *written {
			w := authLog()
			w.at(0, "sshd[7]: Invalid user jonh from %s port 40312", home)
			for i := range 2 {
				w.at(time.Duration(5+4*i)*time.Second, "sshd[7]: Failed password for invalid user jonh from %s port 40312 ssh2", home)
			}
			w.at(12*time.Second, "sshd[7]: Connection closed by invalid user jonh %s port 40312 [preauth]", home)
			w.connection(20*time.Second, 8, "john", home, 1, true)
			return w
		}, 0, 0},
		{"SSH: a job whose key is refused every ten minutes for a day, after it was good", func() *written {
			w := authLog()
			w.at(-time.Hour, "sshd[6]: Accepted publickey for deploy from %s port 40312 ssh2: ED25519 SHA256:abc", home)
			for i := range 144 {
				w.at(time.Duration(i)*10*time.Minute, "sshd[%d]: Connection closed by authenticating user deploy %s port 40312 [preauth]", 100+i, home)
			}
			return w
		}, 0, 0},
		{"SSH: a job with a key that never was good, five times an hour for a morning", func() *written {
			w := authLog()
			for i := range 20 {
				w.at(time.Duration(i)*12*time.Minute, "sshd[%d]: Connection closed by authenticating user deploy %s port 40312 [preauth]", 100+i, home)
			}
			return w
		}, 6 * time.Hour, 7 * time.Hour},
		{"SSH: a monitor every minute, and eleven at once every hour", func() *written {
			w := authLog()
			for i := range 2 * 24 * 60 {
				n := 1
				if i%60 == 0 {
					n = 11
				}
				for range n {
					w.at(time.Duration(i)*time.Minute, "sshd[%d]: Connection closed by %s port 40312 [preauth]", len(w.lines)%30000+2, home)
				}
			}
			return w
		}, 0, 0},
		{"SSH: a backup whose host tcp_wrappers refuses twice a minute", func() *written {
			w := authLog()
			for i := range 2 * 24 * 60 {
				w.at(time.Duration(i)*30*time.Second, "sshd[%d]: refused connect from %s (%s)", i+2, home, home)
			}
			return w
		}, 0, 0},
		{"mail: a phone with an old password every minute for a day", func() *written {
			w := mailLog()
			for i := range 24 * 60 {
				w.imap(time.Duration(i)*time.Minute, home, "ann@example.org", false)
			}
			return w
		}, 0, 0},
		{"mail: a mail program with an old password, five connections every five minutes for a day", func() *written {
			w := mailLog()
			for i := range 24 * 12 * 5 {
				w.imap(time.Duration(i/5)*5*time.Minute, home, "ann@example.org", false)
			}
			return w
		}, 0, 0},
		{"mail: the webmail of a thousand users at one address", func() *written {
			w := mailLog()
			for i := range 2000 {
				at := time.Duration(i) * 5 * time.Second
				user := fmt.Sprintf("u%d@example.org", i%1000)
				if i >= 10 && i%40 == 0 {
					w.imap(at, home, user, false)
				}
				w.imap(at+2*time.Second, home, user, true)
			}
			return w
		}, 0, 0},
		{"FTP: a deployment with an old password, three tries every hour for a working day", func() *written {
			w := &written{service: "vsftpd", stamp: func(at time.Time) string { return at.Format("Mon Jan _2 15:04:05 2006 ") }}
			for i := range 8 {
				for k := range 3 {
					w.at(time.Duration(i)*time.Hour+time.Duration(k)*time.Second, `[pid %d] [deploy] FAIL LOGIN: Client "%s"`, 100+i*3+k, home)
				}
			}
			return w
		}, time.Hour, 5 * time.Hour},
		{"web: a job with a wrong token, three tries every five minutes for a day", func() *written {
			w := accessLog()
			for i := range 24 * 12 * 3 {
				w.request(time.Duration(i/3)*5*time.Minute+time.Duration(i%3)*2*time.Second, home, "ci", "GET /v2/", 401)
			}
			return w
		}, 0, 0},
		{"WordPress: five people of an office mistype three times", func() *written {
			w := accessLog()
			for i := range 5 {
				for k := range 3 {
					w.request(time.Duration(i)*2*time.Minute+time.Duration(k)*8*time.Second, home, "-", "POST /wp-login.php", 200)
				}
				w.request(time.Duration(i)*2*time.Minute+30*time.Second, home, "-", "POST /wp-login.php", 302)
			}
			return w
		}, 0, 0},
		{"a database: an application with a wrong password, ten times a second for twenty minutes", func() *written {
			w := &written{service: "mysql", stamp: func(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000Z ") }}
			for i := range 20 * 60 * 10 {
				w.at(time.Duration(i)*100*time.Millisecond, "%d [Note] Access denied for user 'app'@'%s' (using password: YES)", i+8, home)
			}
			return w
		}, 10 * time.Minute, 20 * time.Minute},
	} {
		bs, _ := c.log().blocks(t)
		var sum time.Duration
		for _, b := range bs {
			sum += b.TTL
			if b.TTL > c.longest {
				t.Errorf("%s: blocked for %v by %s at %s (%s)", c.name, b.TTL, b.Rule, b.At.Format("02 15:04:05"), b.Counted())
				break
			}
		}
		if sum > c.most {
			t.Errorf("%s: blocked for %v in %d blocks, want at most %v", c.name, sum, len(bs), c.most)
		}
	}
}

// TestGuessersAreStopped replays those who guess beside the honest above, and
// holds how many of their attempts get through.
func TestGuessersAreStopped(t *testing.T) {
	const from = "203.0.113.5"
	for _, c := range []struct {
		name string
		log  func() *written
		most int // attempts that get through
	}{
		{"WordPress: 889 logins 45 seconds apart", func() *written {
			w := accessLog()
			for i := range 889 {
				w.request(time.Duration(i)*45*time.Second, from, "-", "POST /wp-login.php", 200)
			}
			return w
		}, 110},
		{"WordPress: 889 calls of xmlrpc.php 20 seconds apart", func() *written {
			w := accessLog()
			for i := range 889 {
				w.request(time.Duration(i)*20*time.Second, from, "-", "POST /xmlrpc.php", 200)
			}
			return w
		}, 300},
		{"mail: one account, a password a second for a day", func() *written {
			w := mailLog()
			for i := range 24 * 60 * 60 {
				w.imap(time.Duration(i)*time.Second, from, "ann@example.org", false)
			}
			return w
		}, 300},
		{"mail: one account, a password every twenty seconds for a day", func() *written {
			w := mailLog()
			for i := range 24 * 60 * 3 {
				w.imap(time.Duration(i)*20*time.Second, from, "ann@example.org", false)
			}
			return w
		}, 3500},
		{"mail: one account, a password a minute for a week", func() *written {
			w := mailLog()
			for i := range 7 * 24 * 60 {
				w.imap(time.Duration(i)*time.Minute, from, "ann@example.org", false)
			}
			return w
		}, 4000},
		{"mail: a thousand accounts, one a minute", func() *written {
			w := mailLog()
			for i := range 1000 {
				w.imap(time.Duration(i)*time.Minute, from, fmt.Sprintf("u%d@example.org", i), false)
			}
			return w
		}, 60},
		{"SSH: five hundred names that do not exist, one an hour", func() *written {
			w := authLog()
			for i := range 500 {
				w.at(time.Duration(i)*time.Hour, "sshd[%d]: Invalid user n%d from %s port 40312", i+2, i, from)
			}
			return w
		}, 10},
		{"SSH: root, a password a minute in connections of three", func() *written {
			w := authLog()
			for i := range 1500 {
				w.at(time.Duration(i/3)*time.Minute+time.Duration(i%3)*3*time.Second, "sshd[%d]: Failed password for root from %s port 40312 ssh2", i/3+2, from)
			}
			return w
		}, 12},
		{"web: one account, two passwords a second", func() *written {
			w := accessLog()
			for i := range 7200 {
				w.request(time.Duration(i)*500*time.Millisecond, from, "admin", "GET /admin/", 401)
			}
			return w
		}, 60},
		{"a database: ten accounts, one every two minutes", func() *written {
			w := &written{service: "mysql", stamp: func(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000Z ") }}
			for i := range 500 {
				w.at(time.Duration(i)*2*time.Minute, "%d [Note] Access denied for user 'u%d'@'%s' (using password: YES)", i+8, i%10, from)
			}
			return w
		}, 60},
	} {
		w := c.log()
		_, prevented := w.blocks(t)
		if through := len(w.lines) - int(prevented); through > c.most {
			t.Errorf("%s: %d of %d lines got through, want at most %d", c.name, through, len(w.lines), c.most)
		}
	}
}
