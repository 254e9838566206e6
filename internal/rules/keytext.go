package rules

import "strings"

// String writes a key as the rules file does: "user+prefix", "all".
func (k Key) String() string {
	if len(k) == 0 {
		return "all"
	}
	words := make([]string, len(k))
	for i, p := range k {
		words[i] = p.String()
	}
	return strings.Join(words, "+")
}

var partNames = [...]string{"all", "prefix", "address", "user", "service", "path", "host", "method", "agent", "field", "param"}

// String writes a part as the rules file does: "user", "field customer".
func (p Part) String() string {
	if p.Name != "" {
		return partNames[p.By] + " " + p.Name
	}
	return partNames[p.By]
}
