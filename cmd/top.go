package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"stoplog/internal/control"
	"stoplog/internal/rules"
)

func topCmd(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show a live view of rates, blocks and buckets",
		Long: `Show a live view of rates, newest blocks and fullest buckets. Tab switches lists,
arrow keys select a row, and Enter shows all about it; u unblocks it, b blocks
it, a allows it, after you confirm with Enter. / searches the blocks, q quits.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runTop(c.Context(), e) },
	}
}

func runTop(ctx context.Context, e *env) error {
	if !isTerminal(e.out) || !isTerminal(e.in) {
		return usage("top needs a terminal; use stoplog status or stoplog list instead")
	}
	c := e.client()
	defer c.Close()
	if _, err := c.Status(ctx); err != nil {
		return err // before the screen is taken
	}
	p := tea.NewProgram(newTop(ctx, c), tea.WithContext(ctx), tea.WithInput(e.in), tea.WithOutput(e.out), tea.WithoutSignalHandler())
	_, err := p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil // ended by a signal
	}
	return err
}

// topDoor is what the screen asks of a daemon; control.Client is one.
type topDoor interface {
	Status(context.Context) (control.Status, error)
	Live(context.Context) (control.Live, error)
	Find(context.Context, control.BlockQuery) (control.BlockPage, error)
	Explain(context.Context, string) (control.Explanation, error)
	Block(context.Context, control.Order) (control.Answer, error)
	Unblock(context.Context, control.Order) (control.Answer, error)
	Allow(context.Context, control.Order) (control.Answer, error)
}

const (
	topEvery  = time.Second
	topBlocks = 100
	maxInput  = 300
)

// top is the state of the screen. Each Update returns a changed copy.
type top struct {
	ask           func() (context.Context, context.CancelFunc) // bounds one question
	door          topDoor
	width, height int
	seen          topSeen
	search        string
	buckets       bool   // the list that keys work on; else the blocks
	row           int    // chosen in it
	prompt        string // what is being typed: "block", "unblock", "allow", "search", or ""
	input         []rune
	notice        string
	story         []string // of the prefix that is shown alone; nil: none is
	from          int      // its first line on the screen
}

// topSeen is what the daemon said last.
type topSeen struct {
	status control.Status
	live   control.Live
	found  control.BlockPage
	err    error
}

type (
	topTick  struct{}
	topStory struct {
		x   control.Explanation
		err error
	}
	topDone struct {
		answer control.Answer
		err    error
	}
)

func newTop(ctx context.Context, door topDoor) top {
	ask := func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 10*time.Second) }
	return top{ask: ask, door: door, width: 80, height: 24}
}

// Init asks for the first time.
func (m top) Init() tea.Cmd { return m.look }

// look asks the daemon for all that is shown.
func (m top) look() tea.Msg {
	ctx, cancel := m.ask()
	defer cancel()
	var s topSeen
	if s.status, s.err = m.door.Status(ctx); s.err != nil {
		return s
	}
	if s.live, s.err = m.door.Live(ctx); s.err != nil {
		return s
	}
	s.found, s.err = m.door.Find(ctx, control.BlockQuery{Search: m.search, Limit: topBlocks})
	return s
}

// Update takes a key, an answer or the time.
func (m top) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 8) // less is cut by the screen
	case topSeen:
		if msg.err != nil {
			m.seen.err = msg.err // what was seen before stays
		} else {
			m.seen = msg
		}
		m.row = max(0, min(m.row, m.rows()-1))
		return m, tea.Tick(topEvery, func(time.Time) tea.Msg { return topTick{} })
	case topStory:
		if msg.err != nil {
			m.notice = msg.err.Error()
		} else {
			m.story, m.from = storyLines(msg.x, m.width), 0
		}
	case topTick:
		return m, m.look
	case topDone:
		m.notice = strings.Join(msg.answer.Lines, "; ")
		if msg.err != nil {
			m.notice = "Not done: " + msg.err.Error()
		}
	case tea.PasteMsg:
		if m.prompt != "" { // pasted text never gives an order
			m = m.insert(msg.Content)
		}
	case tea.KeyPressMsg:
		if m.prompt != "" {
			return m.typed(msg)
		}
		if m.story != nil {
			return m.read(msg)
		}
		return m.key(msg)
	}
	return m, nil
}

// rows is how long the list is that keys work on.
func (m top) rows() int {
	if m.buckets {
		return len(m.seen.live.Fullest)
	}
	return len(m.seen.found.Blocks)
}

// chosen is the prefix of the chosen row, "" when it has none.
func (m top) chosen() string {
	if m.row >= m.rows() {
		return ""
	}
	if !m.buckets {
		return m.seen.found.Blocks[m.row].Prefix
	}
	if key := m.seen.live.Fullest[m.row].Key; isTarget(key) {
		return key
	}
	return ""
}

func isTarget(s string) bool {
	_, err := parseTarget(s)
	return err == nil
}

func (m top) key(k tea.KeyPressMsg) (top, tea.Cmd) {
	m.notice = ""
	switch k.String() {
	case "q", "ctrl+c":
		return m, tea.Quit
	case "tab", "shift+tab", "left", "right":
		m.buckets, m.row = !m.buckets, 0
	case "up", "k":
		m.row = max(0, m.row-1)
	case "down", "j":
		m.row = max(0, min(m.row+1, m.rows()-1))
	case "home", "g":
		m.row = 0
	case "end", "G":
		m.row = max(0, m.rows()-1)
	case "enter":
		if p := m.chosen(); p != "" {
			return m, func() tea.Msg {
				ctx, cancel := m.ask()
				defer cancel()
				x, err := m.door.Explain(ctx, p)
				return topStory{x, err}
			}
		}
	case "b":
		m = m.begin("block", m.chosen()+" ")
	case "u":
		m = m.begin("unblock", m.chosen())
	case "a":
		m = m.begin("allow", m.chosen()+" 7d ")
	case "/":
		m = m.begin("search", m.search)
	case "esc":
		if m.search != "" {
			m.search = ""
			return m, nil
		}
	}
	return m, nil
}

// read takes a key while a story is shown.
func (m top) read(k tea.KeyPressMsg) (top, tea.Cmd) {
	page := max(1, m.height-2)
	last := max(0, len(m.story)-page)
	switch k.String() {
	case "ctrl+c":
		return m, tea.Quit
	case "esc", "q", "enter", "left", "backspace":
		m.story = nil
	case "up", "k":
		m.from = max(0, m.from-1)
	case "down", "j":
		m.from = min(last, m.from+1)
	case "pgup":
		m.from = max(0, m.from-page)
	case "pgdown", "space", " ":
		m.from = min(last, m.from+page)
	case "home", "g":
		m.from = 0
	case "end", "G":
		m.from = last
	}
	return m, nil
}

func (m top) begin(prompt, text string) top {
	m.prompt, m.input = prompt, []rune(text)
	if strings.HasPrefix(text, " ") {
		m.input = nil
	}
	return m
}

// typed takes a key while something is being typed.
func (m top) typed(k tea.KeyPressMsg) (top, tea.Cmd) {
	switch k.String() {
	case "ctrl+c", "esc":
		m.prompt, m.notice = "", "Nothing was changed."
	case "enter":
		return m.enter()
	case "backspace":
		m.input = m.input[:max(0, len(m.input)-1)]
	case "ctrl+u":
		m.input = nil
	default:
		m = m.insert(k.Text)
	}
	return m, nil
}

// insert appends text to what is being typed, unless it would grow too long.
func (m top) insert(text string) top {
	if more := []rune(text); len(m.input)+len(more) <= maxInput {
		m.input = append(m.input[:len(m.input):len(m.input)], more...)
	}
	return m
}

// enter gives the order that was typed.
func (m top) enter() (top, tea.Cmd) {
	what, text := m.prompt, string(m.input)
	if what == "search" {
		m.prompt, m.search, m.row, m.buckets = "", strings.TrimSpace(text), 0, false
		return m, nil
	}
	o, err := topOrder(text)
	if err != nil {
		m.notice = err.Error() // and what was typed stays
		return m, nil
	}
	m.prompt = ""
	do := map[string]func(context.Context, control.Order) (control.Answer, error){"block": m.door.Block, "unblock": m.door.Unblock, "allow": m.door.Allow}[what]
	return m, func() tea.Msg {
		ctx, cancel := m.ask()
		defer cancel()
		a, err := do(ctx, o)
		return topDone{a, err}
	}
}

// topOrder reads an order as it is typed: ADDR|PREFIX [TIME] [REASON].
func topOrder(text string) (control.Order, error) {
	f := strings.Fields(text)
	if len(f) == 0 {
		return control.Order{}, errors.New("expected an address or prefix")
	}
	if _, err := parseTarget(f[0]); err != nil {
		return control.Order{}, err
	}
	o := control.Order{Target: f[0]}
	f = f[1:]
	if len(f) > 0 {
		if d, err := rules.ParseDuration(f[0]); err == nil {
			if d <= 0 {
				return o, fmt.Errorf("%s: expected a duration above 0", f[0])
			}
			o.TTL, f = d, f[1:]
		}
	}
	o.Reason = strings.Join(f, " ")
	return o, nil
}
