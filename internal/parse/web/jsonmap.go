package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stoplog/internal/parse/event"
)

// fieldMap is Options.Map compiled: a tree of keys. It is immutable.
type fieldMap struct {
	root  mapNode
	slots [slots]bool // mapped: what keys are guessed to mean does not count
	extra []string    // names of the fields that are none of the event's own
}

// mapNode is a key on the way to a mapped value, or the key of one.
type mapNode struct {
	key   string
	slot  slot // slotNone: it leads further, or to an extra field
	extra int  // index in fieldMap.extra plus 1
	kids  []mapNode
}

// maxExtra bounds the fields of a map that are none of the event's own.
const maxExtra = 16

// mapSlots are the names that Options.Map gives a meaning to.
var mapSlots = map[string]slot{
	"ip": slotAddr, "user": slotUser, "time": slotTime, "method": slotMethod, "uri": slotURI, "path": slotURI,
	"request": slotRequest, "status": slotStatus, "agent": slotAgent, "referrer": slotReferrer, "host": slotHost,
	"message": slotMessage, "error": slotError, "event": slotEvent, "success": slotSuccess, "outcome": slotOutcome,
	"forwarded": slotHeader,
}

// compileMap checks m; nil for none.
func compileMap(m map[string]string) (*fieldMap, error) {
	if len(m) == 0 {
		return nil, nil
	}
	f := &fieldMap{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		keys := strings.Split(m[name], ".")
		if name == "" || slices.Contains(keys, "") || len(keys) > maxDepth {
			return nil, fmt.Errorf("field %q: %q is no dotted path of keys", name, m[name])
		}
		leaf := mapNode{slot: mapSlots[name]}
		if leaf.slot == slotNone {
			if len(f.extra) == maxExtra {
				return nil, fmt.Errorf("field %q: more than %d fields of your own", name, maxExtra)
			}
			f.extra = append(f.extra, name)
			leaf.extra = len(f.extra)
		}
		if f.slots[leaf.slot] && leaf.slot != slotNone {
			return nil, fmt.Errorf("field %q: path and uri are one, and named twice", name)
		}
		f.slots[leaf.slot] = leaf.slot != slotNone
		f.root.add(keys, leaf)
		if len(keys) > 1 { // as one key, which logfmt and flattened JSON have
			f.root.add([]string{m[name]}, leaf)
		}
	}
	return f, nil
}

func (n *mapNode) add(keys []string, leaf mapNode) {
	i := slices.IndexFunc(n.kids, func(k mapNode) bool {
		return k.key == keys[0] && (len(keys) > 1) == (k.slot == slotNone && k.extra == 0)
	})
	if i < 0 {
		i = len(n.kids)
		n.kids = append(n.kids, mapNode{key: keys[0]})
	}
	if len(keys) > 1 {
		n.kids[i].add(keys[1:], leaf)
		return
	}
	leaf.key = keys[0]
	n.kids[i] = leaf
}

// inside returns the node of the object under key, nil when nothing in it is
// mapped.
func (n *mapNode) inside(key []byte) *mapNode {
	if n == nil {
		return nil
	}
	for i := range n.kids {
		if k := &n.kids[i]; k.kids != nil && k.key == string(key) {
			return k
		}
	}
	return nil
}

// mapped keeps v by the map and reports whether its key was mapped.
func (r *entry) mapped(n *mapNode, key, v []byte) bool {
	if n == nil {
		return false
	}
	found := false
	for i := range n.kids {
		k := &n.kids[i]
		if k.kids != nil || k.key != string(key) {
			continue
		}
		found = true
		if k.extra == 0 {
			r.put(k.slot, v)
		} else if r.extra[k.extra-1] == nil {
			r.extra[k.extra-1] = v
		}
	}
	return found
}

// tells reads the value of a mapped outcome.
func tells(v []byte) event.Outcome {
	var buf [16]byte
	switch string(fold(buf[:0], v)) {
	case "failure", "failed", "fail", "false", "denied", "deny", "error", "rejected", "reject", "invalid", "unauthorized":
		return event.Failure
	case "success", "succeeded", "successful", "true", "ok", "accepted", "accept", "allowed", "allow", "granted":
		return event.Success
	}
	return event.Other
}

// fields appends the values of the map's own fields.
func (r *entry) fields(w *Reader, ev *event.Event) {
	for i, v := range r.extra {
		if v != nil {
			ev.Fields = append(ev.Fields, event.Field{Name: r.fm.extra[i], Value: w.unescaped(v)})
		}
	}
}
