package rules

import "slices"

// lintSense warns of a rule that is well formed and cannot do what it says.
func lintSense(in *sink, r *Rule) {
	m := &r.Match
	named := len(m.Services) > 0 && !m.Except
	if named && m.has("status") && allIn(m.Services, []string{"nginx", "apache"}) {
		in.warn(r.Line, "match: {service: http, …}", "rule %s can never match: %s is the error log, which has no status; access logs are http", r.Name, m.Services[0])
	}
	if m.has("message") && r.Pattern == nil && m.Services == nil && m.Outcomes == 0 && !m.has("status") && !m.has("path") {
		in.warn(r.Line, "pattern: …", "the message of rule %s is only compared in lines of known services; a pattern reads other lines", r.Name)
	}
	if r.Clears && r.Pattern != nil && r.Pattern.Services == nil {
		in.warn(r.Line, "leave out clears", "clears of rule %s has no effect: what its pattern reads is never a login", r.Name)
	} else if r.Clears && named && allIn(m.Services, []string{"http"}) {
		in.warn(r.Line, "leave out clears", "clears of rule %s has no effect: an access log shows no logins", r.Name)
	}
}

// FirstMatch reports whether the rule blocks at its first match, because it has
// no bucket and no window.
func (r *Rule) FirstMatch() bool {
	return blocks(r) && slices.ContainsFunc(r.Levels, func(l Level) bool { return l.Kind == Trigger })
}
