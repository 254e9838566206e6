package firewall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fakeIPSet plays the ipset program, as far as it is used: restore, save and
// list -t, with its rules about names, sizes and sets that must or must not be.
type fakeIPSet struct {
	sets  map[string]*fakeSet
	calls []string
}

type fakeSet struct {
	header string
	size   int
	elems  map[string]time.Time // zero: for ever
}

func newFakeIPSet() *fakeIPSet {
	f := &fakeIPSet{sets: map[string]*fakeSet{}}
	f.sets["theirs"] = &fakeSet{header: "family inet", size: 10, elems: map[string]time.Time{"192.0.2.1": {}}}
	return f
}

func (f *fakeIPSet) run(ctx context.Context, argv []string, stdin []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.calls = append(f.calls, strings.Join(argv[1:], " "))
	switch {
	case slices.Equal(argv[1:], []string{"restore", "-exist"}):
		for i, l := range strings.Split(strings.TrimSuffix(string(stdin), "\n"), "\n") {
			if err := f.line(strings.Fields(l)); err != nil {
				return nil, fmt.Errorf("error in line %d: %w: %s", i+1, err, l)
			}
		}
		return nil, nil
	case len(argv) == 3 && argv[1] == "save":
		return f.save(argv[2])
	case argv[1] == "list" && argv[2] == "-t":
		return []byte(f.list()), nil
	}
	return nil, fmt.Errorf("usage: %q", argv)
}

func (f *fakeIPSet) line(w []string) error {
	set := f.sets[w[1]]
	if w[0] != "create" && set == nil {
		return errors.New("the set does not exist")
	}
	switch w[0] {
	case "create":
		size, err := strconv.Atoi(after(w, "maxelem"))
		if err != nil || len(w[1]) > 31 || w[2] != "hash:net" {
			return errors.New("syntax error")
		}
		if set != nil {
			return errors.New("set with the same name already exists")
		}
		f.sets[w[1]] = &fakeSet{header: strings.Join(w[3:], " "), size: size, elems: map[string]time.Time{}}
	case "add":
		return set.add(w)
	case "del":
		delete(set.elems, strings.TrimSuffix(w[2], "/32"))
	case "destroy":
		delete(f.sets, w[1])
	case "swap":
		f.sets[w[1]], f.sets[w[2]] = f.sets[w[2]], f.sets[w[1]]
	default:
		return errors.New("unknown command")
	}
	return nil
}

func (s *fakeSet) add(w []string) error {
	var until time.Time
	if t := after(w, "timeout"); t != "" {
		n, err := strconv.Atoi(t)
		if err != nil || n < 1 || n > 2147483 || !strings.Contains(s.header, "timeout") {
			return errors.New("bad timeout")
		}
		until = time.Now().Add(time.Duration(n) * time.Second)
	}
	s.elems[strings.TrimSuffix(w[2], "/32")] = until
	if len(s.elems) > s.size {
		return errors.New("hash is full")
	}
	return nil
}

func (f *fakeIPSet) save(name string) ([]byte, error) {
	s := f.sets[name]
	if s == nil {
		return nil, errors.New("the set with the given name does not exist")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "create %s hash:net %s\n", name, s.header)
	for _, e := range slices.Sorted(maps.Keys(s.elems)) {
		switch until := s.elems[e]; {
		case until.IsZero():
			fmt.Fprintf(&b, "add %s %s\n", name, e)
		case until.After(time.Now()):
			fmt.Fprintf(&b, "add %s %s timeout %d\n", name, e, int(time.Until(until)/time.Second))
		}
	}
	return []byte(b.String()), nil
}

func (f *fakeIPSet) list() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(f.sets)) {
		s := f.sets[n]
		fmt.Fprintf(&b, "Name: %s\nType: hash:net\nHeader: %s\nReferences: 0\nNumber of entries: %d\n\n", n, s.header, len(s.elems))
	}
	return b.String()
}

func (f *fakeIPSet) dump() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(f.sets)) {
		out, _ := f.save(n)
		b.Write(out)
	}
	return b.String()
}

// transcript is an execer that expects exactly these runs, in this order.
type transcript struct {
	want []exchange
	bad  string // the first thing that differed
}

type exchange struct {
	argv, stdin, stdout string
	err                 error
}

func (x *transcript) run(_ context.Context, argv []string, stdin []byte) ([]byte, error) {
	if len(x.want) == 0 {
		x.differ("unexpected run of %q with %q", argv, stdin)
		return nil, errors.New("unexpected")
	}
	e := x.want[0]
	x.want = x.want[1:]
	if got := strings.Join(argv, " "); got != e.argv || string(stdin) != e.stdin {
		x.differ("got %q with\n%s\nwant %q with\n%s", got, stdin, e.argv, e.stdin)
	}
	return []byte(e.stdout), e.err
}

func (x *transcript) differ(format string, args ...any) {
	if x.bad == "" {
		x.bad = fmt.Sprintf(format, args...)
	}
}
