package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stoplog/internal/rules"
)

// logHandler writes the log in the format that the rules name.
type logHandler struct {
	slog.Handler // the format text
	out          io.Writer
	mu           *sync.Mutex
	fail2ban     *atomic.Bool
	attrs        []slog.Attr
}

// use takes the format of rules that are about to be used.
func (h *logHandler) use(set *rules.Set) {
	if set != nil {
		h.fail2ban.Store(set.Log.Format == "fail2ban")
	}
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	c := *h
	c.Handler, c.attrs = h.Handler.WithAttrs(as), append(append([]slog.Attr{}, h.attrs...), as...)
	return &c
}

// Handle writes blocks and their ends as fail2ban's log does
// (fail2ban/server/actions.py), for programs that read it: one line each, with
// the rule as the jail. Anything else is a message of fail2ban.server.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if !h.fail2ban.Load() {
		return h.Handler.Handle(ctx, r)
	}
	var prefix, rule, rest strings.Builder
	add := func(a slog.Attr) bool {
		v := plain(oneLine(a.Value.String()))
		switch {
		case a.Key == "prefix":
			prefix.WriteString(bare(v))
		case a.Key == "rule":
			rule.WriteString(v)
		}
		fmt.Fprintf(&rest, " %s=%s", a.Key, v)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	from, level, msg := "fail2ban.server", r.Level.String(), plain(oneLine(r.Message))+rest.String()
	if verb := map[string]string{"block": "Ban", "unblock": "Unban"}[r.Message]; verb != "" && prefix.Len() > 0 {
		if rule.Len() == 0 {
			rule.WriteString("manual")
		}
		from, level, msg = "fail2ban.actions", "NOTICE", fmt.Sprintf("[%s] %s %s", &rule, verb, &prefix)
	}
	if level == "WARN" {
		level = "WARNING"
	}
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintf(h.out, "%s %-23s [%d]: %-7s %s\n", strings.Replace(at.Format("2006-01-02 15:04:05.000"), ".", ",", 1), from, os.Getpid(), level, msg)
	return err
}

// bare is a prefix of one address as this address.
func bare(s string) string {
	if p, err := netip.ParsePrefix(s); err == nil && p.IsSingleIP() {
		return p.Addr().String()
	}
	return s
}
