package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"text/template"
	"time"

	"stoplog/internal/rules"
)

// Digest is what one message tells, and what templates see. Texts from logs
// are in Events alone, escaped; Text has none, so that nobody can mention a
// whole channel or set a link by the name of a login.
type Digest struct {
	Host   string `json:"host"`
	Target string `json:"target"`
	// Text is short: how much happened, by which rules, which prefixes.
	Text     string      `json:"text"`
	First    time.Time   `json:"first"` // when the first of it was reported
	Last     time.Time   `json:"last"`
	Count    int         `json:"count"`  // breaches
	Blocks   int         `json:"blocks"` // prefixes blocked because of them
	Rules    []RuleCount `json:"rules"`  // the most active first
	Prefixes []string    `json:"prefixes,omitempty"`
	Events   []Event     `json:"events"`
	More     int         `json:"more,omitempty"`  // breaches that Events leaves out
	Notes    []string    `json:"notes,omitempty"` // what was lost or held back
}

// RuleCount is one rule's part.
type RuleCount struct {
	Rule   string `json:"rule"`
	Count  int    `json:"count"`
	Blocks int    `json:"blocks"`
}

// Event is one breach; its texts are escaped and bounded.
type Event struct {
	Time     time.Time `json:"time"`
	Rule     string    `json:"rule"`
	Key      string    `json:"key,omitempty"`
	Prefix   string    `json:"prefix,omitempty"`
	Addr     string    `json:"addr,omitempty"`
	Service  string    `json:"service,omitempty"`
	User     string    `json:"user,omitempty"`
	Count    int       `json:"count"`
	Points   int       `json:"points"`
	Counted  string    `json:"counted,omitempty"` // Count and Points in words
	TTL      string    `json:"ttl,omitempty"`
	Source   string    `json:"source,omitempty"`
	Line     int64     `json:"line,omitempty"`
	Evidence []string  `json:"evidence,omitempty"`
	Blocks   []string  `json:"blocks,omitempty"`
}

// JSON is for templates: {"text": {{.JSON .Text}}}.
func (d Digest) JSON(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Details is Text with every breach and the lines that led to it.
func (d Digest) Details() string {
	var b strings.Builder
	b.WriteString(d.Text)
	for _, e := range d.Events {
		b.WriteString("\n\n" + e.line())
		for _, l := range e.Evidence {
			b.WriteString("\n    | " + l)
		}
	}
	if d.More > 0 {
		fmt.Fprintf(&b, "\n\nand %d more breaches; see: stoplog history", d.More)
	}
	return b.String() + "\n"
}

func (e Event) line() string {
	s := e.Time.Format(time.RFC3339) + " " + e.Rule + ":"
	for _, f := range []struct{ name, value string }{{"", e.Key}, {"from ", e.Addr}, {"service ", e.Service}, {"user ", e.User}} {
		if f.value != "" && (f.name != "" || f.value != "all") {
			s += " " + f.name + f.value + ","
		}
	}
	s += " " + e.Counted
	if len(e.Blocks) > 0 {
		s += ", blocked " + strings.Join(e.Blocks, " ")
	}
	if e.TTL != "" {
		s += " for " + e.TTL
	}
	if e.Source != "" {
		s += " (" + e.Source
		if e.Line > 0 {
			s += fmt.Sprintf(":%d", e.Line)
		}
		s += ")"
	}
	return s
}

func plural(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "h"):
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// subject is the first line of the text: nothing of it is from a log.
func (d Digest) subject() string {
	names := make([]string, 0, 3)
	for _, r := range d.Rules[:min(len(d.Rules), 3)] {
		names = append(names, r.Rule)
	}
	if len(d.Rules) > 3 {
		names = append(names, "…")
	}
	what := plural(d.Count, "breach")
	if d.Blocks > 0 {
		what = plural(d.Blocks, "block")
	}
	return fmt.Sprintf("%s: %s (%s)", d.Host, what, strings.Join(names, ", "))
}

func (d Digest) text() string {
	var b strings.Builder
	b.WriteString(d.subject())
	if len(d.Rules) > 1 {
		for _, r := range d.Rules {
			fmt.Fprintf(&b, "\n%s: %s, %s", r.Rule, plural(r.Count, "breach"), plural(r.Blocks, "block"))
		}
	}
	if len(d.Prefixes) > 0 {
		b.WriteString("\n" + strings.Join(d.Prefixes, " "))
		if more := d.Blocks - len(d.Prefixes); more > 0 {
			fmt.Fprintf(&b, " and %d more", more)
		}
	}
	for _, n := range d.Notes {
		b.WriteString("\n" + n)
	}
	return b.String()
}

// letter is a rendered message.
type letter struct {
	subject string // no log text, one line
	body    []byte // by the template, or else the target's own form
	plain   []byte // the same for people
	typ     string // content type of body
}

// maxLetter bounds what a template may make.
const maxLetter = 1 << 20

// form renders for one target.
type form struct {
	host, target string
	tmpl         *template.Template // nil: built in
}

// newForm parses the target's template and tries it: also on texts with
// quotes, because one that makes JSON by hand would let a log write into it.
func newForm(c rules.Notify, host string) (*form, error) {
	f := &form{host: clean(host), target: c.Name}
	if c.Template == "" {
		return f, nil
	}
	t, err := template.New("template").Parse(c.Template)
	if err != nil {
		return nil, err
	}
	f.tmpl = t
	tame, err := f.letter(sample("root"))
	if err != nil {
		return nil, err
	}
	wild, err := f.letter(sample(`a"b\c`))
	if err != nil {
		return nil, err
	}
	if t := bytes.TrimSpace(tame.body); len(t) > 0 && t[0] == '{' && !json.Valid(t) {
		return nil, errors.New("template: its output is not valid JSON; {{.JSON .Text}} writes a string with quotes")
	}
	if json.Valid(tame.body) && !json.Valid(wild.body) {
		return nil, errors.New("template: a quote in a user name would end the JSON string; write {{.JSON .Text}} instead of \"{{.Text}}\"")
	}
	return f, nil
}

// sample is a made-up digest with texts as a log could hold them.
func sample(s string) Digest {
	var g group
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := netip.MustParsePrefix("192.0.2.0/28")
	g.add(Message{
		Time: at, Rule: "sample", Key: s, Prefix: p.String(), Addr: "192.0.2.1", Service: s, User: s, Count: 6, Points: 6, Counted: "6 failures",
		TTL: 10 * time.Minute, Source: s, Line: 1, Evidence: []string{s}, Blocks: []netip.Prefix{p},
	}, at)
	return g.digest([]string{s})
}

// letter renders a digest.
func (f *form) letter(d Digest) (letter, error) {
	d.Host, d.Target = f.host, f.target
	d.Text = d.text()
	l := letter{subject: "[stoplog] " + d.subject(), plain: []byte(d.Details()), typ: "application/json"}
	if f.tmpl == nil {
		s, err := d.JSON(d)
		l.body = []byte(s + "\n")
		return l, err
	}
	w := &bounded{left: maxLetter}
	if err := f.tmpl.Execute(w, d); err != nil {
		return l, errors.New(text(err.Error()))
	}
	l.body, l.plain = w.Bytes(), w.Bytes()
	if !json.Valid(l.body) {
		l.typ = "text/plain; charset=utf-8"
	}
	return l, nil
}

// bounded is a buffer that refuses to grow without end.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("more than %d bytes", maxLetter)
	}
	return b.Buffer.Write(p)
}
