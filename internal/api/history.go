package api

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"stoplog/internal/addr"
	"stoplog/internal/control"
	"stoplog/internal/ledger"
	"stoplog/internal/rules"
)

// History reads the audit trail of a state folder, the newest entry first, at
// most limit of them and none before since. It needs no daemon and may run
// beside one.
func History(dir string, since time.Time, limit int) ([]control.AuditEntry, error) {
	if _, err := os.Stat(filepath.Join(dir, "audit.jsonl")); err != nil {
		return nil, fmt.Errorf("reading the audit trail: %w", err)
	}
	as, err := ledger.History(dir, ledger.Query{Max: limit, Since: since})
	if err != nil {
		return nil, fmt.Errorf("reading the audit trail: %w", err)
	}
	return allAudited(as), nil
}

func allAudited(as []ledger.Entry) []control.AuditEntry {
	out := make([]control.AuditEntry, len(as))
	for i, a := range as {
		out[i] = audited(a)
	}
	return out
}

// maxSkipped bounds how far back History pages.
const maxSkipped = 100000

func (x *API) History(_ context.Context, q control.HistoryQuery) ([]control.AuditEntry, error) {
	lq := ledger.Query{Since: q.Since, Max: q.Limit, Skip: min(max(q.Offset, 0), maxSkipped)}
	if q.Limit <= 0 || q.Limit > 10000 {
		lq.Max = 1000
	}
	if p, err := target(q.Search); err == nil {
		lq.Prefix = addr.OfPrefix(p)
	} else if words := strings.ToLower(strings.TrimSpace(q.Search)); words != "" {
		lq.Want = func(e ledger.Entry) bool { return says(audited(e), words) }
	}
	if q.Target != "" {
		p, err := target(q.Target)
		if err != nil {
			return nil, err
		}
		lq.Prefix = addr.OfPrefix(p)
	}
	return x.history(lq)
}

// says reports whether an entry contains words, which are in lower case.
func says(e control.AuditEntry, words string) bool {
	for _, s := range [...]string{e.Prefix, e.What, e.Rule, e.Reason, e.By} {
		if strings.Contains(strings.ToLower(s), words) {
			return true
		}
	}
	return false
}

// history reads the audit trail's files; it needs no turn on the loop.
func (x *API) history(q ledger.Query) ([]control.AuditEntry, error) {
	as, err := ledger.History(x.opt.StateDir, q)
	if err != nil {
		return nil, err
	}
	return allAudited(as), nil
}

// audited is one line of the audit trail as the administrator sees it.
func audited(a ledger.Entry) control.AuditEntry {
	e := control.AuditEntry{Time: a.When().UTC(), What: a.Event, Rule: a.Rule, Reason: a.Reason, By: a.By, Count: a.Count, Points: a.Points}
	if a.Prefix.IsValid() {
		e.Prefix = a.Prefix.String()
	}
	if a.Flag != "" {
		e.Reason = strings.TrimSpace(a.Flag + " " + e.Reason)
	}
	if a.Block != nil {
		e.Evidence, e.Count, e.Points = a.Block.Evidence, a.Block.Count, a.Block.Points
		e.TTL = rules.FormatDuration(a.Block.Until.Sub(a.Block.Since).Round(time.Second))
	}
	return e
}
