//go:build linux

package iptables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// leftIPTables looks into both kinds of iptables, at all hooks, but for the
// chains of the walls in use.
func Leftovers(ctx context.Context, inUse []string, o firewall.Options) (all []firewall.Leftover) {
	used := iptablesKind(ctx, cmp.Or(o.IPTables, "iptables"))
	for _, kind := range []string{"nft", "legacy"} {
		for _, hook := range []firewall.Hook{firewall.HookInput, firewall.HookPrerouting, firewall.HookRaw} {
			for wall, suffix := range map[string]string{"iptables": "", "ipset": "-SET"} {
				if slices.Contains(inUse, wall) && kind == used && hook == o.Hook {
					continue
				}
				k := o
				k.Hook, k.IPTables, k.IP6Tables = hook, "iptables-"+kind, "ip6tables-"+kind
				w, err := New(k)
				if err != nil || !worthALook(kind, used, w.table) {
					continue
				}
				w.Chain += suffix
				if w.stands(ctx) {
					all = append(all, firewall.Leftover{What: fmt.Sprintf("iptables-%s: chain %s in table %s", kind, w.Chain, w.table), Remove: w.Teardown})
				}
			}
		}
	}
	return all
}

// stands reports whether our chain is in either family.
func (w *Wall) stands(ctx context.Context) bool {
	there := false
	_ = w.EachFamily(ctx, func(f *Family) error { // what cannot be listed holds nothing of ours
		ok, err := f.x.ChainExists(w.table, w.Chain)
		there = there || err == nil && ok
		return nil
	})
	return there
}

// iptablesKind is "nft" or "legacy", as the program says of itself.
func iptablesKind(ctx context.Context, prog string) string {
	out, err := base.Runner{Timeout: base.NetlinkWait}.Run(ctx, []string{prog, "-V"}, nil)
	if err == nil && strings.Contains(string(out), "nf_tables") {
		return "nft"
	}
	return "legacy"
}

// worthALook reports whether a table of that kind of iptables may be there;
// used is the kind that this machine uses. Looking into a legacy table makes
// it, which is of no matter only where legacy is used anyway; only root may
// read the tables' names.
func worthALook(kind, used, table string) bool {
	if _, err := exec.LookPath("iptables-" + kind); err != nil {
		return false
	}
	if kind != "legacy" {
		return true
	}
	for _, family := range []string{"ip", "ip6"} {
		b, err := os.ReadFile("/proc/net/" + family + "_tables_names")
		if err == nil && slices.Contains(strings.Fields(string(b)), table) || errors.Is(err, os.ErrPermission) && used == kind {
			return true
		}
		if _, err := os.Stat("/sys/module/" + family + "table_" + table); err == nil {
			return true
		}
	}
	return false
}
