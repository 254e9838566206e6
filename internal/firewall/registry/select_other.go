//go:build !linux

package registry

import (
	"errors"

	"stoplog/internal/firewall"
)

const needed = ""

var errNoFilter = errors.New("only Linux packet filters are supported; use hosts.deny, exec, or an export for pf")

// newSelector has no packet filter to offer: "auto" says what there is.
func newSelector() selector {
	makers := everywhere()
	makers["packet filter"] = func(firewall.Options) (firewall.Backend, error) { return nil, errNoFilter }
	return selector{makers: makers, auto: []string{"packet filter"}}
}

// Names lists the walls that can be asked for by name.
func Names() []string { return []string{"hosts.deny", "exec", "none", "dry-run"} }
