package web

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoplog/internal/control"
)

// choice is a time that forms offer.
type choice struct {
	Seconds string
	Name    string
}

// choices are all times that can be asked for; "0" is the rules' own or, for
// an allowance, for good.
var (
	blockTimes = []choice{{"0", "as in the rules"}, {"600", "10 minutes"}, {"3600", "an hour"}, {"86400", "a day"}, {"604800", "a week"}, {"2592000", "30 days"}}
	allowTimes = []choice{{"3600", "an hour"}, {"86400", "a day"}, {"604800", "a week"}, {"2592000", "30 days"}, {"0", "permanently"}}
	flagTimes  = []choice{{"600", "10 minutes"}, {"3600", "an hour"}, {"7200", "2 hours"}, {"86400", "a day"}, {"604800", "a week"}}
)

// chosen reads a time that a form offered; an empty one is fallback.
func chosen(cs []choice, s, fallback string) (time.Duration, bool) {
	if s == "" {
		s = fallback
	}
	for _, c := range cs {
		if c.Seconds == s {
			n, err := strconv.Atoi(s)
			return time.Duration(n) * time.Second, err == nil
		}
	}
	return 0, false
}

// rightForm reports whether a form was made for this session.
func rightForm(r *http.Request, who *session) bool {
	return subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(who.csrf)) == 1
}

// permitted is who sent an order of kind do, and the order; nil when it must
// not be carried out, which has been answered then.
func (s *site) permitted(w http.ResponseWriter, r *http.Request, do string) (*session, draft) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form could not be read. Nothing was changed.", http.StatusBadRequest)
		return nil, draft{}
	}
	r.Form = r.PostForm // an address cannot fill in an order
	r.Form.Set("do", do)
	d := draftOf(r)
	who := s.session(r)
	if who == nil {
		s.askToLogIn(w, http.StatusUnauthorized, "Your session has ended. Nothing was changed. Log in, then check your input and send it again.", d)
		return nil, d
	}
	if !rightForm(r, who) {
		s.stale(w, r, who)
		return nil, d
	}
	return who, d
}

// stale answers a form that was made for another session.
func (s *site) stale(w http.ResponseWriter, r *http.Request, who *session) {
	v := struct {
		frame
		Draft draft
	}{s.frame(r, who, "Not done"), draftOf(r)}
	s.render(w, http.StatusForbidden, "stale.html", v)
}

// order carries out an order of one address or prefix.
func (s *site) order(do string, give func(context.Context, control.Order) (control.Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, d := s.permitted(w, r, do)
		if who == nil {
			return
		}
		o := control.Order{Target: d.Target, Reason: d.Reason, By: signed(who)}
		ok := true
		switch do {
		case "block":
			o.TTL, ok = chosen(blockTimes, d.TTL, "0")
		case "allow":
			o.TTL, ok = chosen(allowTimes, d.TTL, "604800")
		}
		if !ok {
			http.Error(w, "Invalid time. Nothing was changed.", http.StatusBadRequest)
			return
		}
		u, asked := s.unsure(w, r, who, d)
		if asked {
			return
		}
		s.carryOut(w, r, who, d, u, func(ctx context.Context) (control.Answer, error) { return give(ctx, o) })
	}
}

// ordinary4 and ordinary6 are the longest prefixes that count as more than one
// client: an order of a wider one is asked about first.
const (
	ordinary4 = 28
	ordinary6 = 64
)

// unsure reports whether an order touches more than one prefix and its sender
// has not confirmed that; then it has been answered with the question. What is
// confirmed is a number of blocks: when there are more by then, it asks again.
// Otherwise it returns what takes the order back.
func (s *site) unsure(w http.ResponseWriter, r *http.Request, who *session, d draft) (undo, bool) {
	p, ok := readTarget(d.Target)
	if !ok || d.Do == "disallow" {
		return undo{}, false // the daemon says what is wrong with it
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	x, err := s.daemon.Explain(ctx, p.String())
	if err != nil {
		return undo{}, false // so does the order
	}
	v := struct {
		frame
		Draft       draft
		Effect      string
		Lifts       []control.Block
		Total, More int
		Back        string
	}{Draft: d, Back: lookURL(d.Target)}
	switch d.Do {
	case "unblock":
		v.Lifts, v.Total = append(v.Lifts, x.Blocked...), len(x.Blocked)+x.InsideTotal
		v.Effect = "This ends every block around and inside " + shortly(p) + " and empties the buckets."
	case "allow":
		v.Total = x.InsideTotal
		v.Effect = "Nothing that any address in " + shortly(p) + " does is counted or blocked any more."
	case "block":
		v.Effect = "This blocks every address in " + shortly(p) + "."
	}
	if d.Do != "block" {
		v.Lifts = append(v.Lifts, x.Inside...)
	}
	wide := d.Do != "unblock" && (p.Addr().Is4() && p.Bits() < ordinary4 || p.Addr().Is6() && p.Bits() < ordinary6)
	sure, err := strconv.Atoi(r.PostFormValue("sure"))
	if !wide && v.Total <= 1 || err == nil && v.Total <= sure {
		return undoOf(d, p, x, time.Now()), false
	}
	v.frame, v.More = s.frame(r, who, "Confirm"), v.Total-len(v.Lifts)
	s.render(w, http.StatusOK, "confirm.html", v)
	return undo{}, true
}

func (s *site) flagOrder(do string, give func(context.Context, control.FlagOrder) (control.Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, d := s.permitted(w, r, do)
		if who == nil {
			return
		}
		span, ok := chosen(flagTimes, d.TTL, "7200")
		if !ok {
			http.Error(w, "Invalid time. Nothing was changed.", http.StatusBadRequest)
			return
		}
		o := control.FlagOrder{Name: d.Target, For: span, By: signed(who)}
		s.carryOut(w, r, who, d, undo{}, func(ctx context.Context) (control.Answer, error) { return give(ctx, o) })
	}
}

// signed is who the audit trail names.
func signed(who *session) string { return "page:" + who.token.Name }

// carryOut gives an order and leads to the page that shows what came of it.
// What was refused comes back as a draft: nothing that was typed is lost.
func (s *site) carryOut(w http.ResponseWriter, r *http.Request, who *session, d draft, u undo, give func(context.Context) (control.Answer, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	a, err := give(ctx)
	n := notice{Text: sentence(strings.Join(a.Lines, "; "))}
	to := draft{Do: d.Do, Target: d.Target}
	if err != nil {
		n, to, u = notice{Text: "Not done: " + why(err), Bad: true}, d, undo{}
	}
	n.Undo = u.id
	s.sessions.say(who, n)
	s.sessions.keepUndo(who, u)
	url := to.URL()
	if err == nil && !d.OfFlag() {
		url = lookURL(d.Target)
	} else if err == nil {
		url = "/#flags"
	}
	if _, ok := readTarget(d.Target); !ok && !d.OfFlag() {
		url = "/" // the notice says what is wrong with it
	}
	http.Redirect(w, r, url, http.StatusSeeOther)
}

// why puts an error in words for who ordered.
func why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "stoplog did not answer in time. Check whether the change was made before you try again."
	}
	return err.Error()
}

// sentence begins with a capital and ends with a stop.
func sentence(s string) string {
	if s == "" {
		return "Done."
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
