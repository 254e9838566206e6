package export

import (
	"bufio"
	"net"
	"net/netip"
	"strconv"
)

// Errors of a bufio.Writer stick until its Flush, which Write reports.

// put writes strings.
func put(w *bufio.Writer, ss ...string) {
	for _, s := range ss {
		w.WriteString(s)
	}
}

// putPrefix writes p, always with its length.
func putPrefix(w *bufio.Writer, p netip.Prefix) {
	w.Write(p.AppendTo(w.AvailableBuffer()))
}

// putHost writes p, a single address without its length.
func putHost(w *bufio.Writer, p netip.Prefix) {
	if p.IsSingleIP() {
		w.Write(p.Addr().AppendTo(w.AvailableBuffer()))
		return
	}
	putPrefix(w, p)
}

func putInt(w *bufio.Writer, n int64) {
	w.Write(strconv.AppendInt(w.AvailableBuffer(), n, 10))
}

// comment writes the list's notes, each on a line after mark.
func comment(w *bufio.Writer, l *List, mark string, more ...string) {
	for _, n := range append(l.notes(), more...) {
		put(w, mark, n, "\n")
	}
}

// each writes every piece between before and after.
func each(w *bufio.Writer, ps []piece, before, after string) {
	for _, p := range ps {
		put(w, before)
		putPrefix(w, p.Prefix)
		put(w, after)
	}
}

// mask4 is the dotted mask of p's length.
func mask4(p netip.Prefix) net.IP { return net.IP(net.CIDRMask(p.Bits(), 32)) }
