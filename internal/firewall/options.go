package firewall

import (
	"cmp"
	"fmt"
	"regexp"
	"time"
)

// Hook is where packets meet our rules.
type Hook string

const (
	// HookInput sees packets for this machine, before others' accept rules.
	HookInput Hook = "input"
	// HookPrerouting sees forwarded packets too. The kernel has no reject there.
	HookPrerouting Hook = "prerouting"
	// HookRaw is the earliest and cheapest place: before connection tracking,
	// so that there is no reject, no slow, and replies from a blocked prefix
	// to our own connections are dropped too.
	HookRaw Hook = "raw"
)

// Options say how the walls are to be built. The zero Options is usable.
type Options struct {
	// Name names all that is ours: the nft table, the chains (in capitals),
	// the sets. Several stoplogs beside each other need several names.
	// Default "stoplog"; at most 16 small letters, digits and hyphens.
	Name string
	Hook Hook // default HookInput
	// Forward also blocks what is forwarded. DOCKER-USER is hooked in any case.
	Forward bool
	// Slow is how many new connections a minute a slowed prefix may open.
	// Default 3.
	Slow int
	// MaxRules caps the walls that look at one block after the other
	// (iptables, a family; hosts.deny). Default 2,000.
	MaxRules int
	// MaxSet caps sets. Default 1,000,000.
	MaxSet int

	IPTables, IP6Tables string // programs; default: as found in PATH
	HostsDeny           string // file; default /etc/hosts.deny

	// Set4 and Set6 name the administrator's own sets for the set-only wall:
	// "ipset:NAME", or "nft:FAMILY:TABLE:SET".
	Set4, Set6 string

	Exec ExecOptions
}

// ExecOptions are the administrator's own programs. Each is an argument list;
// prefixes come on standard input. None means nothing is run for it.
type ExecOptions struct {
	Setup, Block, Unblock, Teardown []string
	Timeout                         time.Duration // of one run; default 30 s
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)

// withDefaults fills in what is not set, and refuses what cannot be.
func (o Options) WithDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "stoplog"
	}
	if !nameForm.MatchString(o.Name) {
		return o, fmt.Errorf("firewall name %q: expected at most 16 lower-case letters, digits and hyphens", o.Name)
	}
	switch o.Hook {
	case "":
		o.Hook = HookInput
	case HookInput, HookPrerouting, HookRaw:
	default:
		return o, fmt.Errorf("unknown hook %q; expected input, prerouting or raw", o.Hook)
	}
	o.Slow = cmp.Or(o.Slow, 3)
	o.MaxRules = cmp.Or(o.MaxRules, 2000)
	o.MaxSet = cmp.Or(o.MaxSet, 1_000_000)
	o.HostsDeny = cmp.Or(o.HostsDeny, "/etc/hosts.deny")
	o.Exec.Timeout = cmp.Or(o.Exec.Timeout, 30*time.Second)
	return o, nil
}
