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
