package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"stoplog/internal/control"
)

const (
	// undoFor is how long the page offers to undo an order; the server waits
	// undoGrace longer, for a form that is on its way.
	undoFor   = 10 * time.Second
	undoGrace = 5 * time.Second
)

// undo is what takes back an order; the zero value is nothing.
type undo struct {
	id    string // of the form
	until time.Time
	steps []undoStep
}

type undoStep struct {
	do    string // block, unblock, disallow
	order control.Order
	// until is when a block ends that is put back.
	until time.Time
}

// undoOf says how to take back an order of p, given what is known before it is
// carried out. It is nothing when the same state cannot be made again: the
// page then offers no undo.
func undoOf(d draft, p netip.Prefix, x control.Explanation, now time.Time) undo {
	u := undo{id: random(), until: now.Add(undoFor + undoGrace)}
	target := control.Order{Target: d.Target}
	if x.InsideTotal > len(x.Inside) {
		return undo{}
	}
	switch d.Do {
	case "block":
		if len(x.Blocked)+len(x.Inside) > 0 {
			return undo{} // to unblock it would end these too
		}
		u.steps = append(u.steps, undoStep{do: "unblock", order: target})
	case "unblock":
		if !u.blockAgain(x.Blocked) || !u.blockAgain(x.Inside) {
			return undo{}
		}
	case "allow":
		for _, a := range x.Allowed {
			if q, ok := readTarget(a.Prefix); ok && q == p {
				return undo{} // it was allowed before, for another time
			}
		}
		u.steps = append(u.steps, undoStep{do: "disallow", order: target})
		var lifted []control.Block
		for _, b := range x.Blocked {
			if q, ok := readTarget(b.Prefix); ok && q == p {
				lifted = append(lifted, b)
			}
		}
		if !u.blockAgain(lifted) || !u.blockAgain(x.Inside) {
			return undo{}
		}
	}
	if len(u.steps) == 0 {
		return undo{}
	}
	return u
}

// blockAgain adds the steps that put blocks back. It reports whether an order
// by hand can say all that they said.
func (u *undo) blockAgain(bs []control.Block) bool {
	for _, b := range bs {
		if b.Limited || b.Action != "" && b.Action != "drop" || len(b.Except) > 0 {
			return false
		}
		reason := "undone unblock of rule " + b.Rule
		if b.Rule == "by hand" {
			reason = b.Reason
		}
		u.steps = append(u.steps, undoStep{do: "block", order: control.Order{Target: b.Prefix, Reason: reason}, until: b.Until})
	}
	return true
}

// undo takes back the last order of a session.
func (s *site) undo(w http.ResponseWriter, r *http.Request) {
	who, _ := s.permitted(w, r, "undo")
	if who == nil {
		return
	}
	u := s.sessions.takeUndo(who, r.PostFormValue("id"))
	now := time.Now()
	if len(u.steps) == 0 || now.After(u.until) {
		s.sessions.say(who, notice{Text: "It is too late to undo that. Nothing was changed.", Bad: true})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	n := notice{Text: "Undone. Buckets that were emptied stay empty."}
	for _, x := range u.steps {
		if err := s.step(ctx, x, signed(who), now); err != nil {
			n = notice{Text: "Not undone: " + x.order.Target + ": " + why(err), Bad: true}
			break
		}
	}
	s.sessions.say(who, n)
	http.Redirect(w, r, lookURL(u.steps[0].order.Target), http.StatusSeeOther)
}

func (s *site) step(ctx context.Context, x undoStep, by string, now time.Time) (err error) {
	x.order.By = by
	switch x.do {
	case "unblock":
		_, err = s.daemon.Unblock(ctx, x.order)
	case "disallow":
		_, err = s.daemon.Disallow(ctx, x.order)
	case "block":
		if x.order.TTL = x.until.Sub(now).Round(time.Second); x.order.TTL <= 0 {
			return nil // it would have ended by now
		}
		_, err = s.daemon.Block(ctx, x.order)
	}
	return err
}

// takeUndo gives the undo of that id, once.
func (ss *sessions) takeUndo(s *session, id string) undo {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	u := s.undo
	if u.id != id {
		return undo{}
	}
	s.undo = undo{}
	return u
}

func (ss *sessions) keepUndo(s *session, u undo) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.undo = u
}
