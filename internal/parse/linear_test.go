package parse

import (
	"fmt"
	"strings"
	"testing"

	"stoplog/internal/parse/parsetest"
	"stoplog/internal/source"
)

// stuffed is a line of a family whose client filled the field that it chooses
// with what the family's scanner looks for.
type stuffed struct {
	family string
	line   func(n int) []byte
}

// stuffings are the pieces that a line is made of, each of which may be what is
// searched for again and again: what stands before the hole, behind it, its
// beginning and its end, and the whole.
func stuffings(template string) []string {
	out := []string{"a", "(", ")", "[", "]", `"`, "<", ">", ", ", ": ", "=", `\`, "{", "}", "'", " from ", "1.2.3.4 ", "1:"}
	parts := strings.Split(template, "%s")
	for _, p := range parts {
		out = append(out, p, p[:len(p)/2], p[len(p)/2:], strings.TrimSpace(p)+" x ", "1"+p)
	}
	return append(out, strings.Join(parts, "a"))
}

func stuffedLines() []stuffed {
	var out []stuffed
	add := func(family, template string) {
		for i, s := range stuffings(template) {
			if s == "" {
				continue
			}
			out = append(out, stuffed{fmt.Sprintf("%s/%d", family, i), func(n int) []byte {
				text := strings.Repeat(s, n/len(s)+1)
				return []byte(strings.Replace(strings.Replace(template, "%s", text, 1), "%s", "x", -1))
			}})
		}
	}
	for _, list := range [][]hostileDaemon{hostileMail, hostileStores, hostileNet} {
		for i := range list {
			add(list[i].service, list[i].format)
		}
	}
	for _, h := range parsetest.WebLines() {
		add(h.Name, h.Line("%s"))
	}
	for _, l := range pamHostile {
		add("pam", "Nov 20 09:23:10 h sshd[1]: "+strings.ReplaceAll(l, "@", "%s"))
	}
	for _, l := range []string{"Failed password for invalid user %s from 192.0.2.7 port 1 ssh2", "Invalid user %s from 192.0.2.7", "User %s from 192.0.2.7 not allowed because x",
		"Disconnecting invalid user %s 192.0.2.7 port 1: x", "error: PAM: %s for x from 192.0.2.7", "Bad protocol version identification '%s' from 192.0.2.7 port 1", "%s"} {
		add("sshd", sshdHead+l)
	}
	for _, l := range []string{"Nov 20 09:23:10 h newd[5]: %s", "Nov 20 09:23:10 h newd: %s", "2026-11-20 09:23:10 %s", "[%s", "%s", "<13>1 2026-11-20T09:23:10Z h a 1 - [%s]",
		`{"log":"%s","stream":"stdout","time":"2026-11-20T09:23:10Z"}`, `type=USER_LOGIN msg=audit(1373330717.000:4073): pid=1 uid=0 msg='op=login acct="%s" exe="/usr/sbin/sshd" addr=192.0.2.7 res=failed'`} {
		add("bare", l)
	}
	return out
}

// BenchmarkStuffed shows that no line costs more than its length, whatever is
// in it: the MB/s of 64K are to be those of 4K.
func BenchmarkStuffed(b *testing.B) {
	lines := stuffedLines()
	for _, n := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(n>>10, "K"), func(b *testing.B) {
			texts := make([]source.Line, len(lines))
			total := 0
			for i := range lines {
				texts[i].Text = lines[i].line(n)
				total += len(texts[i].Text)
			}
			p := daemonParser(b, "")
			var ev Event
			b.SetBytes(int64(total))
			for b.Loop() {
				for i := range texts {
					p.Parse(&texts[i], captured, &ev)
					p.Reset()
				}
			}
		})
	}
}
