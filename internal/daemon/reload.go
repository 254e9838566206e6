package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"stoplog/internal/ledger"
	"stoplog/internal/pipeline"
	"stoplog/internal/rules"
)

// fileTimes remembers what watched files looked like, to notice a change by a
// cheap look.
type fileTimes struct {
	rules, tiers, lists map[string]fileLook
}

type fileLook struct {
	mtime time.Time
	size  int64
}

// watchFiles looks at all files that a set was made of.
func watchFiles(set *rules.Set) fileTimes {
	var tiers []string
	for _, r := range set.Rules {
		if r.Tiers != nil {
			tiers = append(tiers, r.Tiers.File)
		}
	}
	return fileTimes{rules: look(set.Files), tiers: look(tiers), lists: look(slices.Concat(set.Allow.Files, set.Deny.Files))}
}

// look stats the files that the globs name.
func look(globs []string) map[string]fileLook {
	m := map[string]fileLook{}
	for _, g := range globs {
		names, err := filepath.Glob(g)
		if err != nil {
			continue
		}
		for _, n := range names {
			if fi, err := os.Stat(n); err == nil {
				m[n] = fileLook{fi.ModTime(), fi.Size()}
			}
		}
	}
	return m
}

func sameLook(a, b map[string]fileLook) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || !w.mtime.Equal(v.mtime) || w.size != v.size {
			return false
		}
	}
	return true
}

// lookAround notices what nobody tells: files that changed, addresses that
// came or went.
func (d *daemon) lookAround(now time.Time) {
	if by := d.clock.setBack(now, now.Sub(d.started)); by > 0 {
		d.followClock(by, now)
	}
	d.refreshProtected(now)
	d.showPolicy(now)
	f := watchFiles(d.set)
	switch {
	case !sameLook(f.tiers, d.files.tiers):
		d.files.tiers = f.tiers
		d.retier()
	case d.set.ReloadOnChange && !sameLook(f.rules, d.files.rules):
		d.files = f
		d.reload(now, "a rules file changed")
	case !sameLook(f.lists, d.files.lists):
		d.files = f
		d.relist(now)
	}
}

// retier reads the files of customers again, and nothing else: rules that are
// being edited wait until a reload is asked for.
func (d *daemon) retier() {
	set, problems := d.set.WithTiers()
	d.tierErrs = nil
	for _, p := range problems {
		d.tierErrs = append(d.tierErrs, p.Error())
		d.log.Warn(p.Error())
	}
	if set == nil {
		return
	}
	compiled, err := pipeline.Compile(set, time.Local)
	if err != nil {
		d.tierErrs = []string{err.Error()}
		d.log.Warn(err.Error())
		return
	}
	d.set = set
	d.machine.Swap(compiled)
	d.shareLevels()
	d.log.Info("reloaded the files of tiers")
}

// relist reads the files of allowed and denied prefixes again.
func (d *daemon) relist(now time.Time) {
	lifted, err := d.ledger.SetOptions(d.ledgerOptions(d.set), now)
	if err != nil {
		d.note(err.Error())
		return
	}
	d.log.Info("reloaded the files of allow and deny")
	d.lift(lifted, "allowed")
	d.tellPolicy()
}

// reload puts new rules in place, or changes nothing and returns why.
func (d *daemon) reload(now time.Time, why string) []rules.Problem {
	set, problems := d.opt.Load()
	if set == nil {
		d.reloadErr = "the rules file has mistakes and is not in use; see: stoplog check"
		problems = slices.DeleteFunc(slices.Clone(problems), func(p rules.Problem) bool { return p.Warning })
		for _, p := range problems {
			d.log.Error("reload refused", "problem", p.Error())
		}
		return problems
	}
	compiled, err := pipeline.Compile(set, time.Local)
	var lifted ledger.Lifted
	if err == nil {
		_, err = d.newNotifier(set) // a template that fails is found before anything changes
	}
	if err == nil {
		lifted, err = d.ledger.SetOptions(d.ledgerOptions(set), now)
	}
	if err != nil {
		d.reloadErr = err.Error()
		return []rules.Problem{{File: set.Name, Msg: err.Error()}}
	}
	// Nothing from here on can fail: the old rules end here.
	if err := d.sources.Update(sourceSpecs(set)); err != nil {
		d.note("reload: " + err.Error())
	}
	if err := d.notifier.Swap(set.Notify); err != nil {
		d.note("reload: " + err.Error())
	}
	d.configure(set)
	d.set = set
	d.machine.Swap(compiled)
	d.shareLevels()
	d.files = watchFiles(set)
	d.lift(lifted, "allowed")
	d.showAll(now) // what the rules close by default says which blocks lists hold
	d.tellPolicy()
	d.reloadErr, d.tierErrs, d.reloadedAt, d.dirty = "", nil, now, true
	d.log.Info("reloaded", "why", why, "rules", len(set.Rules))
	for _, w := range set.Warnings {
		d.log.Warn("rules", "warning", w.Error())
	}
	if l := d.lockless(set); l != "" {
		d.log.Warn("rules", "warning", l)
	}
	d.lacks = nil
	if d.opt.Lacks != nil {
		d.lacks = d.opt.Lacks(set)
	}
	for _, l := range d.lacks {
		d.log.Warn("rules", "warning", l)
	}
	return nil
}
