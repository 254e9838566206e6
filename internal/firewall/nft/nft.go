//go:build linux

// Package nft blocks in a table of nftables of its own, over netlink.
package nft

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"stoplog/internal/addr"
	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
	"stoplog/internal/firewall/held"
)

// NFTables is the wall in an nft table of our own, "inet NAME", by netlink: no
// program is run. Blocks are elements, with timeouts, of hash sets by family,
// prefix length, action and ports. Base chains at a priority before filter
// jump to "walls", where allowed prefixes, replies to our own connections and
// neighbour discovery return before "lock" and "blocks" are looked at. As a
// drop is final in nft and a return ends nothing but our table's say, others'
// accept rules cannot undo a block, and others' drop rules hold for the allowed.
type Wall struct {
	Options firewall.Options
	table   *nftables.Table

	conn *nftables.Conn
	sock *netlink.Conn // of conn
	sets map[kind]bool
	held held.Table[kind] // advisory: what we know to be in which set
	// made is the handle of our table, 0 before Setup: another one is of a table
	// that somebody else made.
	made uint64
	// remake says that the table that is there cannot be set up as it is.
	remake bool

	mu  sync.Mutex
	own map[uint32]bool // guarded by mu: netlink ports whose changes are ours
}

const (
	nftBuffer = 32 << 20         // of the socket, both ways: what one batch may take
	nftElems  = 1000             // a message: its list of elements must stay under 64 KiB
	nftBatch  = 20 * nftElems    // a batch
	nftWait   = 60 * time.Second // for the kernel's answer
	nftSets   = 512              // kinds of blocks at once
)

// NewNFTables prepares the wall; the kernel is not spoken to before Setup.
func New(o firewall.Options) (*Wall, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Wall{
		Options: o,
		table:   &nftables.Table{Name: o.Name, Family: nftables.TableFamilyINet},
		sets:    map[kind]bool{}, own: map[uint32]bool{},
	}, nil
}

// Name is "nftables".
func (w *Wall) Name() string { return "nftables" }

func (w *Wall) fail(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("nftables: %s: table %s or a part of it is missing: %w", doing, w.Options.Name, firewall.ErrBroken)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("nftables: %s: %w (needs CAP_NET_ADMIN)", doing, os.ErrPermission)
	}
	return fmt.Errorf("nftables: %s: %w", doing, err)
}

// open connects once; after a failed batch again, as answers may be under way.
func (w *Wall) open() error {
	if w.conn != nil {
		return nil
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		w.sock = c
		// Without the right to a larger buffer the first batch fails, and tells.
		_ = c.SetWriteBuffer(nftBuffer)
		_ = c.SetReadBuffer(nftBuffer)
		port, err := base.PortOf(c)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.own[port] = true
		return err
	}))
	if err != nil {
		return w.fail("opening netlink", err)
	}
	w.conn = conn
	return nil
}

// Close closes the netlink socket; the next use opens it again.
func (w *Wall) Close() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.CloseLasting()
	w.conn, w.sock = nil, nil
	return err
}

// ready opens and bounds how long the kernel's answers are waited for.
func (w *Wall) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	if err := w.open(); err != nil {
		return err
	}
	return w.sock.SetDeadline(time.Now().Add(nftWait))
}

// flush sends the batch; all of it happens, or nothing.
func (w *Wall) flush(doing string) error {
	err := w.conn.Flush()
	if err != nil {
		_ = w.Close() // the error that matters is Flush's
	}
	return w.fail(doing, err)
}

// Setup makes or repairs the table in one batch: there is no instant without
// the allowlist, nor one without the blocks. A table that others gave a shape
// in which ours cannot be laid makes it fail once; the next Setup makes the
// table again, without the blocks that it held.
func (w *Wall) Setup(ctx context.Context, p firewall.Policy) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	kinds, err := w.clearWay()
	if err != nil {
		return err
	}
	if err := w.layOut(kinds, p); err != nil {
		return err
	}
	err = w.flush("setting up table " + w.Options.Name)
	w.remake = misshapen(err)
	if err != nil {
		return err
	}
	if w.made, err = w.standsAs(ctx); err != nil {
		return err
	}
	if err := w.reload(ctx, func(firewall.Entry) {}); !errors.Is(err, firewall.ErrBroken) {
		return err
	}
	return nil // gone again already: the next Check or List tells
}

// standsAs is the handle of our table, which another table of that name does
// not have; 0 when it is not there.
func (w *Wall) standsAs(ctx context.Context) (handle uint64, err error) {
	c, err := base.DialNetfilter(ctx)
	if err != nil {
		return 0, w.fail("opening netlink", err)
	}
	defer c.Close()
	ms, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE, Flags: netlink.Request},
		Data:   base.AttrText([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, unix.NFTA_TABLE_NAME, w.Options.Name),
	})
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	for _, m := range ms {
		base.NetfilterAttributes(m.Data, func(typ uint16, b []byte) {
			if typ == nftaTableHandle && len(b) == 8 {
				handle = binary.BigEndian.Uint64(b)
			}
		})
	}
	return handle, w.fail("looking for table "+w.Options.Name, err)
}

// nftaTableHandle is NFTA_TABLE_HANDLE (linux/netfilter/nf_tables.h).
const nftaTableHandle = 4

// clearWay puts the end of what cannot stay into the batch, and returns the
// block sets that can.
func (w *Wall) clearWay() (map[kind]bool, error) {
	if w.remake {
		w.deleteTable()
		return map[kind]bool{}, nil
	}
	kinds, err := w.kinds()
	if err != nil {
		return nil, err
	}
	return kinds, w.dropBases()
}

// misshapen reports whether a batch failed by what is there already: names
// that are something else than ours, or a table that sleeps.
func misshapen(err error) bool {
	return slices.ContainsFunc([]error{firewall.ErrBroken, unix.EEXIST, unix.EINVAL, unix.EOPNOTSUPP, unix.EBUSY, unix.ELOOP, unix.EMLINK},
		func(shape error) bool { return errors.Is(err, shape) })
}

// deleteTable puts the end of our table into the batch, be it there or not:
// deleting the absent fails.
func (w *Wall) deleteTable() {
	w.conn.AddTable(w.table)
	w.conn.DelTable(w.table)
}

// standing is our table as the kernel has it, nil when it is not there.
func (w *Wall) standing() (*nftables.Table, error) {
	tables, err := w.conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, w.fail("listing tables", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == w.Options.Name })
	if i < 0 {
		return nil, nil
	}
	return tables[i], nil
}

// kinds reads which block sets stand.
func (w *Wall) kinds() (map[kind]bool, error) {
	kinds := map[kind]bool{}
	there, err := w.standing()
	if err != nil || there == nil {
		return kinds, err
	}
	sets, err := w.conn.GetSets(w.table)
	if err != nil {
		return nil, w.fail("listing sets", err)
	}
	for _, s := range sets {
		if k, ok := parseKind(s.Name); ok {
			kinds[k] = true
		}
	}
	return kinds, nil
}

// Block adds elements in batches. Elements that may be there already are
// added, deleted and added in one batch: before Linux 6.12 adding again does
// not refresh the timeout, and deleting what is absent fails.
func (w *Wall) Block(ctx context.Context, es []firewall.Entry) error {
	live, ended, err := firewall.Prepare(es, time.Now())
	live, unfit := w.fitting(live)
	live, full := w.room(live)
	errs := []error{err, unfit}
	for part := range slices.Chunk(live, nftBatch) {
		if err := w.blockBatch(ctx, part); err != nil {
			errs = append(errs, err)
			break
		}
	}
	if len(ended) > 0 {
		errs = append(errs, w.Unblock(ctx, ended))
	}
	if full != nil {
		errs = append(errs, full)
	}
	return errors.Join(errs...)
}

func (w *Wall) fitting(es []firewall.Entry) ([]firewall.Entry, error) {
	var errs []error
	es = slices.DeleteFunc(es, func(e firewall.Entry) bool {
		bad := e.Action == firewall.Slow && w.Options.Hook == firewall.HookRaw || e.Action == firewall.Reject && w.Options.Hook != firewall.HookInput
		if bad {
			errs = append(errs, fmt.Errorf("nftables: %s of %s at %s: %w", e.Action, e.Prefix, w.Options.Hook, firewall.ErrUnsupported))
		}
		return bad
	})
	return es, errors.Join(errs...)
}

// Unblock takes elements out of the set that each is known to be in. What is
// not known is nowhere: List and Setup learn what others put there.
func (w *Wall) Unblock(ctx context.Context, ps []netip.Prefix) error {
	for part := range slices.Chunk(ps, nftBatch) {
		if err := w.ready(ctx); err != nil {
			return err
		}
		changes := map[kind]*setChange{}
		for _, p := range part {
			k, there := w.held.Get(p)
			if !there {
				continue
			}
			for form := range wholeOf(p) {
				k := k.of(form)
				if changes[k] == nil {
					changes[k] = &setChange{}
				}
				// Added first, for a moment, as deleting the absent fails.
				e := nftables.SetElement{Key: form.Addr().AsSlice(), Timeout: time.Minute}
				changes[k].remove = append(changes[k].remove, e)
			}
		}
		if err := w.send(changes); err != nil {
			return err
		}
		if err := w.flush(fmt.Sprintf("unblocking %d prefixes", len(part))); err != nil {
			return err
		}
		for _, p := range part {
			w.held.Drop(p)
		}
	}
	return nil
}

// List reads all our sets back.
func (w *Wall) List(ctx context.Context, emit func(firewall.Entry)) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	return w.reload(ctx, emit)
}

// reload learns from the kernel which sets and elements there are.
func (w *Wall) reload(ctx context.Context, emit func(firewall.Entry)) error {
	kinds, err := w.kinds()
	if err != nil {
		return err
	}
	lost := ""
	for k := range w.sets {
		if !kinds[k] {
			lost = "set " + k.name() + " is gone"
		}
	}
	w.sets = kinds
	w.held.Clear()
	forms := 0
	for _, k := range sortedByFamily(kinds) {
		whole := false
		err := w.dump(ctx, k, func(key []byte, expires time.Duration, now time.Time) {
			p, ok := k.prefix(key)
			switch {
			case !ok:
			case k.isMark(p):
				whole = true
			case w.isForm(p, k):
				forms++
			case expires > 0:
				e := firewall.Entry{Prefix: p, Until: now.Add(expires).UTC(), Action: k.action, Ports: k.portList()}
				w.held.Put(p, k, e.Until)
				emit(e)
			}
		})
		if err != nil {
			return w.fail("listing set "+k.name(), err)
		}
		if !whole && k.marked() {
			lost = "set " + k.name() + " was flushed"
		}
	}
	now, err := w.standsAs(ctx)
	if err == nil && forms != w.formsHeld() {
		lost, err = w.missingForms(ctx, lost)
	}
	switch {
	case err != nil:
		return err
	case w.made != 0 && now != w.made:
		lost = "table " + w.Options.Name + " was recreated"
	}
	if lost != "" {
		return fmt.Errorf("nftables: %s: %w", lost, firewall.ErrBroken)
	}
	return nil
}

// sortedByFamily begins with IPv4, whose blocks tell which IPv6 elements are forms.
func sortedByFamily(kinds map[kind]bool) []kind {
	ks := sortedKinds(kinds)
	slices.SortStableFunc(ks, func(a, b kind) int { return cmp.Compare(a.family(), b.family()) })
	return ks
}

// isForm reports whether an element of a set is a form of a block that is held.
func (w *Wall) isForm(p netip.Prefix, k kind) bool {
	of, is := addr.Form(p)
	if !is {
		return false
	}
	kind, there := w.held.Get(of)
	return there && kind.of(p) == k
}

// formsHeld is how many forms the blocks that are held have.
func (w *Wall) formsHeld() (n int) {
	w.held.Each(func(p netip.Prefix) { n += len(addr.Forms(p)) })
	return n
}

// missingForms looks for blocks of which a form is not there, and adds what it
// finds to lost. What ends within a moment may have ended between two listings.
func (w *Wall) missingForms(ctx context.Context, lost string) (string, error) {
	there := map[netip.Prefix]bool{}
	for k := range w.sets {
		if !k.v6 {
			continue
		}
		err := w.dump(ctx, k, func(key []byte, _ time.Duration, _ time.Time) {
			if p, ok := k.prefix(key); ok && w.isForm(p, k) {
				there[p] = true
			}
		})
		if err != nil {
			return lost, w.fail("listing set "+k.name(), err)
		}
	}
	soon, missing := held.SecondsOf(time.Now().Add(2*time.Second)), 0
	w.held.Each(func(p netip.Prefix) {
		s, _ := w.held.Slot(p)
		if s.Until > soon && slices.ContainsFunc(addr.Forms(p), func(form netip.Prefix) bool { return !there[form] }) {
			missing++
		}
	})
	if missing > 0 && lost == "" {
		lost = fmt.Sprintf("the IPv6 forms of %d blocks are missing", missing)
	}
	return lost, nil
}

// Teardown deletes our table, if it is there.
func (w *Wall) Teardown(ctx context.Context) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	w.deleteTable()
	clear(w.sets)
	w.held = held.Table[kind]{}
	return w.flush("deleting table " + w.Options.Name)
}

// Notes says what differs from what was asked.
func (w *Wall) Notes() []string {
	var notes []string
	if w.Options.Hook == firewall.HookRaw {
		notes = append(notes, "hook raw: replies from blocked prefixes to this machine's own connections are dropped, too")
	}
	if w.Options.Hook == firewall.HookInput && !w.Options.Forward && hasDocker() {
		notes = append(notes, "docker is running: traffic forwarded to containers is blocked, too")
	}
	return notes
}

// leftNFTables finds a table of o's name.
func Leftovers(ctx context.Context, o firewall.Options) []firewall.Leftover {
	w, err := New(o)
	if err != nil || w.ready(ctx) != nil {
		return nil
	}
	defer w.Close()
	if t, err := w.standing(); err != nil || t == nil {
		return nil
	}
	return []firewall.Leftover{{What: "nftables: table inet " + o.Name, Remove: func(ctx context.Context) error {
		defer w.Close()
		return w.Teardown(ctx)
	}}}
}
