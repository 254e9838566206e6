package cmd

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/pipeline"
	"stoplog/internal/session"
	"stoplog/internal/source"
)

type parseOptions struct {
	service string
	format  string
	zone    string
	fields  bool
	unknown int // how many shapes of lines that nobody knows are shown
}

func parseCmd(e *env) *cobra.Command {
	var o parseOptions
	c := withJSON(e, &cobra.Command{
		Use:   "parse [FILE…|-]",
		Short: "Show how each line is understood",
		Long: `Show how each line is understood. The format is detected unless --format names
it: combined, common, vhost, json, logfmt, or a log_format (nginx) or LogFormat
(Apache) string from the server's configuration. Every service is tried on every
line, --service first; run and replay read a file as one service's log only.
Lines that are not understood are counted on standard error, grouped by shape.`,
		Example: `  stoplog parse /var/log/auth.log
  stoplog parse --json - < access.log`,
		RunE: func(c *cobra.Command, args []string) error { return runParse(c.Context(), e, o, args) },
	})
	c.Flags().StringVar(&o.service, "service", "", "the service that wrote the lines (sshd, postfix…), tried first")
	give(c, "service", services, e)
	c.Flags().StringVar(&o.format, "format", "auto", "the format of access logs")
	c.Flags().StringVar(&o.zone, "zone", "", "time zone of timestamps without one (default: the machine's)")
	c.Flags().BoolVar(&o.fields, "fields", false, "also print every other field that a rule can match, and the message")
	c.Flags().IntVar(&o.unknown, "unknown", 10, "maximum number of shapes of unknown lines to show")
	return c
}

// location reads --zone.
func location(name string) (*time.Location, error) {
	if name == "" {
		return time.Local, nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, usage("--zone %s: expected a name such as UTC or Europe/Zurich", name)
	}
	return loc, nil
}

func runParse(ctx context.Context, e *env, o parseOptions, files []string) error {
	zone, err := location(o.zone)
	if err != nil {
		return err
	}
	r, err := pipeline.NewLineReader(o.service, o.format, zone)
	if err != nil {
		return usage("--format: %w", err)
	}
	stamps, err := pipeline.NewLineReader(o.service, o.format, zone)
	if err != nil {
		return usage("--format: %w", err)
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	w := bufio.NewWriterSize(e.out, 64<<10)
	defer w.Flush()
	show := printer(e, w, o.fields)
	sessions := session.New(0)
	shapes := newShapes(o.unknown)
	var lines, known int
	err = source.ReadFiles(ctx, files, source.ReadOptions{Stdin: e.in, Stamp: stamps.Stamps(zone, time.Now())}, func(b *source.Batch) error {
		defer b.Release()
		for i := range b.Lines {
			lines++
			ev := r.Line(&b.Lines[i], b.Arrival)
			if ev == nil {
				shapes.add(b.Lines[i].Text)
				continue
			}
			known++
			sessions.Join(ev, b.Origin)
			if err := show(lines, ev, b.Lines[i].Text); err != nil {
				return err
			}
		}
		return nil
	})
	if e := w.Flush(); err == nil {
		err = e
	}
	fmt.Fprintf(e.errw, "%s, %d understood\n", plural(lines, "line"), known)
	shapes.print(e.errw)
	return err
}

// shapes groups unknown lines by how they look, in bounded memory.
type shapes struct {
	show int
	m    map[string]*shape
	rest int // lines of shapes over the bound
}

type shape struct {
	n       int
	example string
}

// maxShapes bounds how many shapes are kept apart.
const maxShapes = 1000

func newShapes(show int) *shapes { return &shapes{show: show, m: map[string]*shape{}} }

func (s *shapes) add(line []byte) {
	if s.show <= 0 {
		return
	}
	k := shapeOf(line)
	if x := s.m[k]; x != nil {
		x.n++
		return
	}
	if len(s.m) >= maxShapes {
		s.rest++
		return
	}
	s.m[k] = &shape{1, string(line[:min(len(line), 200)])}
}

// shapeOf keeps the words of a line and replaces what varies: words with
// digits in them become 0, and all after a dozen words is left out.
func shapeOf(line []byte) string {
	words := strings.Fields(string(line[:min(len(line), 300)]))
	if len(words) > 12 {
		words = words[:12]
	}
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "0"
		}
	}
	return strings.Join(words, " ")
}

func (s *shapes) print(w interface{ Write([]byte) (int, error) }) {
	all := make([]*shape, 0, len(s.m))
	for _, x := range s.m {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *shape) int {
		if a.n != b.n {
			return b.n - a.n
		}
		return strings.Compare(a.example, b.example)
	})
	for i, x := range all {
		if i == s.show {
			fmt.Fprintf(w, "  … and %d more shapes\n", len(all)-i)
			return
		}
		fmt.Fprintf(w, "%7d like: %s\n", x.n, cell(x.example, 160))
	}
}
