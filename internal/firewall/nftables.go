//go:build linux

package firewall

import (
	"context"
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
)

// NFTables is the wall in an nft table of our own, "inet NAME", by netlink: no
// program is run. Blocks are elements, with timeouts, of hash sets by family,
// prefix length, action and ports. Base chains at a priority before filter
// jump to "walls", where allowed prefixes, replies to our own connections and
// neighbour discovery return before "lock" and "blocks" are looked at. As a
// drop is final in nft and a return ends nothing but our table's say, others'
// accept rules cannot undo a block, and others' drop rules hold for the allowed.
type NFTables struct {
	o     Options
	table *nftables.Table

	conn *nftables.Conn
	sock *netlink.Conn // of conn
	sets map[nftKind]bool
	held map[netip.Prefix]nftHeld // advisory: what we know to be in which set
	// remake says that the table that is there cannot be set up as it is.
	remake bool

	mu  sync.Mutex
	own map[uint32]bool // guarded by mu: netlink ports whose changes are ours
}

type nftHeld struct {
	kind  nftKind
	until time.Time
}

const (
	nftBuffer = 32 << 20         // of the socket, both ways: what one batch may take
	nftElems  = 1000             // a message: its list of elements must stay under 64 KiB
	nftBatch  = 20 * nftElems    // a batch
	nftWait   = 20 * time.Second // for the kernel's answer
	nftSets   = 512              // kinds of blocks at once
)

// NewNFTables prepares the wall; the kernel is not spoken to before Setup.
func NewNFTables(o Options) (*NFTables, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &NFTables{
		o:     o,
		table: &nftables.Table{Name: o.Name, Family: nftables.TableFamilyINet},
		sets:  map[nftKind]bool{}, held: map[netip.Prefix]nftHeld{}, own: map[uint32]bool{},
	}, nil
}

// Name is "nftables".
func (w *NFTables) Name() string { return "nftables" }

func (w *NFTables) fail(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("nftables: %s: table %s or a part of it is gone: %w", doing, w.o.Name, ErrBroken)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("nftables: %s: no permission (needs CAP_NET_ADMIN)", doing)
	}
	return fmt.Errorf("nftables: %s: %w", doing, err)
}

// open connects once; after a failed batch anew, as answers may be under way.
func (w *NFTables) open() error {
	if w.conn != nil {
		return nil
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		w.sock = c
		// Without the right to a larger buffer the first batch fails, and tells.
		_ = c.SetWriteBuffer(nftBuffer)
		_ = c.SetReadBuffer(nftBuffer)
		port, err := portOf(c)
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
func (w *NFTables) Close() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.CloseLasting()
	w.conn, w.sock = nil, nil
	return err
}

// ready opens and bounds how long the kernel's answers are waited for.
func (w *NFTables) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	if err := w.open(); err != nil {
		return err
	}
	return w.sock.SetDeadline(time.Now().Add(nftWait))
}

// flush sends the batch; all of it happens, or nothing.
func (w *NFTables) flush(doing string) error {
	err := w.conn.Flush()
	if err != nil {
		_ = w.Close() // the error that matters is Flush's
	}
	return w.fail(doing, err)
}

// Setup makes or repairs the table in one batch: there is no instant without
// the allowlist, nor one without the blocks. A table that others gave a shape
// in which ours cannot be laid makes it fail once; the next Setup makes the
// table anew, without the blocks that it held.
func (w *NFTables) Setup(ctx context.Context, p Policy) error {
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
	err = w.flush("setting up table " + w.o.Name)
	w.remake = misshapen(err)
	if err != nil {
		return err
	}
	_, err = w.reload()
	return err
}

// clearWay puts the end of what cannot stay into the batch, and returns the
// block sets that can.
func (w *NFTables) clearWay() (map[nftKind]bool, error) {
	if w.remake {
		w.deleteTable()
		return map[nftKind]bool{}, nil
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
	return slices.ContainsFunc([]error{ErrBroken, unix.EEXIST, unix.EINVAL, unix.EOPNOTSUPP, unix.EBUSY, unix.ELOOP, unix.EMLINK},
		func(shape error) bool { return errors.Is(err, shape) })
}

// deleteTable puts the end of our table into the batch, be it there or not:
// deleting the absent fails.
func (w *NFTables) deleteTable() {
	w.conn.AddTable(w.table)
	w.conn.DelTable(w.table)
}

// standing is our table as the kernel has it, nil when it is not there.
func (w *NFTables) standing() (*nftables.Table, error) {
	tables, err := w.conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, w.fail("listing tables", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == w.o.Name })
	if i < 0 {
		return nil, nil
	}
	return tables[i], nil
}

// kinds reads which block sets stand.
func (w *NFTables) kinds() (map[nftKind]bool, error) {
	kinds := map[nftKind]bool{}
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
func (w *NFTables) Block(ctx context.Context, es []Entry) error {
	live, ended, err := prepare(es, time.Now())
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

func (w *NFTables) fitting(es []Entry) ([]Entry, error) {
	var errs []error
	es = slices.DeleteFunc(es, func(e Entry) bool {
		bad := e.Action == Slow && w.o.Hook == HookRaw || e.Action == Reject && w.o.Hook != HookInput
		if bad {
			errs = append(errs, fmt.Errorf("nftables: %s of %s at %s: %w", e.Action, e.Prefix, w.o.Hook, ErrUnsupported))
		}
		return bad
	})
	return es, errors.Join(errs...)
}

// Unblock takes elements out of the set that each is known to be in. What is
// not known is nowhere: List and Setup learn what others put there.
func (w *NFTables) Unblock(ctx context.Context, ps []netip.Prefix) error {
	for part := range slices.Chunk(ps, nftBatch) {
		if err := w.ready(ctx); err != nil {
			return err
		}
		changes := map[nftKind]*nftChange{}
		for _, p := range part {
			h, there := w.held[p]
			if !there {
				continue
			}
			if changes[h.kind] == nil {
				changes[h.kind] = &nftChange{}
			}
			// Added first, for a moment, as deleting the absent fails.
			e := nftables.SetElement{Key: p.Addr().AsSlice(), Timeout: time.Minute}
			changes[h.kind].remove = append(changes[h.kind].remove, e)
		}
		if err := w.send(changes); err != nil {
			return err
		}
		if err := w.flush(fmt.Sprintf("unblocking %d prefixes", len(part))); err != nil {
			return err
		}
		for _, p := range part {
			delete(w.held, p)
		}
	}
	return nil
}

// List reads all our sets back.
func (w *NFTables) List(ctx context.Context) ([]Entry, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	return w.reload()
}

// reload learns from the kernel which sets and elements there are.
func (w *NFTables) reload() ([]Entry, error) {
	kinds, err := w.kinds()
	if err != nil {
		return nil, err
	}
	w.sets, w.held = kinds, map[netip.Prefix]nftHeld{}
	var es []Entry
	for k := range kinds {
		now := time.Now() // before the kernel counts what is left: never late
		elems, err := w.conn.GetSetElements(k.set(w.table, 0))
		if err != nil {
			return nil, w.fail("listing set "+k.name(), err)
		}
		for _, el := range elems {
			p, ok := k.prefix(el.Key)
			if !ok || el.Expires <= 0 {
				continue
			}
			e := Entry{Prefix: p, Until: now.Add(el.Expires).UTC(), Action: k.action, Ports: k.portList()}
			es = append(es, e)
			w.held[p] = nftHeld{k, e.Until}
		}
	}
	return es, nil
}

// Teardown deletes our table, if it is there.
func (w *NFTables) Teardown(ctx context.Context) error {
	if err := w.ready(ctx); err != nil {
		return err
	}
	w.deleteTable()
	clear(w.sets)
	clear(w.held)
	return w.flush("deleting table " + w.o.Name)
}

// Notes says what differs from what was asked.
func (w *NFTables) Notes() []string {
	var notes []string
	if w.o.Hook == HookRaw {
		notes = append(notes, "hook raw: replies from blocked prefixes to our own connections are dropped too")
	}
	if w.o.Hook == HookInput && !w.o.Forward && hasDocker() {
		notes = append(notes, "docker is here: what is forwarded to containers is blocked too")
	}
	return notes
}
