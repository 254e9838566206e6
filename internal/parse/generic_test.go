package parse

import (
	"strings"
	"testing"
)

func TestGeneric(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"Nov 20 09:23:10 h newd[5]: Login failed from 192.0.2.7", "failure 192.0.2.7"},
		{"Nov 20 09:23:10 h newd[5]: newd: authentication failure from 192.0.2.7", "failure 192.0.2.7"},
		{"Nov 20 09:23:10 newd[5]: Too many authentication failures from [2001:db8::7]:4711", "failure 2001:db8::7"},
		{"Nov 20 09:23:10 h newd: Failed login attempt from ::ffff:192.0.2.7 port 4711", "failure 192.0.2.7"},
		{"Nov 20 09:23:10 h kernel: [  970.699396] NEW: Invalid password from 192.0.2.7", "failure 192.0.2.7"},
		{"Nov 20 09:23:10 h [newd][5] ACCESS DENIED from 192.0.2.7:80", "failure 192.0.2.7"},

		{"Nov 20 09:23:10 h newd[5]: login from 192.0.2.7", "-"},                             // nothing failed
		{"Nov 20 09:23:10 h newd[5]: Login of bob failed from 192.0.2.7", "-"},               // bob wrote that
		{"Nov 20 09:23:10 h newd[5]: bob: x: login failed from 192.0.2.7", "-"},              // or that
		{"Nov 20 09:23:10 h newd[5]: login failed from 192.0.2.9 from 192.0.2.7", "-"},       // two
		{"Nov 20 09:23:10 h newd[5]: login failed from 192.0.2.7 (x)", "-"},                  // more
		{"Nov 20 09:23:10 h newd[5]: login failed from 192.0.2.7.example.org", "-"},          // a name
		{"Nov 20 09:23:10 h newd[5]: connection failed from 192.0.2.7", "-"},                 // not a login
		{"Nov 20 09:23:10 h sshd[5]: login failed from 192.0.2.7", "-"},                      // sshd is known
		{"Nov 20 09:23:10 h gitea[5]: Login failed from 192.0.2.7", "-"},                     // so is gitea
		{"Nov 20 09:23:10 h stoplog[5]: login failed from 192.0.2.7", "-"},                   // and we
		{"login failed from 192.0.2.7", "-"},                                                 // nobody's
		{"Nov 20 09:23:10 h newd[5]: " + strings.Repeat("bad ", 99) + "from 192.0.2.7", "-"}, // babble
	} {
		p := daemonParser(t, "")
		ev, ok := parseOne(t, p, c.line)
		if got := brief(&ev, ok); got != c.want || ok && (ev.Service != "generic" || ev.Verified) {
			t.Errorf("%s\n got %s %s\nwant %s", c.line, got, ev.Service, c.want)
		}
	}
}

// FuzzGeneric: whatever a client writes into a message of a program that nobody
// knows, nobody is blamed for it unless it is all of the message.
func FuzzGeneric(f *testing.F) {
	for _, s := range []string{"bob", "login failed", "x: login failed from 192.0.2.99", "failed from 192.0.2.99 port 5", "from"} {
		f.Add(s)
	}
	p := daemonParser(f, "")
	f.Fuzz(func(t *testing.T, s string) {
		ev, ok := parseOne(t, p, "Nov 20 09:23:10 h newd[5]: login of '"+s+"' failed from 192.0.2.7")
		if ok && ev.Addr.String() != "192.0.2.7" {
			t.Errorf("%q: %s", s, brief(&ev, ok))
		}
		ev, ok = parseOne(t, p, "Nov 20 09:23:10 h newd[5]: 192.0.2.7 sent '"+s+"'")
		if ok {
			t.Errorf("%q: %s", s, brief(&ev, ok))
		}
	})
}
