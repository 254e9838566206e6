package firewall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Leftover is something of ours that stands in a firewall and that nobody
// keeps: of a backend, hook or kind of iptables that was configured before.
type Leftover struct {
	What   string // such as "iptables-legacy: chain STOPLOG in filter"
	remove func(context.Context) error
}

// Remove takes it away, and nothing else.
func (l Leftover) Remove(ctx context.Context) error { return l.remove(ctx) }

// Leftovers looks for what stands under o's name and is not one of the walls
// in use ("nftables", "ipset", …) as o describes them. Nothing is changed. What
// cannot be looked at is taken to hold nothing.
func Leftovers(ctx context.Context, inUse []string, o Options) ([]Leftover, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var all []Leftover
	if !slices.Contains(inUse, "nftables") {
		all = append(all, leftNFTables(ctx, o)...)
	}
	all = append(all, leftIPTables(ctx, inUse, o)...)
	if !slices.Contains(inUse, "ipset") {
		all = append(all, leftSets(ctx, o)...) // once no rule names them
	}
	if !slices.Contains(inUse, "hosts.deny") {
		all = append(all, leftHostsDeny(o)...)
	}
	return all, nil
}

func leftNFTables(ctx context.Context, o Options) []Leftover {
	w, err := NewNFTables(o)
	if err != nil || w.ready(ctx) != nil {
		return nil
	}
	defer w.Close()
	if t, err := w.standing(); err != nil || t == nil {
		return nil
	}
	return []Leftover{{"nftables: table inet " + o.Name, func(ctx context.Context) error {
		defer w.Close()
		return w.Teardown(ctx)
	}}}
}

// leftIPTables looks into both kinds of iptables, at all hooks, but for the
// chains of the walls in use.
func leftIPTables(ctx context.Context, inUse []string, o Options) (all []Leftover) {
	used := iptablesKind(ctx, orDefault(o.IPTables, "iptables"))
	for _, kind := range []string{"nft", "legacy"} {
		for _, hook := range []Hook{HookInput, HookPrerouting, HookRaw} {
			for wall, suffix := range map[string]string{"iptables": "", "ipset": "-SET"} {
				if slices.Contains(inUse, wall) && kind == used && hook == o.Hook {
					continue
				}
				k := o
				k.Hook, k.IPTables, k.IP6Tables = hook, "iptables-"+kind, "ip6tables-"+kind
				w, err := NewIPTables(k)
				if err != nil || !worthALook(kind, used, w.table) {
					continue
				}
				w.chain += suffix
				if w.stands(ctx) {
					all = append(all, Leftover{fmt.Sprintf("iptables-%s: chain %s in table %s", kind, w.chain, w.table), w.Teardown})
				}
			}
		}
	}
	return all
}

// stands reports whether our chain is in either family.
func (w *IPTables) stands(ctx context.Context) bool {
	there := false
	_ = w.each(ctx, func(f *xtFamily) error { // what cannot be listed holds nothing of ours
		ok, err := f.x.ChainExists(w.table, w.chain)
		there = there || err == nil && ok
		return nil
	})
	return there
}

// iptablesKind is "nft" or "legacy", as the program says of itself.
func iptablesKind(ctx context.Context, prog string) string {
	out, err := realExec{netlinkWait}.run(ctx, []string{prog, "-V"}, nil)
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

// leftSets are ipsets of ours that nothing uses.
func leftSets(ctx context.Context, o Options) []Leftover {
	x := &ipsetConn{}
	sets, err := x.sets(ctx)
	if err != nil {
		return nil
	}
	var ours []string
	for s := range sets {
		if strings.HasPrefix(s, o.Name+"4-") || strings.HasPrefix(s, o.Name+"6-") {
			ours = append(ours, s)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	slices.Sort(ours)
	return []Leftover{{"ipset: sets " + strings.Join(ours, ", "), func(ctx context.Context) error {
		defer x.close()
		for _, s := range ours {
			if err := x.destroy(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}}}
}

func leftHostsDeny(o Options) []Leftover {
	w, err := NewHostsDeny(o)
	if err != nil {
		return nil
	}
	if t, err := w.file.read(); err != nil || !t.marked {
		return nil
	}
	return []Leftover{{"hosts.deny: lines in " + filepath.Clean(o.HostsDeny), w.Teardown}}
}
