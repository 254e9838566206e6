package registry

import "stoplog/internal/firewall"

// WithForms wraps a wall as Select wraps those that know only prefixes.
func WithForms(b firewall.Backend) firewall.Backend { return forms{b} }
