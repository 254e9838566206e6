package cmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"stoplog/internal/detect"
	"stoplog/internal/firewall"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
)

// replayAnswer is the stable shape of an answer in `replay --json`; type says
// which fields it has.
type replayAnswer struct {
	Type   string `json:"type"`
	At     string `json:"at"`
	Rule   string `json:"rule,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	TTL    string `json:"ttl,omitempty"`
	Count  int    `json:"count,omitempty"`
	Points int    `json:"points,omitempty"`
	Source string `json:"source,omitempty"`
	Line   int64  `json:"line,omitempty"`
	// Except are prefixes inside that pass.
	Except []netip.Prefix `json:"except,omitempty"`
	Key    string         `json:"key,omitempty"`    // of a block: unless it is the prefix
	Action string         `json:"action,omitempty"` // reject or slow
	Ports  string         `json:"ports,omitempty"`  // none: all
	Flag   string         `json:"flag,omitempty"`
	Target string         `json:"target,omitempty"`
	Argv   []string       `json:"argv,omitempty"`
	Would  []replay.Kind  `json:"would,omitempty"` // what an observing rule would have done
}

type replaySummary struct {
	Type      string `json:"type"`
	Lines     uint64 `json:"lines"`
	Events    uint64 `json:"events"`
	Blocks    uint64 `json:"blocks"`
	Prevented uint64 `json:"prevented"`
}

// replayRule is the shape of a rule's summary.
type replayRule struct {
	Type     string       `json:"type"`
	Rule     string       `json:"rule"`
	Mode     string       `json:"mode,omitempty"`
	Breaches uint64       `json:"breaches"`
	Blocks   uint64       `json:"blocks"`
	Prefixes int          `json:"prefixes"`
	Stopped  uint64       `json:"stopped"`
	GoodHit  int          `json:"good_hit"`
	Good     []replayGood `json:"good,omitempty"`
	Worst    replayCase   `json:"worst"`
}

type replayGood struct {
	IP        string        `json:"ip"`
	Hits      int           `json:"hits"`
	Successes int           `json:"successes"`
	Failures  int           `json:"failures"`
	Lines     []replayShown `json:"lines"`
}

type replayShown struct {
	Source string `json:"source"`
	Line   int64  `json:"line,omitempty"`
	Text   string `json:"text,omitempty"`
}

type replayCase struct {
	Prefix  string   `json:"prefix,omitempty"`
	Key     string   `json:"key,omitempty"`
	Stopped uint64   `json:"stopped"`
	Lines   []string `json:"lines,omitempty"`
}

// replayDifference is a block that two rule files do not agree on.
type replayDifference struct {
	Type   string        `json:"type"`
	Change string        `json:"change"` // added, removed, changed
	Before *replayAnswer `json:"before,omitempty"`
	After  *replayAnswer `json:"after,omitempty"`
}

type replayAgainst struct {
	Type   string     `json:"type"`
	Before replaySide `json:"before"`
	After  replaySide `json:"after"`
}

type replaySide struct {
	Rules     string `json:"rules"`
	Lines     uint64 `json:"lines"`
	Events    uint64 `json:"events"`
	Blocks    uint64 `json:"blocks"`
	Prevented uint64 `json:"prevented"`
	GoodHit   int    `json:"good_hit"`
}

// replayShow prints a replay.
type replayShow struct {
	answer  func(replay.Answer) error
	rules   func([]replay.RuleSummary) error
	summary func(replay.Summary) error
}

func replayPrinter(w *bufio.Writer, asJSON bool) replayShow {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return replayShow{
			answer: func(a replay.Answer) error { return enc.Encode(answerShape(a)) },
			rules: func(rs []replay.RuleSummary) error {
				for _, r := range rs {
					if err := enc.Encode(ruleShape(r)); err != nil {
						return err
					}
				}
				return nil
			},
			summary: func(s replay.Summary) error {
				return enc.Encode(replaySummary{"summary", s.Lines, s.Events, s.Blocks, s.Prevented})
			},
		}
	}
	return replayShow{
		answer: func(a replay.Answer) error { _, err := w.WriteString(answerText(a)); return err },
		rules:  func(rs []replay.RuleSummary) error { return rulesText(w, rs) },
		summary: func(s replay.Summary) error {
			_, err := fmt.Fprintf(w, "%s, %d understood; %s; %d attempts would have been stopped\n",
				plural(int(s.Lines), "line"), s.Events, plural(int(s.Blocks), "block"), s.Prevented)
			return err
		},
	}
}

func answerShape(a replay.Answer) replayAnswer {
	s := replayAnswer{
		Type: string(a.Kind), At: a.At.UTC().Format(time.RFC3339Nano), Rule: a.Rule, Count: a.Count, Points: a.Points,
		Source: a.Source, Line: a.Line, Except: a.Except, Key: a.Key, Action: a.Action, Ports: portsText(a.Ports),
		Flag: a.Flag, Target: a.Target, Argv: a.Argv, Would: a.Would,
	}
	if a.Prefix.IsValid() {
		s.Prefix = a.Prefix.String()
	}
	if s.Key == s.Prefix && a.Kind == replay.Block {
		s.Key = ""
	}
	if a.TTL > 0 || a.Kind == replay.Block {
		s.TTL = rules.FormatDuration(a.TTL)
	}
	return s
}

func ruleShape(r replay.RuleSummary) replayRule {
	s := replayRule{Type: "rule", Rule: r.Rule, Breaches: r.Breaches, Blocks: r.Blocks, Prefixes: r.Prefixes, Stopped: r.Stopped, GoodHit: r.GoodHit,
		Worst: replayCase{Key: r.Worst.Key, Stopped: r.Worst.Stopped, Lines: r.Worst.Lines}}
	if r.Observe {
		s.Mode = "observe"
	}
	if r.Worst.Prefix.IsValid() {
		s.Worst.Prefix = r.Worst.Prefix.String()
	}
	for _, g := range r.Good {
		x := replayGood{IP: g.Addr.String(), Hits: g.Hits, Successes: g.Successes, Failures: g.Failures}
		for _, l := range g.Lines {
			x.Lines = append(x.Lines, replayShown(l))
		}
		s.Good = append(s.Good, x)
	}
	return s
}

func portsText(ps []detect.Ports) string {
	var out []firewall.Ports
	for _, p := range ps {
		out = append(out, firewall.Ports{Proto: p.Proto, From: p.From, To: p.To})
	}
	if out == nil {
		return ""
	}
	return firewall.FormatPorts(out)
}

// answerText is one thing that would have happened, in a line.
func answerText(a replay.Answer) string {
	what := ""
	switch a.Kind {
	case replay.Block:
		verb := "block"
		if a.Action != "" {
			verb = a.Action
		}
		what = fmt.Sprintf("%-5s %-20s for %-8s", verb, a.Prefix, rules.FormatDuration(a.TTL))
	case replay.Unblock:
		return fmt.Sprintf("%s  unblock %s: too many blocks (limits.blocks)\n", stamp(a.At), a.Prefix)
	case replay.Observe:
		what = "observe " + subject(a)
		if len(a.Would) > 0 {
			var kinds []string
			for _, k := range a.Would {
				kinds = append(kinds, string(k))
			}
			what += " (would " + strings.Join(kinds, ", ") + ")"
		}
	case replay.Flag:
		what = "flag " + cell(a.Flag, 64) + " for " + rules.FormatDuration(a.TTL)
	case replay.Lockdown:
		ports := "all ports"
		if p := portsText(a.Ports); p != "" {
			ports = "ports " + p
		}
		what = "lockdown of " + ports + " for " + rules.FormatDuration(a.TTL)
	case replay.Notify:
		what = "notify " + cell(a.Target, 64) + " of " + subject(a)
	case replay.Exec:
		what = "exec " + cell(strings.Join(a.Argv, " "), 80) + " for " + subject(a)
	}
	line := fmt.Sprintf("%s  %s by %s: %s, %s:%d", stamp(a.At), what, plain(a.Rule), a.Counted(), plain(a.Source), a.Line)
	if a.Kind != replay.Block && a.Key != "" && subject(a) != cell(a.Key, 80) {
		line += ", counted by " + cell(a.Key, 80)
	}
	return line + "\n"
}

// subject is the prefix of an answer, or else its key.
func subject(a replay.Answer) string {
	if a.Prefix.IsValid() {
		return a.Prefix.String()
	}
	return cell(a.Key, 80)
}

// rulesText prints the summaries of the rules as a table, with the worst case
// and the good sources of each below.
func rulesText(w io.Writer, rs []replay.RuleSummary) error {
	if len(rs) == 0 {
		return nil
	}
	rows := make([][]string, len(rs))
	for i, r := range rs {
		name := cell(r.Rule, 40)
		if r.Observe {
			name += " (observe)"
		}
		rows[i] = []string{name, fmt.Sprint(r.Breaches), fmt.Sprint(r.Blocks), fmt.Sprint(r.Prefixes), fmt.Sprint(r.Stopped), fmt.Sprint(r.GoodHit)}
	}
	fmt.Fprintln(w)
	if err := table(w, "RULE\tBREACHES\tBLOCKS\tPREFIXES\tATTEMPTS STOPPED\tGOOD SOURCES HIT", rows); err != nil {
		return err
	}
	for _, r := range rs {
		worst := cell(r.Worst.Key, 80)
		if r.Worst.Prefix.IsValid() {
			worst = r.Worst.Prefix.String()
		}
		fmt.Fprintf(w, "\n%s: worst case %s, %s stopped\n", cell(r.Rule, 40), worst, plural(int(r.Worst.Stopped), "attempt"))
		for _, line := range r.Worst.Lines {
			fmt.Fprintf(w, "    %s\n", cell(line, 200))
		}
		for _, g := range r.Good {
			fmt.Fprintf(w, "  good source %s: %s, %s, hit with %s\n", g.Addr, detect.Quantity(g.Successes, "success"), detect.Quantity(g.Failures, "failure"), detect.Quantity(g.Hits, "line"))
			for _, l := range g.Lines {
				fmt.Fprintf(w, "    %s:%d  %s\n", plain(l.Source), l.Line, cell(l.Text, 200))
			}
		}
		if more := r.GoodHit - len(r.Good); more > 0 {
			fmt.Fprintf(w, "  and %d more good sources\n", more)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}
