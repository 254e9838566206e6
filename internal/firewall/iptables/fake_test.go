package iptables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"stoplog/internal/firewall"
)

// fakeXtables is one family's tables, with the rules of the real thing: chains
// must exist to be used, be new to be made, be empty and unreferenced to go;
// deleting takes the first rule that is equal, and there must be one.
type fake struct {
	chains  map[string][][]string // "table chain" → rules
	refuse  string                // a word that this kernel does not know in a rule
	refused int                   // how often it was met
	calls   int
	broken  error // what every call answers
}

func newFake() *fake {
	f := &fake{chains: map[string][][]string{}}
	for _, c := range []string{"filter INPUT", "filter FORWARD", "filter DOCKER-USER", "mangle PREROUTING", "raw PREROUTING"} {
		f.chains[c] = nil
	}
	f.chains["filter INPUT"] = [][]string{{"-p", "tcp", "-m", "tcp", "--dport", "22", "-j", "ACCEPT"}, {"-j", "DROP"}}
	return f
}

func (f *fake) chain(table, chain string) (string, error) {
	f.calls++
	if f.broken != nil {
		return "", f.broken
	}
	key := table + " " + chain
	if _, ok := f.chains[key]; !ok {
		return "", fmt.Errorf("no chain %q", key)
	}
	return key, nil
}

// normal is a rule the way it is printed again.
func normal(spec []string) []string {
	spec = slices.Clone(spec)
	for i := 1; i < len(spec); i++ {
		switch spec[i-1] {
		case "-s":
			if a, err := netip.ParseAddr(spec[i]); err == nil {
				spec[i] = netip.PrefixFrom(a, a.BitLen()).String()
			}
		case "--ctstate":
			spec[i] = strings.Replace(spec[i], "ESTABLISHED,RELATED", "RELATED,ESTABLISHED", 1)
		case "--limit":
			spec[i] = strings.Replace(spec[i], "/minute", "/min", 1)
		case "--icmpv6-type":
			spec[i] = strings.TrimSuffix(spec[i], "/0")
		}
	}
	return spec
}

func (f *fake) List(table, chain string) ([]string, error) {
	key, err := f.chain(table, chain)
	if err != nil {
		return nil, err
	}
	lines := []string{"-N " + chain}
	for _, r := range f.chains[key] {
		var b strings.Builder
		b.WriteString("-A " + chain)
		for _, w := range r {
			if strings.ContainsAny(w, ` "\'`) || w == "" {
				w = `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, `'`, `\'`).Replace(w) + `"`
			}
			b.WriteString(" " + w)
		}
		lines = append(lines, b.String())
	}
	return lines, nil
}

func (f *fake) ChainExists(table, chain string) (bool, error) {
	if f.broken != nil {
		return false, f.broken
	}
	_, err := f.chain(table, chain)
	return err == nil, nil
}

func (f *fake) ClearChain(table, chain string) error {
	if f.broken != nil {
		return f.broken
	}
	if len(chain) > 28 {
		return errors.New("chain name too long")
	}
	f.chains[table+" "+chain] = nil
	return nil
}

func (f *fake) check(table string, spec []string) error {
	if f.refuse != "" && slices.Contains(spec, f.refuse) {
		f.refused++
		return errors.New("no such match " + f.refuse)
	}
	target := after(spec, "-j")
	builtin := []string{"ACCEPT", "DROP", "RETURN", "REJECT"}
	if _, err := f.chain(table, target); err != nil && !slices.Contains(builtin, target) {
		return errors.New("no such target " + target)
	}
	if len(after(spec, "--comment")) > 255 {
		return errors.New("comment too long")
	}
	if table == "raw" && (target == "REJECT" || slices.Contains(spec, "conntrack")) {
		return errors.New("not in raw")
	}
	return nil
}

func (f *fake) Insert(table, chain string, pos int, spec ...string) error {
	key, err := f.chain(table, chain)
	if err != nil {
		return err
	}
	if pos < 1 || pos > len(f.chains[key])+1 {
		return errors.New("index too big")
	}
	if err := f.check(table, spec); err != nil {
		return err
	}
	f.chains[key] = slices.Insert(f.chains[key], pos-1, normal(spec))
	return nil
}

func (f *fake) Append(table, chain string, spec ...string) error {
	return f.Insert(table, chain, len(f.chains[table+" "+chain])+1, spec...)
}

func (f *fake) Delete(table, chain string, spec ...string) error {
	key, err := f.chain(table, chain)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.chains[key], func(r []string) bool { return slices.Equal(r, normal(spec)) })
	if i < 0 {
		return errors.New("bad rule (does a matching rule exist in that chain?)")
	}
	f.chains[key] = slices.Delete(f.chains[key], i, i+1)
	return nil
}

func (f *fake) ClearAndDeleteChain(table, chain string) error {
	key, err := f.chain(table, chain)
	if err != nil {
		return err
	}
	for c, rules := range f.chains {
		for _, r := range rules {
			if strings.HasPrefix(c, table+" ") && c != key && after(r, "-j") == chain {
				return errors.New("directory not empty: still referenced")
			}
		}
	}
	delete(f.chains, key)
	return nil
}

func (f *fake) Restore(_ context.Context, table string, lines []string) error {
	if f.broken != nil {
		return f.broken
	}
	try := *f
	try.chains = map[string][][]string{}
	for c, rules := range f.chains {
		try.chains[c] = slices.Clone(rules)
	}
	for _, l := range lines {
		w := splitWords(l)
		do := try.Append
		if w[0] == "-I" {
			do = func(table, chain string, spec ...string) error { return try.Insert(table, chain, 1, spec...) }
		} else if w[0] == "-D" {
			do = try.Delete
		} else if w[0] != "-A" {
			return errors.New("unknown command " + w[0])
		}
		if err := do(table, w[1], w[2:]...); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
	}
	f.chains = try.chains
	return nil
}

// dump prints everything.
func (f *fake) dump() string {
	var b strings.Builder
	keys := make([]string, 0, len(f.chains))
	for k := range f.chains {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b.WriteString(k + "\n")
		for _, r := range f.chains[k] {
			b.WriteString("  " + strings.Join(r, " ") + "\n")
		}
	}
	return b.String()
}

// verdict walks a chain for a first packet from src, as the kernel does.
func (f *fake) verdict(table, chain string, src netip.Addr) string {
	for _, r := range f.chains[table+" "+chain] {
		if s := after(r, "-s"); s != "" && !netip.MustParsePrefix(s).Contains(src) {
			continue
		}
		if slices.Contains(r, "-p") || after(r, "--ctdir") != "" {
			continue
		}
		switch target := after(r, "-j"); target {
		case "RETURN":
			return ""
		case "DROP", "ACCEPT", "REJECT":
			return target
		default:
			if v := f.verdict(table, target, src); v != "" {
				return v
			}
		}
	}
	return ""
}

// FakeIPTables is an iptables wall over fakes, for the contract.
func Fake(o firewall.Options) (w *Wall, dump func() string, flush func()) {
	w, err := New(o)
	if err != nil {
		panic(err)
	}
	v4, v6 := newFake(), newFake()
	w.open = func(six bool) (xtables, error) {
		if six {
			return v6, nil
		}
		return v4, nil
	}
	dump = func() string { return v4.dump() + v6.dump() }
	flush = func() { *v4, *v6 = *newFake(), *newFake() }
	return w, dump, flush
}
