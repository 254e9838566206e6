package cmd

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoplog/internal/fleet"
	"stoplog/internal/replay"
	"stoplog/internal/rules"
)

// Where the keys of a fleet's administrator and operators are.
const (
	defaultAdmin    = "/etc/stoplog/fleet-admin.json"
	defaultOperator = "/etc/stoplog/fleet-operator.json"
)

func fleetCmd(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "fleet",
		Short: "Count together with other machines",
		Long: `Count together with other machines through Redis or Valkey (7 or later).

On one machine, the administrator creates the fleet and a token for each node;
each node joins with its token. Then set "fleet: {mode: observe}" in the rules
to see what the fleet would block, and "fleet: {mode: on}" to block it.`,
	}
	c.AddCommand(fleetInit(e), fleetInvite(e), fleetJoin(e), fleetList(e), fleetRevoke(e), fleetLeave(e), fleetStatus(e), fleetOperator(e), fleetOrder(e))
	return c
}

// adminFlag is where the administrator's file is.
func adminFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "admin", defaultAdmin, "file with the administrator's key")
}

func readAdmin(path string) (*fleet.Admin, error) {
	a := &fleet.Admin{}
	if err := fleet.Read(path, a); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; create the fleet with: stoplog fleet init URL", path)
	} else if err != nil {
		return nil, err
	}
	return a, nil
}

func fleetInit(e *env) *cobra.Command {
	var admin, ca string
	c := &cobra.Command{
		Use: "init URL", Short: "Create a fleet and its administrator key", Args: cobra.ExactArgs(1),
		Long: `Create a fleet. URL names the engine and a user that may create other users:
rediss://USER:PASSWORD@HOST:6379 (rediss is TLS, redis is not). With Sentinel:
rediss://USER:PASSWORD@HOST1:26379,HOST2:26379/?sentinel=NAME

The administrator's key stays in the file of --admin; keep a copy of it.`,
		Example: "  sudo stoplog fleet init rediss://default:PASSWORD@redis.example.net:6379",
	}
	c.RunE = func(cc *cobra.Command, args []string) error {
		if err := fleet.CheckURL(args[0]); err != nil {
			return usage("%w", err)
		}
		if _, err := os.Lstat(admin); err == nil {
			return fmt.Errorf("%s exists already: this machine administers a fleet", admin)
		}
		a, err := fleet.Create(args[0])
		if err != nil {
			return err
		}
		if a.CA, err = readCA(ca); err != nil {
			return err
		}
		v, err := fleet.Dial(a.URL, a.CA, a.Fleet)
		if err != nil {
			return err
		}
		defer v.Close()
		if _, _, err := v.Members(cc.Context()); err != nil {
			return fleet.EngineError(err, a.URL)
		}
		if err := os.MkdirAll(filepath.Dir(admin), 0o755); err != nil {
			return err
		}
		if err := fleet.Write(admin, a); err != nil {
			return err
		}
		fmt.Fprintf(e.out, "Fleet %s created. Its administrator key is in %s.\nNext, for each node: stoplog fleet invite NAME\n", a.Fleet, admin)
		return nil
	}
	adminFlag(c, &admin)
	c.Flags().StringVar(&ca, "ca", "", "PEM file with the CA of the engine's certificate (default: the system's)")
	return c
}

func readCA(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

func fleetInvite(e *env) *cobra.Command {
	var admin, expires string
	var printOnly bool
	c := &cobra.Command{
		Use: "invite NAME", Short: "Create a token with which a node joins", Args: cobra.ExactArgs(1),
		Long: `Create a token with which the node NAME joins, and the node's user on the engine:
it may read the fleet's keys, and write the node's own stream and the list of
nodes. The ACL line is printed to standard error; paste it into the engine's ACL
file (or run ACL SAVE there) so that the user survives a restart of the engine.`,
		Example: "  sudo stoplog fleet invite web1",
	}
	c.RunE = func(cc *cobra.Command, args []string) error {
		life, err := rules.ParseDuration(expires)
		if err != nil || life <= 0 {
			return usage("--expires %s: expected a duration such as 1h or 7d", expires)
		}
		a, err := readAdmin(admin)
		if err != nil {
			return err
		}
		password := rand.Text()
		user, acl := fleet.ACL(a.Fleet, args[0], password)
		u, err := url.Parse(a.URL)
		if err != nil {
			return fmt.Errorf("%s: the URL of the engine cannot be read", admin)
		}
		u.User = url.UserPassword(user, password)
		tok, err := a.Invite(args[0], u.String(), time.Now().Add(life))
		if err != nil {
			return usage("%w", err)
		}
		if !printOnly {
			v, err := fleet.Dial(a.URL, a.CA, a.Fleet)
			if err != nil {
				return err
			}
			defer v.Close()
			if err := v.SetUser(cc.Context(), user, acl); err != nil {
				return fleet.EngineError(err, a.URL)
			}
		}
		// "reset" is an order to ACL SETUSER, not a part of a user in the file.
		fmt.Fprintf(e.errw, "user %s %s\n", user, strings.Join(acl[1:], " "))
		fmt.Fprintf(e.errw, "On %s, before %s: stoplog fleet join TOKEN, with the token:\n", args[0], stamp(tok.Expires))
		_, err = fmt.Fprintln(e.out, tok)
		return err
	}
	adminFlag(c, &admin)
	c.Flags().StringVar(&expires, "expires", "1d", "how long the token is valid")
	c.Flags().BoolVar(&printOnly, "print", false, "do not create the user on the engine, print its ACL line only")
	return c
}

func fleetJoin(e *env) *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "join TOKEN", Short: "Join a fleet with a token", Args: cobra.ExactArgs(1),
		Long: `Join a fleet: create this node's key, and announce it. "-" reads the token from
standard input. Then restart stoplog, with "fleet: {mode: observe}" in the rules.`,
		Example: "  sudo stoplog fleet join stoplog-fleet-…",
	}
	c.RunE = func(cc *cobra.Command, args []string) error {
		word := args[0]
		if word == "-" {
			if _, err := fmt.Fscan(e.in, &word); err != nil {
				return usage("no token on standard input")
			}
		}
		tok, err := fleet.ParseToken(word)
		if err != nil {
			return usage("%w", err)
		}
		path := filepath.Join(state, fleet.MemberFile)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists: this machine is in a fleet; leave it first with: stoplog fleet leave", path)
		}
		m, err := tok.Join(time.Now())
		if err != nil {
			return err
		}
		v, err := fleet.Dial(m.URL, m.CA, m.Fleet)
		if err != nil {
			return err
		}
		defer v.Close()
		if err := v.Join(cc.Context(), m); err != nil {
			return fleet.EngineError(err, m.URL)
		}
		if err := fleet.Write(path, m); err != nil {
			return err
		}
		fmt.Fprintf(e.out, "Joined fleet %s as %s. Set fleet: {mode: observe} in the rules and restart stoplog.\n", m.Fleet, m.Cert.Name)
		return nil
	}
	stateFlag(c, &state)
	return c
}

func stateFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "state", defaultState, "state directory")
}

// shownNode is the shape of `fleet list --json`.
type shownNode struct {
	Name    string     `json:"name"`
	Joined  *time.Time `json:"joined,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
}

func fleetList(e *env) *cobra.Command {
	var admin, state string
	c := withJSON(e, &cobra.Command{Use: "list", Short: "List the nodes of the fleet", Args: cobra.NoArgs})
	c.RunE = func(cc *cobra.Command, _ []string) error {
		v, check, err := connect(admin, state)
		if err != nil {
			return err
		}
		defer v.Close()
		certs, revoked, err := v.Members(cc.Context())
		if err != nil {
			return err
		}
		var shown []shownNode
		var rows [][]string
		for _, n := range check(certs, revoked) {
			s := shownNode{Name: n.Name}
			row := []string{n.Name, "-", ""}
			if !n.Joined.IsZero() {
				s.Joined, row[1] = &n.Joined, stamp(n.Joined)
			}
			if !n.Revoked.IsZero() {
				s.Revoked, row[2] = &n.Revoked, "revoked "+stamp(n.Revoked)
			}
			shown, rows = append(shown, s), append(rows, row)
		}
		if e.json {
			return jsonLines(e.out, shown)
		}
		return table(e.out, "NODE\tJOINED\t", rows)
	}
	adminFlag(c, &admin)
	stateFlag(c, &state)
	return c
}

// connect dials with the administrator's file, or else with the member's.
func connect(admin, state string) (*fleet.Valkey, func(certs, revoked map[string][]byte) []fleet.Listed, error) {
	a := &fleet.Admin{}
	err := fleet.Read(admin, a)
	if err == nil {
		v, err := fleet.Dial(a.URL, a.CA, a.Fleet)
		return v, func(c, r map[string][]byte) []fleet.Listed { return fleet.List(a.Fleet, a.Public(), c, r) }, err
	}
	m := &fleet.Member{}
	if merr := fleet.Read(filepath.Join(state, fleet.MemberFile), m); merr == nil {
		v, err := fleet.Dial(m.URL, m.CA, m.Fleet)
		return v, func(c, r map[string][]byte) []fleet.Listed { return fleet.List(m.Fleet, m.Admin, c, r) }, err
	}
	if errors.Is(err, os.ErrNotExist) {
		err = errors.New("this machine is not in a fleet; join one with: stoplog fleet join TOKEN")
	}
	return nil, nil, err
}

func fleetRevoke(e *env) *cobra.Command {
	var admin string
	c := &cobra.Command{
		Use: "revoke NODE", Short: "End a node's membership", Args: cobra.ExactArgs(1),
		Long: `End a node's membership: the other nodes forget what it said and ignore it, and
its user on the engine is removed. The node can join again with a new token.`,
	}
	c.RunE = func(cc *cobra.Command, args []string) error {
		if err := fleet.CheckName(args[0]); err != nil {
			return usage("%w", err)
		}
		a, err := readAdmin(admin)
		if err != nil {
			return err
		}
		v, err := fleet.Dial(a.URL, a.CA, a.Fleet)
		if err != nil {
			return err
		}
		defer v.Close()
		if err := v.Revoke(cc.Context(), a.Revoke(args[0], time.Now())); err != nil {
			return fleet.EngineError(err, a.URL)
		}
		if err := v.DropUser(cc.Context(), fleet.UserName(a.Fleet, args[0])); err != nil {
			return fmt.Errorf("%s is revoked, but its user on the engine remains: %w", args[0], fleet.EngineError(err, a.URL))
		}
		fmt.Fprintf(e.out, "%s is revoked. If the engine has an ACL file, remove its line there.\n", args[0])
		return nil
	}
	adminFlag(c, &admin)
	return arguments(e, c, 1, fleetNodes)
}

func fleetLeave(e *env) *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "leave", Short: "Remove this node's key, and count alone from now on", Args: cobra.NoArgs,
		Long: `Remove this node's key. Restart stoplog afterwards. The administrator should also
revoke the node: a copy of the key may exist in a backup.`,
	}
	c.RunE = func(*cobra.Command, []string) error {
		was, err := fleet.Leave(state)
		if err == nil && !was {
			err = errors.New("this machine is not in a fleet")
		}
		if err == nil {
			fmt.Fprintln(e.out, "Left the fleet. Restart stoplog, and remove fleet from the rules.")
		}
		return err
	}
	stateFlag(c, &state)
	return c
}

func fleetStatus(e *env) *cobra.Command {
	c := withJSON(e, &cobra.Command{Use: "status", Short: "Show the fleet as this node sees it", Args: cobra.NoArgs})
	c.RunE = func(cc *cobra.Command, _ []string) error {
		s, err := e.client().Status(cc.Context())
		if err != nil {
			return err
		}
		if s.Fleet == nil {
			return errors.New("this node does not count together with others: set fleet: {mode: observe} in the rules after stoplog fleet join")
		}
		if e.json {
			return jsonLines(e.out, []any{s.Fleet})
		}
		return printFleet(e, s.Fleet)
	}
	return c
}

// printFleet shows the fleet in full.
func printFleet(e *env, f *fleet.Status) error {
	for _, l := range fleetLines(f) {
		fmt.Fprintln(e.out, l)
	}
	if len(f.Nodes) == 0 {
		return nil
	}
	fmt.Fprintln(e.out)
	var rows [][]string
	for _, n := range f.Nodes {
		last := "-"
		if !n.Last.IsZero() {
			last = stamp(n.Last)
		}
		note := ""
		if len(n.Differ) > 0 {
			note = "other rules: " + strings.Join(n.Differ, ", ")
		}
		if n.Refused > 0 {
			note = strings.TrimPrefix(fmt.Sprintf("%s; %d refused: %s", note, n.Refused, n.Why), "; ")
		}
		rows = append(rows, []string{n.Name, last, n.Lag.Round(time.Millisecond).String(), n.Skew.Round(time.Millisecond).String(), fmt.Sprint(n.Keys), cell(note, 200)})
	}
	return table(e.out, "NODE\tLAST\tLAG\tSKEW\tPREFIXES\tNOTE", rows)
}

// fleetLines sum the fleet up, for status.
func fleetLines(f *fleet.Status) []string {
	state := "connected since " + stamp(f.Since)
	if !f.Connected {
		state = "going on alone"
		if f.Error != "" {
			state += " since " + stamp(f.Since) + ": " + cell(f.Error, 300)
		}
	}
	lines := []string{
		fmt.Sprintf("fleet      %s as %s, %s, mode %s", f.Fleet, f.Node, state, f.Mode),
		fmt.Sprintf("           %d nodes, %d prefixes, %d decided together; this clock is %s ahead of the engine's", len(f.Nodes)+1, f.Keys, f.Decisions, f.Skew.Round(time.Millisecond)),
	}
	if f.Waiting > 0 || f.Dropped > 0 {
		lines = append(lines, fmt.Sprintf("           %d changes wait for the engine, %d found no room", f.Waiting, f.Dropped))
	}
	var reasons []string
	for why, n := range f.Refused {
		reasons = append(reasons, fmt.Sprintf("%d times %s", n, why))
	}
	if slices.Sort(reasons); len(reasons) > 0 {
		lines = append(lines, "           refused: "+strings.Join(reasons, ", "))
	}
	return lines
}

func fleetOperator(e *env) *cobra.Command {
	var admin, out string
	c := &cobra.Command{
		Use: "operator NAME", Short: "Create a key that may give orders to all nodes", Args: cobra.ExactArgs(1),
		Long: `Create the key of an operator: who has the file can block, unblock and allow
addresses and raise flags on all nodes, with stoplog fleet order.`,
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		a, err := readAdmin(admin)
		if err != nil {
			return err
		}
		op, err := a.Operator(args[0])
		if err != nil {
			return usage("%w", err)
		}
		if _, err := os.Lstat(out); err == nil {
			return fmt.Errorf("%s exists already", out)
		}
		if err := fleet.Write(out, op); err != nil {
			return err
		}
		fmt.Fprintf(e.out, "The key of operator %s is in %s.\n", op.Name, out)
		return nil
	}
	adminFlag(c, &admin)
	c.Flags().StringVar(&out, "out", defaultOperator, "file for the operator's key")
	return c
}

// orderKinds are the words of fleet order.
var orderKinds = []fleet.OrderKind{fleet.Block, fleet.Unblock, fleet.Allow, fleet.Disallow, fleet.Flag, fleet.ClearFlag}

func fleetOrder(e *env) *cobra.Command {
	var operator string
	var f orderFlags
	c := &cobra.Command{
		Use: "order block|unblock|allow|disallow|flag|clear PREFIX|FLAG", Short: "Order something on all nodes", Args: cobra.ExactArgs(2),
		Example: `  sudo stoplog fleet order block 203.0.113.0/24 --ttl 1d --reason "abuse report"
  sudo stoplog fleet order unblock 192.0.2.7`,
	}
	c.RunE = func(cc *cobra.Command, args []string) error {
		i := slices.IndexFunc(orderKinds, func(k fleet.OrderKind) bool { return k.String() == args[0] })
		if i < 0 {
			return usage("%q is not an order: block, unblock, allow, disallow, flag or clear", args[0])
		}
		o := fleet.Order{Kind: orderKinds[i], Reason: f.reason}
		if o.Kind == fleet.Flag || o.Kind == fleet.ClearFlag {
			o.Flag = args[1]
		} else {
			p, err := parseTarget(args[1])
			if err != nil {
				return err
			}
			o.Prefix = p.Masked()
		}
		var ttl time.Duration
		if f.ttl != "" {
			var err error
			if ttl, err = rules.ParseDuration(f.ttl); err != nil || ttl <= 0 {
				return usage("--ttl %s: expected a duration such as 90s, 10m, 7d or 2w", f.ttl)
			}
		} else if o.Kind == fleet.Flag || o.Kind == fleet.Block {
			return usage("%s needs --ttl", o.Kind)
		}
		op := &fleet.Operator{}
		if err := fleet.Read(operator, op); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cc.Context(), 10*time.Second)
		defer cancel()
		s, err := e.client().Status(ctx)
		if err != nil {
			return err
		}
		if s.Fleet == nil {
			return errors.New("this node does not count together with others")
		}
		now := time.Now().Add(-s.Fleet.Skew) // by the engine's clock
		o.At = now.UnixNano()
		if ttl > 0 {
			o.Until = now.Add(ttl).UnixNano()
		}
		op.Sign(&o)
		a, err := e.client().FleetOrder(ctx, o)
		return answer(e, args[1], a, err)
	}
	f.add(c, "how long it lasts; needed to block and to raise a flag")
	c.Flags().StringVar(&operator, "operator", defaultOperator, "file with the operator's key")
	return c
}

// shownFleetBlock is the shape of a block in `replay --fleet --json`.
type shownFleetBlock struct {
	Type   string    `json:"type"`
	Host   string    `json:"host"`
	Life   string    `json:"life"` // alone or together
	At     time.Time `json:"at"`
	Rule   string    `json:"rule"`
	Prefix string    `json:"prefix"`
	TTL    string    `json:"ttl,omitempty"`
	Count  int       `json:"count,omitempty"`
	Points int       `json:"points,omitempty"`
	Source string    `json:"source,omitempty"`
	Except []string  `json:"except,omitempty"`
}

// replayFleet compares hosts that count alone with the same hosts as a fleet.
func (e *env) replayFleet(ctx context.Context, w *bufio.Writer, ro replay.Options, dir string) error {
	f := ro.Set.Fleet
	o := replay.FleetOptions{Options: ro, Dir: dir, Limits: fleet.Limits{Quorum: f.Quorum, Cap: f.Cap, Longest: ro.Set.Block.Max}}
	enc := json.NewEncoder(w)
	var emit func(replay.FleetBlock) error
	if e.json {
		emit = func(b replay.FleetBlock) error {
			a := b.Answer
			x := shownFleetBlock{Type: string(a.Kind), Host: b.Host, Life: "alone", At: a.At.UTC(), Rule: a.Rule, Prefix: a.Prefix.String(), Count: a.Count, Points: a.Points, Source: a.Source}
			if b.Together {
				x.Life = "together"
			}
			if a.Kind == replay.Block {
				x.TTL = rules.FormatDuration(a.TTL)
			}
			for _, p := range a.Except {
				x.Except = append(x.Except, p.String())
			}
			return enc.Encode(x)
		}
	}
	r, err := replay.Fleet(ctx, o, emit)
	if err != nil {
		return err
	}
	if e.json {
		if err := enc.Encode(fleetSummary(r)); err != nil {
			return err
		}
		return w.Flush()
	}
	fmt.Fprintf(w, "%d hosts, %d events: %d attempts of %d attackers, %d logins of good sources\n\n", r.Hosts, r.Events, r.Attempts, r.Sources, r.Logins)
	row := func(name string, s replay.FleetSide) []string {
		share := 100.0
		if r.Attempts > 0 {
			share = 100 - 100*float64(s.Through)/float64(r.Attempts)
		}
		return []string{name, fmt.Sprint(s.Through), fmt.Sprintf("%.2f %%", share), fmt.Sprintf("%d of %d sources", s.Refused, s.RefusedSources), fmt.Sprint(s.Blocks)}
	}
	if err := table(w, "\tLET THROUGH\tPREVENTED\tGOOD LOGINS REFUSED\tBLOCKS", [][]string{row("alone", r.Alone), row("as a fleet", r.Together)}); err != nil {
		return err
	}
	if d := r.Alone.Through - r.Together.Through; r.Alone.Through > 0 {
		fmt.Fprintf(w, "\nAs a fleet, these hosts would have stopped %d more attempts, %.0f %% of those that they let through alone.\n", d, 100*float64(d)/float64(r.Alone.Through))
	}
	return w.Flush()
}

// fleetSummary is the last line of `replay --fleet --json`.
func fleetSummary(r *replay.FleetResult) any {
	type side struct {
		Through        int `json:"through"`
		Refused        int `json:"refused"`
		RefusedSources int `json:"refused_sources"`
		Blocks         int `json:"blocks"`
	}
	return struct {
		Type      string `json:"type"`
		Hosts     int    `json:"hosts"`
		Events    int    `json:"events"`
		Decisions int    `json:"decisions"`
		Sources   int    `json:"sources"`
		Attempts  int    `json:"attempts"`
		Logins    int    `json:"logins"`
		Alone     side   `json:"alone"`
		Together  side   `json:"together"`
	}{"summary", r.Hosts, r.Events, r.Decisions, r.Sources, r.Attempts, r.Logins, side(r.Alone), side(r.Together)}
}
