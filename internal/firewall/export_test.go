package firewall

// FakeIPTables is an iptables wall over fakes, for the contract.
func FakeIPTables(o Options) (w *IPTables, dump func() string, flush func()) {
	w, err := NewIPTables(o)
	if err != nil {
		panic(err)
	}
	v4, v6 := newFakeXtables(), newFakeXtables()
	w.open = func(six bool) (xtables, error) {
		if six {
			return v6, nil
		}
		return v4, nil
	}
	dump = func() string { return v4.dump() + v6.dump() }
	flush = func() { *v4, *v6 = *newFakeXtables(), *newFakeXtables() }
	return w, dump, flush
}

// WithForms wraps a wall as Select wraps those that know only prefixes.
func WithForms(b Backend) Backend { return forms{b} }
