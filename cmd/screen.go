package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// isTerminal reports whether w is a terminal; other devices, such as
// /dev/null, are none.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}

// width is that of the terminal, 0 when w is none.
func width(w any) int {
	columns, _ := size(w)
	return columns
}

func size(w any) (columns, lines int) {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(w) {
		return 0, 0
	}
	columns, lines, err := term.GetSize(f.Fd())
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

// screenFlags are how every command writes to a terminal.
type screenFlags struct {
	color   colorMode
	noPager bool
}

// colorMode is a value of --color.
type colorMode string

func (m *colorMode) String() string { return string(*m) }
func (m *colorMode) Type() string   { return "when" }
func (m *colorMode) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*m = colorMode(s)
		return nil
	}
	return errors.New("expected auto, always or never")
}

func (s *screenFlags) add(c *cobra.Command) {
	s.color = "auto"
	c.PersistentFlags().Var(&s.color, "color", "auto, always or never; auto colours on terminals unless NO_COLOR is set")
	c.PersistentFlags().BoolVar(&s.noPager, "no-pager", false, "do not show long lists in a pager (STOPLOG_PAGER, else PAGER, else less)")
	complete(c, "color", "auto", "always", "never")
}

// paint reports whether standard output is to be coloured (no-color.org).
func (e *env) paint() bool {
	switch e.screen.color {
	case "always":
		return true
	case "never":
		return false
	}
	return isTerminal(e.out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// marked puts text between an SGR mark and its end, if output is coloured.
func (e *env) marked(mark, text string) string {
	if !e.paint() {
		return text
	}
	return mark + text + sgrOff
}

// long prints what may not fit on the screen: on a terminal, what is higher
// than it goes to a pager. The first line is a heading.
func (e *env) long(ctx context.Context, print func(io.Writer) error) error {
	var b bytes.Buffer
	if err := print(&b); err != nil {
		return err
	}
	text := b.String()
	if head, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		text = e.marked(sgrBold, head) + "\n" + rest
	}
	if _, lines := size(e.out); lines > 0 && strings.Count(text, "\n") >= lines && !e.screen.noPager {
		if argv := pager(os.Getenv); argv != nil {
			return e.page(ctx, argv, text)
		}
	}
	_, err := io.WriteString(e.out, text)
	return err
}

// pager is the program that shows long lists, nil for none.
func pager(getenv func(string) string) []string {
	for _, name := range []string{"STOPLOG_PAGER", "PAGER"} {
		if v := strings.Fields(getenv(name)); len(v) > 0 {
			if v[0] == "cat" {
				return nil
			}
			return v
		}
	}
	return []string{"less"}
}

// page shows text in a pager; one that cannot be started is no reason not to
// print.
func (e *env) page(ctx context.Context, argv []string, text string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(text), e.out, e.errw
	c.Env = append(os.Environ(), "LESSSECURE=1") // often root looks
	if os.Getenv("LESS") == "" {
		c.Env = append(c.Env, "LESS=FRX")
	}
	if err := c.Start(); err != nil {
		_, err := io.WriteString(e.out, text)
		return err
	}
	if err := c.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running the pager %s: %w", argv[0], err)
	}
	return nil
}
