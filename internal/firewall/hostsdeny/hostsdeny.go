// Package hostsdeny blocks by lines in hosts.deny, for programs that use libwrap.
package hostsdeny

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// HostsDeny is the wall of the TCP wrappers, hosts_access(5): lines between
// our markers in hosts.deny. It refuses connections to programs that use
// libwrap, whatever their port; an entry's action and ports are remembered
// but every entry refuses all of them, except slowed ones, which get no line.
//
// Nothing in it ends by itself: ended lines go at Setup, at every write, and
// at Expire.
type Wall struct {
	file  denyFile
	max   int
	allow []netip.Prefix
	known bool   // Setup was there
	mark  string // of what we wrote last: another one is of a file that was put back
	lost  bool   // such a one was found, and List has not told
}

// maxExcept bounds one line: libwrap reads at most 2,047 bytes of it
// (BUFLEN in its hosts_access.c).
const maxExcept = 1500

// NewHostsDeny prepares the wall; the file is not touched before Setup.
func New(o firewall.Options) (*Wall, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Wall{file: denyFile{path: o.HostsDeny, name: o.Name}, max: o.MaxRules}, nil
}

// Name is "hosts.deny".
func (w *Wall) Name() string { return "hosts.deny" }

// Setup proves that the file can be replaced, takes out what ended, and
// writes the exceptions of the new policy.
func (w *Wall) Setup(ctx context.Context, p firewall.Policy) error {
	if err := w.Probe(ctx); err != nil {
		return err
	}
	w.allow = p.Allow
	return w.change(ctx, func(map[netip.Prefix]firewall.Entry) error { return nil })
}

func (w *Wall) Probe(context.Context) error { return w.file.probe() }

// Block writes a line for each entry.
func (w *Wall) Block(ctx context.Context, es []firewall.Entry) error {
	live, ended, err := firewall.Prepare(es, time.Now())
	more := w.change(ctx, func(held map[netip.Prefix]firewall.Entry) error {
		for _, p := range ended {
			delete(held, p)
		}
		full := &firewall.FullError{Wall: w.Name(), Max: w.max}
		for _, e := range live {
			if _, there := held[e.Prefix]; !there && len(held) >= w.max {
				full.Left = append(full.Left, e.Prefix)
				continue
			}
			held[e.Prefix] = e
		}
		if len(full.Left) > 0 {
			return full
		}
		return nil
	})
	return errors.Join(err, more)
}

// Unblock takes the lines of these prefixes out.
func (w *Wall) Unblock(ctx context.Context, ps []netip.Prefix) error {
	return w.change(ctx, func(held map[netip.Prefix]firewall.Entry) error {
		for _, p := range ps {
			delete(held, p)
		}
		return nil
	})
}

// List reads our lines back. Those whose end has come are not listed.
func (w *Wall) List(_ context.Context, emit func(firewall.Entry)) error {
	t, err := w.file.read()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, e := range t.held() {
		if e.Until.After(now) {
			emit(e)
		}
	}
	return w.whole(t)
}

// Expire takes out the lines whose end has come and leaves the others as they
// are: it needs no Setup, which alone knows the exceptions.
func (w *Wall) Expire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	return w.file.update(func(t denyText) []string {
		keep := []string{}
		ended := false
		for _, l := range t.ours {
			if s, ok := strings.CutPrefix(l, "# "); ok {
				if e, ok := base.ParseNote(s); ok {
					ended = !e.Until.After(now)
				}
			}
			if !ended {
				keep = append(keep, l)
			}
		}
		return keep
	})
}

// Teardown takes our lines and markers out; the rest is as it was found.
func (w *Wall) Teardown(context.Context) error {
	err := w.file.update(func(denyText) []string { return nil })
	if err == nil {
		w.known, w.mark, w.lost = false, "", false
	}
	return err
}

// Notes says what this wall cannot do.
func (w *Wall) Notes() []string {
	return []string{"works only for programs that use libwrap, on all their ports; rate-limited prefixes are not included"}
}

// change rewrites our lines with what do makes of them, if they differ.
func (w *Wall) change(ctx context.Context, do func(map[netip.Prefix]firewall.Entry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var told error
	var next string
	lost := false
	err := w.file.update(func(t denyText) []string {
		held := t.held()
		now := time.Now()
		for p, e := range held {
			if !e.Until.After(now) {
				delete(held, p)
			}
		}
		found, old := cutMark(t.ours)
		lost = w.known && found != w.mark
		told = do(held)
		lines := w.lines(held)
		if next = found; slices.Equal(lines, old) && !lost {
			return orEmpty(t.ours)
		}
		if next = ""; len(lines) > 0 {
			next = denyMark + strconv.FormatUint(rand.Uint64(), 16)
			lines = append([]string{next}, lines...)
		}
		return lines
	})
	if err == nil {
		w.mark, w.known, w.lost = next, true, w.lost || lost
	}
	return errors.Join(told, err)
}

// denyMark leads the line that tells one writing of ours from another.
const denyMark = "# change "

// cutMark takes the mark, "" if there is none, from the other lines.
func cutMark(ours []string) (mark string, lines []string) {
	if len(ours) > 0 && strings.HasPrefix(ours[0], denyMark) {
		return ours[0], ours[1:]
	}
	return "", ours
}

// whole reports a file that is not as we wrote it but for lines taken out.
func (w *Wall) whole(t denyText) error {
	found, _ := cutMark(t.ours)
	if !w.lost && (!w.known || found == w.mark) {
		return nil
	}
	w.lost = false
	return fmt.Errorf("%s: stoplog's lines were replaced: %w", w.file.path, firewall.ErrBroken)
}

// Check looks whether our lines were taken out or replaced.
func (w *Wall) Check(context.Context) error {
	t, err := w.file.read()
	if found, _ := cutMark(t.ours); err == nil && w.known && found != w.mark {
		err = fmt.Errorf("%s: stoplog's lines were replaced: %w", w.file.path, firewall.ErrBroken)
	}
	return err
}

// lines prints the held entries in a set order.
func (w *Wall) lines(held map[netip.Prefix]firewall.Entry) []string {
	es := make([]firewall.Entry, 0, len(held))
	for _, e := range held {
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b firewall.Entry) int { return a.Prefix.Compare(b.Prefix) })
	lines := []string{}
	for _, e := range es {
		lines = append(lines, "# "+base.Note(e))
		if e.Action != firewall.Slow {
			lines = append(lines, denyLines(e.Prefix, w.allow)...)
		}
	}
	return lines
}

// denyLines refuses p but for what is allowed in it.
func denyLines(p netip.Prefix, allow []netip.Prefix) []string {
	var inside []string
	for _, a := range allow {
		switch {
		case !a.Overlaps(p):
		case a.Bits() <= p.Bits():
			return nil
		default:
			inside = append(inside, denyForm(a))
		}
	}
	line := "ALL: " + denyForm(p)
	if len(inside) == 0 {
		return []string{line}
	}
	slices.Sort(inside)
	if line += " EXCEPT " + strings.Join(slices.Compact(inside), " "); len(line) <= maxExcept {
		return []string{line}
	}
	return denyPieces(p, allow)
}

// denyPieces is for exceptions too many for one line: p without them, piece
// by piece.
func denyPieces(p netip.Prefix, allow []netip.Prefix) []string {
	var lines []string
	for _, piece := range base.Subtract([]netip.Prefix{p}, allow) {
		lines = append(lines, "ALL: "+denyForm(piece))
	}
	return lines
}

// denyForm is a prefix in hosts_access(5)'s patterns: net/mask for IPv4,
// [net]/length for IPv6, a single address without either.
func denyForm(p netip.Prefix) string {
	a := p.Addr()
	switch {
	case a.Is4() && p.IsSingleIP():
		return a.String()
	case a.Is4():
		return a.String() + "/" + maskOf(p.Bits()).String()
	case p.IsSingleIP():
		return "[" + a.String() + "]"
	}
	return "[" + a.String() + "]/" + strconv.Itoa(p.Bits())
}

// maskOf is the IPv4 netmask of a prefix length.
func maskOf(bits int) netip.Addr {
	m := ^uint32(0) << (32 - bits)
	if bits == 0 {
		m = 0
	}
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)})
}

// leftHostsDeny finds lines of o's name.
func Leftovers(o firewall.Options) []firewall.Leftover {
	w, err := New(o)
	if err != nil {
		return nil
	}
	if t, err := w.file.read(); err != nil || !t.marked {
		return nil
	}
	return []firewall.Leftover{{What: "hosts.deny: lines in " + filepath.Clean(o.HostsDeny), Remove: w.Teardown}}
}
