// Package registry knows every backend by the name that the rules use, chooses
// one that works on this machine, and finds what backends no longer in use left.
package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"stoplog/internal/firewall"
	"stoplog/internal/firewall/hostsdeny"
	"stoplog/internal/firewall/listwall"
)

// selector knows the walls by their names in the rules file, and the order in
// which "auto" tries them, the best first. hosts.deny is not tried: it
// protects only programs that use libwrap, so that it must be asked for.
type selector struct {
	makers map[string]func(firewall.Options) (firewall.Backend, error)
	auto   []string
}

// everywhere are the walls that need no packet filter of Linux's.
func everywhere() map[string]func(firewall.Options) (firewall.Backend, error) {
	return map[string]func(firewall.Options) (firewall.Backend, error){
		"hosts.deny": withForms(func(o firewall.Options) (firewall.Backend, error) { return hostsdeny.New(o) }),
		"exec":       func(o firewall.Options) (firewall.Backend, error) { return listwall.NewExec(o) },
		"none":       func(firewall.Options) (firewall.Backend, error) { return firewall.NewNone(), nil },
		"dry-run":    func(firewall.Options) (firewall.Backend, error) { return firewall.NewDryRun(), nil },
	}
}

// Select makes the walls that are wanted ("auto", or names), and says in one
// line which and why. With "auto" the best that works here is taken. The error
// names what is missing, and how to go on without.
func Select(ctx context.Context, want []string, o firewall.Options) ([]firewall.Backend, string, error) {
	if len(want) == 0 {
		want = []string{"auto"}
	}
	var bs []firewall.Backend
	var reasons []string
	asked := map[string]bool{}
	for _, name := range want {
		if asked[name] {
			return nil, "", fmt.Errorf("firewall backend %q is listed twice", name)
		}
		asked[name] = true
		b, reason, err := newSelector().one(ctx, name, o)
		if err != nil {
			return nil, "", err
		}
		bs, reasons = append(bs, b), append(reasons, reason)
	}
	return bs, strings.Join(reasons, "; ") + beside(), nil
}

func (s selector) one(ctx context.Context, name string, o firewall.Options) (firewall.Backend, string, error) {
	if name == "auto" {
		return s.best(ctx, o)
	}
	b, err := s.try(ctx, name, o)
	if err != nil {
		return nil, "", err
	}
	return b, name + ": as configured", nil
}

// try makes one wall and lets it prove itself.
func (s selector) try(ctx context.Context, name string, o firewall.Options) (firewall.Backend, error) {
	mk, ok := s.makers[name]
	if !ok {
		return nil, fmt.Errorf("unknown firewall backend %q; expected auto or one of %s", name, strings.Join(Names(), ", "))
	}
	b, err := mk(o)
	if err == nil {
		err = probe(ctx, b)
	}
	if err != nil {
		return nil, unusable([]error{fmt.Errorf("%s: %w", name, err)})
	}
	return b, nil
}

func (s selector) best(ctx context.Context, o firewall.Options) (firewall.Backend, string, error) {
	var misses []error
	for _, name := range s.auto {
		b, err := s.makers[name](o)
		if err == nil {
			err = probe(ctx, b)
		}
		if err != nil {
			misses = append(misses, fmt.Errorf("%s: %w", name, err))
			continue
		}
		return b, name + ": " + because(misses), nil
	}
	return nil, "", unusable(misses)
}

func because(misses []error) string {
	if len(misses) == 0 {
		return "the preferred backend; it works here"
	}
	return "works here, while " + oneLine(errors.Join(misses...))
}

func unusable(misses []error) error {
	why := oneLine(errors.Join(misses...))
	if os.Geteuid() != 0 {
		why += "; not root" + needed
	}
	return &unusableError{fmt.Sprintf("no usable firewall (%s); try --dry-run, which blocks nothing", why), errors.Join(misses...)}
}

// unusableError says on one line why no wall works; it wraps each wall's error.
type unusableError struct {
	text   string
	misses error
}

func (e *unusableError) Error() string { return e.text }
func (e *unusableError) Unwrap() error { return e.misses }

func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "; ")
}

func probe(ctx context.Context, b firewall.Backend) error {
	if p, ok := b.(firewall.Prober); ok {
		return p.Probe(ctx)
	}
	return nil
}

// beside names the firewall managers at work here, beside which we live in
// chains and tables of our own; their reloads are noticed and repaired.
func beside() string {
	var at []string
	for _, m := range []struct{ name, sign string }{
		{"firewalld", "/run/firewalld"},
		{"ufw", "/run/ufw.lock"},
		{"docker", "/run/docker.sock"},
	} {
		if _, err := os.Stat(m.sign); err == nil {
			at = append(at, m.name)
		}
	}
	if ufwEnabled() && !strings.Contains(strings.Join(at, " "), "ufw") {
		at = append(at, "ufw")
	}
	if len(at) == 0 {
		return ""
	}
	return ", next to " + strings.Join(at, " and ")
}

func ufwEnabled() bool {
	b, err := os.ReadFile("/etc/ufw/ufw.conf")
	return err == nil && strings.Contains(string(b), "\nENABLED=yes")
}
