package tune

import (
	"net/netip"

	"stoplog/internal/parse"
	"stoplog/internal/source"
)

type netipPrefix = netip.Prefix

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func adder(c *collector) func(*parse.Event, *source.Origin, *source.Line) error {
	return func(ev *parse.Event, o *source.Origin, l *source.Line) error {
		c.add(ev, o, l)
		return nil
	}
}
