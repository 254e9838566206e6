package wallproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/base"
)

// script is a client that sends what it is given and listens to nothing.
type script struct {
	in  *bytes.Reader
	out int
}

func (s *script) Read(b []byte) (int, error) { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error) {
	s.out += len(b)
	return len(b), nil
}

// frame prints one frame.
func frame(o op, payload []byte) []byte {
	var b bytes.Buffer
	if err := writeFrame(&b, o, payload); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// FuzzServe plays every client there can be. Whatever it says, the wall never
// holds what is outside the limits, and each order gets an answer.
func FuzzServe(f *testing.F) {
	var e encoder
	e.entries(sampleEntries())
	var p encoder
	p.policy(firewall.Policy{})
	f.Add(bytes.Join([][]byte{frame(opSetup, p), frame(opBlock, e), frame(opList, nil), frame(opCheck, nil), frame(opExpire, nil)}, nil))
	var u encoder
	u.prefixes(base.PrefixesOf(nil))
	f.Add(bytes.Join([][]byte{frame(opBlock, e), frame(opUnblock, u), frame(opTeardown, nil)}, nil))
	f.Add([]byte{0, 0, 0, 2, 1, 99})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := firewall.NewDryRun()
		lim := Limits{Min4: 20, Min6: 48, MaxTTL: 30 * 24 * time.Hour}
		c := &script{in: bytes.NewReader(b)}
		s := &server{conn: c, b: d, lim: lim, cut: func(context.Context, []firewall.Entry, []netip.Prefix) (int, error) { return 0, nil }}
		err := s.serve(t.Context())
		if err != nil && !errors.Is(err, errWire) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
		held, _ := firewall.ListAll(t.Context(), d)
		for _, e := range held {
			p := e.Prefix
			floor := lim.Min6
			if p.Addr().Is4() {
				floor = lim.Min4
			}
			if p.Bits() < floor || p != p.Masked() || p.Addr().Is4In6() || e.Until.After(time.Now().Add(lim.MaxTTL+time.Minute)) || e.Validate() != nil {
				t.Errorf("the wall holds %+v", e)
			}
		}
	})
}

func FuzzSocket(f *testing.F) {
	f.Add(make([]byte, 72))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseSocket(b); ok && s.remote.Is4In6() {
			t.Errorf("took %v", s.remote)
		}
	})
}
