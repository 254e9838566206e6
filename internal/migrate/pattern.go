package migrate

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"stoplog/internal/parse/pack"
)

// reasons that a pattern of Python cannot be carried.
var (
	errMultiLine = errors.New("matches several lines; stoplog patterns match one line")
	errNoAddress = errors.New("contains no address")
	errTwo       = errors.New("contains two addresses; the attacker's must be at one position")
	errHostName  = errors.New("contains a host name; host names are not resolved")
	errNoFailure = errors.New("is a failure only together with other lines of the session (F-NOFAIL)")
	errSession   = errors.New("ends or resets a session of several lines")
	errLook      = errors.New("RE2 has no lookahead, lookbehind, condition or backreference")
)

var (
	addressTag = regexp.MustCompile(`<(?:HOST|ADDR|IP4|IP6|CIDR|SUBNET|F-ID/|F-IP4/|F-IP6/)>|\(\?P<(?:host|ip4|ip6|addr)>(?:[^()\\]|\\.)*\)`)
	lookRE     = regexp.MustCompile(`\(\?(?:=|!|<=|<!|\(|>|#)|\\[1-9]|\(\?P=|[*+?}]\+`)
	openTag    = regexp.MustCompile(`<F-([A-Z0-9_]+)>`)
	closeTag   = regexp.MustCompile(`</F-[A-Z0-9_]+>`)
	upTo       = regexp.MustCompile(`\{,(\d+)\}`)
	ambitRE    = regexp.MustCompile(`\(\?:\\\[\\\]\)\??|<__date_ambit>\??`)
)

// translate turns one failregex, and the prefregex it runs behind, into a
// pattern of ours, which is tried: what it returns compiles and names an
// address.
func translate(prefix, expr string) (string, error) {
	if err := sessionTags(expr); err != nil {
		return "", err
	}
	expr = join(prefix, expr)
	switch {
	case strings.Contains(expr, "<SKIPLINES>") || strings.Contains(expr, `\n`):
		return "", errMultiLine
	case strings.Contains(expr, "<DNS>") || strings.Contains(expr, "<F-DNS"):
		return "", errHostName
	}
	switch n := len(addressTag.FindAllString(expr, -1)); {
	case n == 0:
		return "", errNoAddress
	case n > 1:
		return "", errTwo
	}
	expr = addressTag.ReplaceAllString(expr, "<ip>")
	expr = groups(expr)
	expr = header(expr)
	if lookRE.MatchString(expr) {
		return "", errLook
	}
	expr = upTo.ReplaceAllString(expr, "{0,$1}")
	expr = strings.ReplaceAll(expr, `\Z`, `\z`)
	if m := tagRE.FindString(strings.ReplaceAll(plainGroups(expr), "<ip>", "")); m != "" {
		return "", errors.New("contains " + m + ", which stoplog does not know")
	}
	expr = open(expr)
	return expr, try(expr)
}

// open lets anything follow where fail2ban does, which searches: a pattern
// here reaches the end of the message.
func open(expr string) string {
	if strings.HasSuffix(expr, "$") && !strings.HasSuffix(expr, `\$`) || strings.HasSuffix(expr, ".*") || strings.HasSuffix(expr, `\z`) {
		return expr
	}
	if strings.Contains(expr, "|") {
		return "(?:" + expr + ").*"
	}
	return expr + ".*"
}

// sessionTags refuses patterns that mean something only together with others.
func sessionTags(expr string) error {
	switch {
	case strings.Contains(expr, "<F-NOFAIL>"):
		return errNoFailure
	case strings.Contains(expr, "<F-MLFGAINED>"):
		return errSession
	}
	return nil
}

// join puts a failregex where prefregex has its content.
func join(prefix, expr string) string {
	before, rest, ok := strings.Cut(prefix, "<F-CONTENT>")
	if !ok {
		return expr
	}
	_, after, _ := strings.Cut(rest, "</F-CONTENT>")
	if e, anchored := strings.CutPrefix(expr, "^"); anchored {
		expr = e
	} else {
		expr = ".*" + expr
	}
	if e, anchored := strings.CutSuffix(expr, "$"); anchored && !strings.HasSuffix(e, `\`) {
		return before + "(?:" + e + ")" + after
	}
	return before + "(?:" + expr + ").*" + after
}

// groups turns <F-USER>…</F-USER> into the group user, once; the other
// brackets of fail2ban only hold together.
func groups(expr string) string {
	named := false
	expr = openTag.ReplaceAllStringFunc(expr, func(t string) string {
		if t == "<F-USER>" && !named {
			named = true
			return "(?P<user>"
		}
		return "(?:"
	})
	return closeTag.ReplaceAllString(expr, ")")
}

// header takes off what stands for a syslog header and for the place of the
// date, which fail2ban cuts out and parsing here takes off.
func header(expr string) string {
	expr = ambitRE.ReplaceAllString(expr, "")
	expr = strings.ReplaceAll(expr, "(?:"+prefixMark+")", prefixMark)
	if i := strings.Index(expr, prefixMark); i >= 0 {
		expr = "^" + strings.TrimPrefix(strings.TrimLeft(expr[i+len(prefixMark):], `^`), `\s*`)
		expr = balance(expr)
	}
	if rest, ok := strings.CutPrefix(expr, `^\[\]`); ok { // a date in brackets
		expr = `^(?:\[[^\]]*\])?` + blank(rest)
	} else if rest, ok := strings.CutPrefix(expr, "^"); ok {
		expr = "^" + blank(rest)
	}
	// A date inside a line, as in access logs, is left where it is.
	expr = strings.ReplaceAll(expr, `\[\]`, `\[[^\]]*\]`)
	return strings.ReplaceAll(expr, prefixMark, "")
}

// blank makes the blanks that stood behind the date optional.
func blank(rest string) string {
	for _, b := range []string{`\s+`, `\s*`, `\s`, " +", " "} {
		if r, ok := strings.CutPrefix(rest, b); ok && !strings.HasPrefix(r, "?") && !strings.HasPrefix(r, "{") {
			return `\s*` + r
		}
	}
	return rest
}

// balance drops a closing bracket whose opening stood before the header.
func balance(expr string) string {
	depth, class := 0, false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if i+1 < len(expr) && expr[i+1] == ']' {
				i++
			}
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth < 0 {
				return balance(expr[:i] + expr[i+1:])
			}
		}
	}
	return expr
}

func plainGroups(expr string) string { return strings.ReplaceAll(expr, "(?P<", "(?P ") }

// try lets the reader of rules judge a pattern.
func try(expr string) error {
	p, problems := pack.CompilePattern("import", expr, nil, nil)
	for _, pr := range problems {
		if !pr.Warning || p == nil {
			var se *syntax.Error
			if errors.As(pr, &se) {
				return se
			}
			return errors.New(pr.Msg)
		}
	}
	return nil
}
