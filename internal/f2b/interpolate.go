package f2b

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Scope resolves names for one section: its own, what was given to it as
// parameters, then the defaults.
type Scope struct {
	Conf    *Conf
	Section string
	Params  map[string]string // [mode=aggressive] and built-in names
}

const (
	maxValue   = 256 << 10 // bytes of a value with everything filled in
	maxNesting = 30
	maxNames   = 10_000 // filled in for one value
)

var (
	errTooDeep = errors.New("names are nested too deeply")
	errTooMany = fmt.Errorf("refers to more than %d names", maxNames)
)

// Get returns the value of key with all %(names)s filled in. The option tells
// where it was set; nil when it is not.
func (s Scope) Get(key string) (string, *Option, error) {
	o := s.Find(key)
	if o == nil {
		return "", nil, nil
	}
	s.Conf.filled = 0
	v, err := s.fill(o.Value, key, o, 0)
	return v, o, err
}

// Find is the option that key names, with no names filled in; nil when there is none.
func (s Scope) Find(key string) *Option {
	if o := s.Conf.Section(s.Section)[key]; o != nil {
		return o
	}
	return s.Conf.Section("DEFAULT")[key]
}

var percentRE = regexp.MustCompile(`%(?:%|\(([^()\s]+)\)s)`)

// fill replaces %(name)s, %(section/name)s and %(known/name)s, which is what
// the name meant in the files before (fail2ban's client/configparserinc.py).
func (s Scope) fill(text, key string, at *Option, depth int) (string, error) {
	if depth > maxNesting {
		return "", errTooDeep
	}
	var failed error
	out := percentRE.ReplaceAllStringFunc(text, func(m string) string {
		if m == "%%" {
			return "%"
		}
		if failed != nil {
			return ""
		}
		v, err := s.name(m[2:len(m)-2], key, at, depth)
		if err != nil && failed == nil {
			failed = err
		}
		return v
	})
	if len(out) > maxValue {
		return "", fmt.Errorf("longer than %d bytes after interpolation", maxValue)
	}
	return out, failed
}

func (s Scope) name(name, key string, at *Option, depth int) (string, error) {
	if s.Conf.filled++; s.Conf.filled > maxNames {
		return "", errTooMany
	}
	lower := strings.ToLower(name)
	if v, ok := s.Params[lower]; ok {
		return v, nil
	}
	in := s
	section, rest, qualified := strings.Cut(lower, "/")
	switch {
	case qualified && section == "known":
		return s.known(rest, key, at, depth)
	case qualified:
		lower = rest
		in.Section = section
		for _, have := range s.Conf.Order {
			if strings.EqualFold(have, section) {
				in.Section = have
			}
		}
	}
	o := in.Find(lower)
	if o == nil {
		return "", fmt.Errorf("%%(%s)s is not defined", name)
	}
	return in.fill(o.Value, lower, o, depth+1)
}

// known is the value before the present one: of the same key the one that it
// replaces, of another the one that holds or held in the files before.
func (s Scope) known(name, key string, at *Option, depth int) (string, error) {
	var o *Option
	switch {
	case name == key && at != nil && at.known != nil:
		o = at.known
	case name == key && at != s.Conf.Section("DEFAULT")[name]:
		o = s.Conf.Section("DEFAULT")[name]
	case name != key:
		if o = s.Find(name); o != nil && o.known != nil {
			o = o.known
		}
	}
	if o == nil {
		return "", nil // nothing was known
	}
	return s.fill(o.Value, name, o, depth+1)
}
