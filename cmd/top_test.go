package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"stoplog/internal/control"
)

// fakeDoor remembers what was ordered and searched for.
type fakeDoor struct {
	status control.Status
	live   control.Live
	blocks []control.Block
	err    error
	orders []string
	search string
}

func (f *fakeDoor) Status(context.Context) (control.Status, error) { return f.status, f.err }
func (f *fakeDoor) Live(context.Context) (control.Live, error)     { return f.live, f.err }
func (f *fakeDoor) Find(_ context.Context, q control.BlockQuery) (control.BlockPage, error) {
	f.search = q.Search
	return control.BlockPage{Blocks: f.blocks, Matches: len(f.blocks), Total: len(f.blocks)}, f.err
}
func (f *fakeDoor) gave(what string, o control.Order) (control.Answer, error) {
	f.orders = append(f.orders, strings.TrimSpace(fmt.Sprint(what, " ", o.Target, " ", o.TTL, " ", o.Reason)))
	return control.Answer{Lines: []string{what + " done"}}, f.err
}
func (f *fakeDoor) Block(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("block", o)
}
func (f *fakeDoor) Unblock(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("unblock", o)
}
func (f *fakeDoor) Allow(_ context.Context, o control.Order) (control.Answer, error) {
	return f.gave("allow", o)
}

func (f *fakeDoor) Explain(_ context.Context, target string) (control.Explanation, error) {
	x := control.Explanation{Addr: strings.TrimSuffix(target, "/28"), Prefix: target, Blocked: f.blocks[:1]}
	for i := range 40 {
		x.Advice = append(x.Advice, fmt.Sprint("advice ", i, "\x1b[31m"))
	}
	return x, f.err
}

func fullDoor() *fakeDoor {
	now := time.Now()
	f := &fakeDoor{status: control.Status{State: "ok", Started: now.Add(-time.Hour), Lines: 7, Events: 5}}
	f.live.Now = now
	for i := range 60 {
		f.live.Minutes = append(f.live.Minutes, control.Minute{Events: uint64(i)})
	}
	f.live.Fullest = []control.Level{{Rule: "ssh-login", Key: "198.51.100.0/28", Level: 4, Capacity: 5}, {Rule: "login-flood", Key: "all", Level: 9, Capacity: 500}}
	for i := range 50 {
		f.blocks = append(f.blocks, control.Block{Prefix: fmt.Sprintf("192.0.%d.0/28", i), Rule: "ssh-login", Count: 6, Until: now.Add(time.Hour), Reason: "6 events"})
	}
	return f
}

// screen is a top that has looked once.
func screen(t *testing.T, f *fakeDoor) top {
	t.Helper()
	m := newTop(t.Context(), f)
	return send(m, m.Init()())
}

// send gives messages, and what commands answer, to the screen; the tick is
// left out.
func send(m top, msgs ...tea.Msg) top {
	for _, msg := range msgs {
		next, cmd := m.Update(msg)
		m = next.(top)
		if _, looked := msg.(topSeen); cmd != nil && !looked {
			if answer := cmd(); answer != nil {
				if _, quit := answer.(tea.QuitMsg); !quit {
					m = send(m, answer)
				}
			}
		}
	}
	return m
}

// keys are key presses: words in <> are special keys.
func keys(text string) (out []tea.Msg) {
	special := map[string]tea.KeyPressMsg{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "down": {Code: tea.KeyDown}, "up": {Code: tea.KeyUp}, "end": {Code: tea.KeyEnd}, "back": {Code: tea.KeyBackspace}, "clear": {Code: 'u', Mod: tea.ModCtrl}}
	for text != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(text, "<"), ">"); ok && text[0] == '<' {
			out, text = append(out, special[name]), rest
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		out, text = append(out, tea.KeyPressMsg{Code: r, Text: string(r)}), text[n:]
	}
	return out
}

func TestTopOrders(t *testing.T) {
	for _, c := range []struct {
		keys  string
		order string
		says  string
	}{
		{"u<enter>", "unblock 192.0.0.0/28 0s", "unblock done"},
		{"<down><down>u<enter>", "unblock 192.0.2.0/28 0s", "unblock done"},
		{"<down><up>ju<enter>", "unblock 192.0.1.0/28 0s", "unblock done"},
		{"<end>u<enter>", "unblock 192.0.49.0/28 0s", "unblock done"},
		{"a<enter>", "allow 192.0.0.0/28 168h0m0s", "allow done"},
		{"aour office<enter>", "allow 192.0.0.0/28 168h0m0s our office", "allow done"},
		{"<tab>b<enter>", "block 198.51.100.0/28 0s", "block done"},
		{"<tab>b1h too loud<enter>", "block 198.51.100.0/28 1h0m0s too loud", "block done"},
		{"b<clear>2001:db8::/64 2w x<back>y<enter>", "block 2001:db8::/64 336h0m0s y", "block done"},
		{"u<esc>", "", "Nothing was changed."},
		{"<tab><down>b<enter>", "", "expected an address or prefix"}, // the bucket of all has no prefix
		{"u<clear>host.example<enter>", "", "is not an IP address"},
		{"b<clear>192.0.2.1 0s<enter>", "", "expected a duration above 0"},
		{"zx?", "", ""},
		{"paste", "block 192.0.2.1 0s loud", "block done"},
	} {
		f := fullDoor()
		typed := keys(c.keys)
		if c.keys == "paste" { // pasting gives no order by itself
			typed = append(append([]tea.Msg{tea.PasteMsg{Content: "u\n"}}, keys("<tab><down>b")...), tea.PasteMsg{Content: "192.0.2.1 loud"})
			typed = append(typed, keys("<enter>")...)
		}
		m := send(screen(t, f), typed...)
		if got := strings.Join(f.orders, "; "); got != c.order {
			t.Errorf("%s: ordered %q, want %q", c.keys, got, c.order)
		}
		if !strings.Contains(m.text(), c.says) {
			t.Errorf("%s: the screen does not say %q:\n%s", c.keys, c.says, m.text())
		}
	}
}

func TestTopSearch(t *testing.T) {
	f := fullDoor()
	m := send(screen(t, f), keys("/ssh <enter>")...)
	m = send(m, m.look())
	if f.search != "ssh" || !strings.Contains(m.text(), `with "ssh"`) {
		t.Errorf("searched for %q\n%s", f.search, m.text())
	}
	m = send(m, keys("<esc>")...)
	send(m, m.look())
	if f.search != "" {
		t.Errorf("esc left the search %q", f.search)
	}
}

// TestTopFits: whatever a log says and however small the terminal, the screen
// holds its size and no text controls it.
func TestTopFits(t *testing.T) {
	f := fullDoor()
	evil := "\x1b[2J\x1b]0;x\x07\r\n\u202e" + strings.Repeat("é", 500)
	f.status.Trouble = []string{evil, evil, evil, evil, evil}
	f.status.State = evil
	for i := range f.blocks {
		f.blocks[i].Rule, f.blocks[i].Reason = evil, evil
	}
	f.live.Fullest[0].Key, f.live.Fullest[0].Rule = evil, evil
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {20, 8}, {1, 1}, {0, 0}} {
		for _, k := range []string{"", "b", "<tab>", "/"} {
			m := send(screen(t, f), tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			m = send(m, keys(k)...)
			lines := strings.Split(m.text(), "\n")
			if len(lines) > m.height {
				t.Errorf("%v %q: %d lines", size, k, len(lines))
			}
			for _, l := range lines {
				for _, mark := range []string{sgrBold, sgrReverse, sgrOff} {
					l = strings.ReplaceAll(l, mark, "")
				}
				if n := utf8.RuneCountInString(l); n > m.width {
					t.Errorf("%v %q: %d columns: %q", size, k, n, l)
				}
				if strings.ContainsAny(l, "\x1b\r\x07\u202e") {
					t.Errorf("%v %q: a log controls the screen: %q", size, k, l)
				}
			}
		}
	}
}

func TestTopWithoutAnswer(t *testing.T) {
	f := fullDoor()
	m := screen(t, f)
	f.err = errors.New("no stoplog is running")
	m = send(m, m.look())
	if v := m.text(); !strings.Contains(v, "no stoplog is running") || !strings.Contains(v, "192.0.0.0/28") {
		t.Errorf("a daemon that went away: what was seen must stay, and be said to be old:\n%s", v)
	}
	m = send(m, keys("u<enter>")...)
	if !strings.Contains(m.text(), "Not done: no stoplog is running") {
		t.Errorf("\n%s", m.text())
	}
	f.err, f.blocks = nil, nil
	m = send(m, m.look())
	if strings.HasPrefix(m.text(), sgrBold+"no stoplog") || m.chosen() != "" {
		t.Errorf("it came back:\n%s", m.text())
	}
	if v := newTop(t.Context(), f).text(); !strings.Contains(v, "asking") {
		t.Errorf("before the first answer:\n%s", v)
	}
}

func TestTopWantsATerminal(t *testing.T) {
	if code, _, errs := run(t, "", "top"); code != exitUsage || !strings.Contains(errs, "terminal") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestTopStory: Enter shows all about the chosen row, and esc leads back.
func TestTopStory(t *testing.T) {
	f := fullDoor()
	m := newTop(t.Context(), f)
	m.width, m.height = 200, 20
	step := func(msg tea.Msg) {
		t.Helper()
		x, cmd := m.Update(msg)
		m = x.(top)
		if k, ok := msg.(tea.KeyPressMsg); ok && k.Code == tea.KeyEnter && cmd != nil {
			x, _ = m.Update(cmd())
			m = x.(top)
		}
	}
	step(m.look())
	step(tea.KeyPressMsg{Code: tea.KeyDown})
	step(tea.KeyPressMsg{Code: tea.KeyEnter})
	text := m.text()
	if !strings.Contains(text, "192.0.1.0/28 is blocked") || strings.Contains(text, "NEWEST BLOCKS") || strings.Contains(text, "\x1b[31m") {
		t.Fatalf("the story of the second row:\n%s", text)
	}
	if n := strings.Count(text, "\n") + 1; n > 20 {
		t.Errorf("%d lines on a screen of 20", n)
	}
	step(tea.KeyPressMsg{Code: tea.KeyEnd})
	if text := m.text(); !strings.Contains(text, "advice 39") {
		t.Errorf("the end is not shown:\n%s", text)
	}
	step(tea.KeyPressMsg{Code: tea.KeyEscape})
	if !strings.Contains(m.text(), "NEWEST BLOCKS") {
		t.Error("esc does not lead back")
	}
}
