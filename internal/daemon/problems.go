package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// problems are what is wrong now with the parts beside the loop, by part. Unlike
// notes they end when the part works again or is no longer configured.
type problems struct {
	mu sync.Mutex
	by map[string]problem
}

type problem struct {
	said string
	dead bool // it does not work at all
}

// set says what is wrong with what, "" that nothing is, and reports whether
// that is news to tell.
func (p *problems) set(what string, now problem) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[what] == now {
		return false
	}
	if now.said == "" {
		delete(p.by, what)
		return false
	}
	if p.by == nil {
		p.by = map[string]problem{}
	}
	p.by[what] = now
	return true
}

// all are the sentences of those that are dead or not, sorted.
func (p *problems) all(dead bool) (ss []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.by {
		if x.dead == dead {
			ss = append(ss, x.said)
		}
	}
	slices.Sort(ss)
	return ss
}

// fails shows in status why what does not work, until it is well; the first
// time it is logged.
func (d *daemon) fails(what, why string) {
	if d.problems.set(what, problem{why, true}) {
		d.log.Warn(why)
	}
}

// warns does the same of what works, but not as somebody may think.
func (d *daemon) warns(what, why string) {
	if d.problems.set(what, problem{why, false}) {
		d.log.Warn(why)
	}
}

// well takes back what was said of what.
func (d *daemon) well(what string) { d.problems.set(what, problem{}) }

// trouble lists the current problems.
func (d *daemon) trouble() []string {
	var ts []string
	w := d.reconciler.State()
	for _, s := range slices.Concat([]string{w.Err, w.Full, w.Conflict, d.reloadErr, d.lockless(d.set)}, d.listErrs, d.tierErrs, d.lacks, d.problems.all(true)) {
		if s != "" {
			ts = append(ts, s)
		}
	}
	for _, l := range d.opt.Leftovers {
		if d.opt.DryRun {
			break // what an earlier run blocked is a note
		}
		ts = append(ts, "blocks of a firewall backend that is no longer in use may still drop packets: "+l)
	}
	if d.saveErr != nil {
		ts = append(ts, "state is not saved: "+d.saveErr.Error())
	}
	for _, h := range d.ledger.Health() {
		if d.saveErr == nil || !strings.Contains(d.saveErr.Error(), h) {
			ts = append(ts, h)
		}
	}
	if n := d.runner.Dropped.Load(); n > 0 {
		ts = append(ts, fmt.Sprintf("%d programs of exec answers were not started: too many were waiting", n))
	}
	return append(ts, d.notifyTrouble()...)
}

// allNotes lists what does not degrade the daemon but should be known.
func (d *daemon) allNotes() []string {
	ns := slices.Clone(d.notes)
	for _, l := range d.opt.Leftovers {
		if d.opt.DryRun {
			ns = append(ns, "blocks of an earlier run are still in place: "+l)
		}
	}
	return append(ns, d.problems.all(false)...)
}
