package rules

import (
	"fmt"
	"strings"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

// Why tells what keeps the match from taking an event, "" when nothing does.
// known tells whether the event's user is known-good there.
func (m *Match) Why(ev *parse.Event, o *source.Origin, known bool) string {
	switch {
	case !m.Serves(ev.Service):
		if m.Except {
			return fmt.Sprintf("it excludes the service %s", ev.Service)
		}
		return fmt.Sprintf("the service is %s, not %s", ev.Service, strings.Join(m.Services, " or "))
	case m.Outcomes != 0 && m.Outcomes&(1<<ev.Outcome) == 0:
		return fmt.Sprintf("the outcome is %s, not %s", ev.Outcome, maskWords(m.Outcomes, outcomeWords))
	case m.Kinds != 0 && m.Kinds&(1<<ev.Kind) == 0:
		return fmt.Sprintf("the kind is %s, not %s", kindWords[ev.Kind], maskWords(m.Kinds, kindWords))
	case m.Known != nil && *m.Known != known:
		return fmt.Sprintf("known-good is %v", known)
	}
	for i := range m.Conds {
		if c := &m.Conds[i]; !c.holds(ev, o) {
			return c.why(ev, o)
		}
	}
	return ""
}

func maskWords(mask uint8, words []string) string {
	var out []string
	for i, w := range words {
		if mask&(1<<i) != 0 {
			out = append(out, w)
		}
	}
	return strings.Join(out, " or ")
}

func (c *Cond) why(ev *parse.Event, o *source.Origin) string {
	s, ok := c.read(ev, o)
	switch {
	case !ok:
		return "the line has no " + c.Field
	case s.text != nil:
		return fmt.Sprintf("%s is %q", c.Field, clip(string(s.text)))
	case s.addr.IsValid():
		return fmt.Sprintf("%s is %s", c.Field, s.addr)
	}
	return fmt.Sprintf("%s is %d", c.Field, s.num)
}
