package detect

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"stoplog/internal/bucket"
	"stoplog/internal/rules"
)

// keyAll is the one bucket of a rule that counts all together.
var keyAll = bucket.KeyOfText(0, []byte("all"))

// wholeAddr cuts nothing off.
var wholeAddr = rules.Lens{V4: 32, V6: 128}

// keyOf names what an event counts for; false when the event lacks a part.
// Several texts are each written with their length before, so that no two
// lists of texts read the same.
func (e *Engine) keyOf(c *counter, k rules.Key, m *evaluation) (bucket.Key, bool) {
	var p netip.Prefix
	var pk bucket.Key
	e.scratch = e.scratch[:0]
	texts := false
	for _, part := range k {
		switch part.By {
		case rules.ByAll:
			return keyAll, true
		case rules.ByPrefix, rules.ByAddr:
			if !m.ev.Addr.IsValid() {
				return bucket.Key{}, false
			}
			var s bucket.HashedKey
			p, s = e.prefixOf(c.rule, part.By, m)
			pk = s.Key
		default:
			v, ok := textOf(part, m)
			if !ok {
				return bucket.Key{}, false
			}
			texts = true
			if len(k) > 1 {
				e.scratch = binary.AppendUvarint(e.scratch, uint64(len(v)))
			}
			e.scratch = append(e.scratch, v...)
		}
	}
	switch {
	case !p.IsValid() && !texts:
		return keyAll, true
	case !p.IsValid():
		return bucket.KeyOfText(0, e.scratch), true
	case !texts:
		return pk, true
	}
	return bucket.KeyOfPair(p, 0, e.scratch), true
}

// prefixOf cuts the event's address as the rule, or the network it lies in,
// wants it. Rules mostly agree on the lengths, so the last answer is kept.
func (e *Engine) prefixOf(r *rules.Rule, by rules.KeyPart, m *evaluation) (netip.Prefix, bucket.HashedKey) {
	lens, cut := r.Prefix, rules.Lens.Cut
	if by == rules.ByAddr {
		lens = wholeAddr
	} else if n := e.network(m); n != nil && n.Len != 0 {
		lens, cut = rules.Lens{V4: n.Len, V6: n.Len}, rules.Lens.CutExactly
	}
	if !m.prefix.IsValid() || lens != m.cut {
		m.cut, m.prefix = lens, cut(lens, m.ev.Addr)
		m.hashed = e.places.Hash(bucket.KeyOf(m.prefix))
	}
	return m.prefix, m.hashed
}

// hashedOf is keyOf of what the counter counts by.
func (e *Engine) hashedOf(c *counter, m *evaluation) (bucket.HashedKey, bool) {
	if c.plain {
		if !m.ev.Addr.IsValid() {
			return bucket.HashedKey{}, false
		}
		_, s := e.prefixOf(c.rule, c.by, m)
		return s, true
	}
	k, ok := e.keyOf(c, c.rule.Key, m)
	return e.places.Hash(k), ok
}

// noNetwork stands for "looked, and there is none".
var noNetwork rules.Network

// network finds the network with rules of its own that the address lies in;
// nil when there is none.
func (e *Engine) network(m *evaluation) *rules.Network {
	if len(e.set.Networks) == 0 {
		return nil
	}
	if m.net == nil {
		if m.net = e.networkAt(m.ev.Addr); m.net == nil {
			m.net = &noNetwork
		}
	}
	if m.net == &noNetwork {
		return nil
	}
	return m.net
}

// textOf reads a part of a key that is no address; false when the event has
// none.
func textOf(p rules.Part, m *evaluation) ([]byte, bool) {
	var v []byte
	ev := m.ev
	switch p.By {
	case rules.ByUser:
		v = ev.User
	case rules.ByService:
		return []byte(ev.Service), ev.Service != ""
	case rules.ByPath:
		v = rules.Path(ev)
	case rules.ByHost:
		v = ev.Host
	case rules.ByMethod:
		v = ev.Method
	case rules.ByAgent:
		v = ev.Agent
	case rules.ByField:
		v = rules.Captured(ev, p.Name)
	case rules.ByParam:
		v = rules.Param(ev.Query, []byte(p.Name))
	}
	return v, len(v) > 0
}

// printKey writes what an event counts for as people read it.
func (e *Engine) printKey(c *counter, m *evaluation) string {
	var words []string
	for _, part := range c.rule.Key {
		switch part.By {
		case rules.ByAll:
			return "all"
		case rules.ByPrefix, rules.ByAddr:
			p, _ := e.prefixOf(c.rule, part.By, m)
			words = append(words, p.String())
		default:
			v, _ := textOf(part, m)
			words = append(words, part.String()+"="+printable(v))
		}
	}
	if len(words) == 0 {
		return "all"
	}
	return strings.Join(words, " ")
}

// maxPrinted bounds how much of a hostile text is shown.
const maxPrinted = 128

func printable(v []byte) string {
	return strings.ToValidUTF8(string(v[:min(len(v), maxPrinted)]), "\uFFFD")
}
