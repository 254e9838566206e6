package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"stoplog/internal/control"
	"stoplog/internal/ledger"
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
	out := make([]control.AuditEntry, 0, len(as))
	for _, a := range as {
		out = append(out, audited(a))
	}
	return out, nil
}
