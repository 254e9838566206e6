package rules

import (
	"strings"
	"testing"
)

// TestRulesThatCannotWork: check warns of a rule that has no effect, and of no
// rule beside it that has one.
func TestRulesThatCannotWork(t *testing.T) {
	for _, c := range []struct{ bad, good, want string }{
		{"{match: {service: nginx, status: 404}}", "{match: {service: http, status: 404}}", "access logs are http"},
		{"{match: {service: [nginx, apache], status: 404}}", "{match: {service: [nginx, http], status: 404}}", "access logs are http"},
		{"{match: {message: 'oops*'}}", "{match: {service: sshd, message: 'oops*'}}", "only compared in lines of known services"},
		{"{match: {service: http, status: 404}, clears: success}", "{match: {service: sshd, outcome: failure}, clears: success}", "shows no logins"},
		{"{match: {source: /srv/a.log}, pattern: 'no (?P<ip>\\S+)', clears: success}", "{match: {source: /srv/a.log}, pattern: 'no (?P<ip>\\S+)'}", "never a login"},
		{"{match: {service: nginx, outcome: failure}, clears: success}", "{match: {service: vsftpd, outcome: failure}, clears: success}", "shows no successful logins"},
		{"{match: {service: sshd, fields: {user: root}}}", "{match: {service: sshd, fields: {tenant: x}}}", "user is not among fields, because the name is reserved (match: {user: …})"},
		{"{match: {service: http, fields: {path: /x}}}", "{match: {service: http, path: /x}}", "path is not among fields"},
		{"{match: {source: /srv/a.log, user: x}, pattern: 'no (?P<host>\\S+) (?P<ip>\\S+)', key: host, then: [{notify: x}]}", "{match: {source: /srv/a.log, user: x}, pattern: 'no (?P<host>\\S+) (?P<ip>\\S+)', key: field host, then: [{notify: x}]}", "never counts: its pattern's group host is among fields (key: field host)"},
		{"{match: {source: /srv/a.log, path: /x}, pattern: 'no (?P<path>\\S+) (?P<ip>\\S+)'}", "{match: {source: /srv/a.log, fields: {path: /x}}, pattern: 'no (?P<path>\\S+) (?P<ip>\\S+)'}", "can never match: its pattern's group path is among fields"},
		{"{match: {outcome: failure}, key: field user, then: [{lockdown: {for: 5m}}]}", "{match: {outcome: failure}, key: user, then: [{lockdown: {for: 5m}}]}", "never counts: user is not among fields"},
		{"{match: {service: sshd, outcome: failure}, then: [{flag: a, for: 1h}]}", "{match: {service: sshd, outcome: failure}, then: [{flag: a, for: 1h}], when: {flag: a, capacity: 1}}", "raises the flag a, but nothing reads it"},
		{"{match: {service: sshd}}\n  - {name: s, match: {service: sshd}, bucket: {capacity: 9, leak: 1m}}", "{match: {service: sshd}}\n  - {name: s, match: {service: sshd}, bucket: {capacity: 9, leak: 1h}}", "rule s changes nothing: rule r counts the same"},
		{"{match: {service: sshd}}\n  - {name: s, match: {service: sshd}, bucket: {capacity: 5, leak: 1m}}", "{match: {service: sshd}}\n  - {name: s, match: {service: sshd}, bucket: {capacity: 5, leak: 1m, ttl: 1d}}", "rule s changes nothing"},
		{"{match: {service: sshd}, then: []}", "{match: {service: sshd}, then: [observe]}", "as if then were left out"},
		{"{match: {user: {starts: a}}}", "{match: {user: a*}}", "starts is deprecated"},
	} {
		for i, rule := range []string{c.bad, c.good} {
			rule = "{name: r, bucket: {capacity: 5, leak: 1m}, " + rule[1:]
			set, problems := LoadBytes("t.yaml", []byte("use: []\nsources: [auth, {file: /srv/a.log}, {file: /var/log/nginx/access.log}, {file: /var/log/nginx/error.log}]\nrules:\n  - "+rule+"\n"), "")
			if set == nil {
				t.Errorf("%s: %v", rule, problems)
				continue
			}
			warned := false
			for _, p := range set.Warnings {
				warned = warned || strings.Contains(p.Error(), c.want)
			}
			if warned != (i == 0) {
				t.Errorf("%s: warned %v of %q, want %v: %v", rule, warned, c.want, i == 0, set.Warnings)
			}
		}
	}
}

// A network of addresses that count as IPv4 is never matched.
func TestNetworksOfEmbeddedIPv4(t *testing.T) {
	for network, want := range map[string]string{"64:ff9b::/96": "NAT64", "2002::/16": "6to4", "2001::/32": "Teredo", "2001:db8::/32": "", "198.51.100.0/24": ""} {
		_, problems := LoadBytes("t.yaml", []byte("use: ssh\nnetworks:\n  \""+network+"\": {capacity: x20}\n"), "")
		got := ""
		for _, p := range problems {
			got += p.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) || want != "" && !strings.HasPrefix(got, "t.yaml:3:3: warning: the network "+network+" never matches: "+want) {
			t.Errorf("%s: got %q, want %q", network, got, want)
		}
	}
	if _, problems := LoadBytes("t.yaml", []byte("use: ssh\nnetworks:\n  \"::ffff:0:0/96\": {capacity: x20}\n"), ""); len(problems) != 1 || problems[0].Hint != "did you mean 0.0.0.0/0?" {
		t.Errorf("a mapped network: got %v", problems)
	}
}

// Flags have other readers than rules.
func TestFlagsThatAreRead(t *testing.T) {
	for text, warned := range map[string]bool{"": true, "flags: {dir: /run/flags}": false, "listen: {check: {addr: ':1', header: x-real-ip, trusted: 127.0.0.1}}": false, "listen: {metrics: {addr: ':1'}}": false} {
		set, problems := LoadBytes("t.yaml", []byte("sources: [auth]\nrules:\n  - {name: a, match: {service: sshd}, then: [{flag: x, for: 1h}]}\n"+text+"\n"), "")
		if set == nil || (len(problems) > 0) != warned {
			t.Errorf("%s: got %v, want a warning: %v", text, problems, warned)
		}
	}
}

func TestFirstMatch(t *testing.T) {
	set, problems := LoadBytes("t.yaml", []byte("use: []\nrules:\n  - {name: a, match: {service: sshd, outcome: failure}}\n  - {name: b, match: {service: sshd, outcome: failure}, bucket: {capacity: 1, leak: 1m}}\n  - {name: c, match: {service: sshd, outcome: failure}, mode: observe}\n"), "")
	if set == nil {
		t.Fatal(problems)
	}
	for _, r := range set.Rules {
		if r.FirstMatch() != (r.Name == "a") {
			t.Errorf("%s: got %v", r.Name, r.FirstMatch())
		}
	}
}
