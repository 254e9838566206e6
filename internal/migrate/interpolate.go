package migrate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// scope resolves names for one section: its own, what was given to it as
// parameters, then the defaults.
type scope struct {
	conf    *ini
	section string
	params  map[string]string // [mode=aggressive] and built-in names
}

const (
	maxValue   = 256 << 10 // bytes of a value with everything filled in
	maxNesting = 30
)

var errTooDeep = errors.New("names are nested too deeply")

// get returns the value of key with all %(names)s filled in. The option tells
// where it was set; nil when it is not.
func (s scope) get(key string) (string, *option, error) {
	o := s.find(key)
	if o == nil {
		return "", nil, nil
	}
	v, err := s.fill(o.value, key, o, 0)
	return v, o, err
}

func (s scope) find(key string) *option {
	if o := s.conf.section(s.section)[key]; o != nil {
		return o
	}
	return s.conf.section("DEFAULT")[key]
}

var percentRE = regexp.MustCompile(`%(?:%|\(([^()\s]+)\)s)`)

// fill replaces %(name)s, %(section/name)s and %(known/name)s, which is what
// the name meant in the files before (fail2ban's client/configparserinc.py).
func (s scope) fill(text, key string, at *option, depth int) (string, error) {
	if depth > maxNesting {
		return "", errTooDeep
	}
	var failed error
	out := percentRE.ReplaceAllStringFunc(text, func(m string) string {
		if m == "%%" {
			return "%"
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

func (s scope) name(name, key string, at *option, depth int) (string, error) {
	lower := strings.ToLower(name)
	if v, ok := s.params[lower]; ok {
		return v, nil
	}
	in := s
	section, rest, qualified := strings.Cut(lower, "/")
	switch {
	case qualified && section == "known":
		return s.known(rest, key, at, depth)
	case qualified:
		lower = rest
		in.section = section
		for _, have := range s.conf.order {
			if strings.EqualFold(have, section) {
				in.section = have
			}
		}
	}
	o := in.find(lower)
	if o == nil {
		return "", fmt.Errorf("%%(%s)s is not defined", name)
	}
	return in.fill(o.value, lower, o, depth+1)
}

// known is the value before the present one: of the same key the one that it
// replaces, of another the one that holds or held in the files before.
func (s scope) known(name, key string, at *option, depth int) (string, error) {
	var o *option
	switch {
	case name == key && at != nil && at.known != nil:
		o = at.known
	case name == key && at != s.conf.section("DEFAULT")[name]:
		o = s.conf.section("DEFAULT")[name]
	case name != key:
		if o = s.find(name); o != nil && o.known != nil {
			o = o.known
		}
	}
	if o == nil {
		return "", nil // nothing was known
	}
	return s.fill(o.value, name, o, depth+1)
}
