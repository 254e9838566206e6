package f2b

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestStockFilters loads every filter that fail2ban comes with.
func TestStockFilters(t *testing.T) {
	files, _ := filepath.Glob("/etc/fail2ban/filter.d/*.conf")
	if len(files) == 0 {
		t.Skip("fail2ban is not installed")
	}
	loaded, exprs, refs := 0, 0, 0
	for _, file := range files {
		f, problems := Load(file, Options{})
		if f == nil {
			if !strings.HasSuffix(file, "common.conf") { // those are for others to include
				t.Error(problems)
			}
			continue
		}
		loaded++
		for _, e := range append(append([]*expression{}, f.fail...), f.ignore...) {
			exprs++
			if !e.exact {
				refs++
			}
		}
	}
	t.Logf("%d of %d filters, %d expressions, %d with backreferences", loaded, len(files), exprs, refs)
}
