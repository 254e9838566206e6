package bucket

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEvidenceAgainstModel adds random lines of a few keys and wants, of each,
// the latest ones in order: all of them while the ring has not come around.
func TestEvidenceAgainstModel(t *testing.T) {
	for i := range rounds(60) {
		r := rand.New(rand.NewPCG(uint64(i), 45))
		e := NewEvidence(1<<16, r.Uint64())
		model, total := map[string][]Line{}, 0
		for step := range 3000 {
			k, scope := v4Key(r.Uint32N(10)), r.Uint32N(2)
			name := fmt.Sprint(k, scope)
			text := strings.Repeat("x", r.IntN(120)) + fmt.Sprint(step)
			e.Add(k, scope, int64(step), []byte(text))
			total += headBytes + len(text) + 8
			model[name] = append(model[name], Line{int64(step), text})
			held := 1 + r.IntN(12)
			got, partial := e.Lines(k, scope, 10, held)
			want := model[name][len(model[name])-min(len(model[name]), held, 10):]
			if total > 1<<15 { // half way round: the oldest may be gone
				want = want[len(want)-min(len(got), len(want)):]
			}
			if len(got) == 0 || fmt.Sprint(got) != fmt.Sprint(want) || partial != (len(got) < held) {
				t.Fatalf("seed %d step %d: got %v, %v, want %v", i, step, got, partial, want)
			}
			if r.IntN(1000) == 0 {
				again := NewEvidence(1<<16, r.Uint64())
				if rest, err := again.Restore(append(e.AppendBinary(nil), 'x')); err != nil || string(rest) != "x" {
					t.Fatalf("restoring: got %q, %v", rest, err)
				}
				e = again
			}
		}
	}
}

func TestEvidenceBounds(t *testing.T) {
	e := NewEvidence(1, 1)
	if got := e.Bytes(); got != 1<<16+1<<13 {
		t.Errorf("the smallest: got %d bytes", got)
	}
	k := v4Key(1)
	if lines, partial := e.Lines(k, 0, 10, 3); lines != nil || !partial {
		t.Errorf("unknown key: got %v, %v, want none, partial", lines, partial)
	}
	e.Add(k, 0, 1, []byte(strings.Repeat("y", 5000)))
	if lines, partial := e.Lines(k, 0, 10, 1); len(lines) != 1 || len(lines[0].Text) != MaxLine || partial {
		t.Errorf("a long line: got %d lines, %v", len(lines), partial)
	}
	for range 3000 {
		e.Add(v4Key(2), 0, 2, []byte("another's line that fills the ring"))
	}
	if lines, partial := e.Lines(k, 0, 10, 1); lines != nil || !partial {
		t.Errorf("overwritten: got %v, %v, want none, partial", lines, partial)
	}
	e.Add(Key{}, 0, 3, []byte("of nobody"))
	if lines, _ := e.Lines(Key{}, 0, 10, 1); lines != nil {
		t.Errorf("the zero key: got %v, want none", lines)
	}
}

func FuzzRestoreEvidence(f *testing.F) {
	e := NewEvidence(1<<16, 1)
	f.Add(e.AppendBinary(nil))
	for i := range uint32(9) {
		e.Add(v4Key(i%2), i%3, int64(i), []byte("line"))
	}
	f.Add(e.AppendBinary(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := NewEvidence(1<<16, 1)
		e.Restore(b)
		e.Add(v4Key(1), 0, 1, []byte("mine"))
		if lines, _ := e.Lines(v4Key(1), 0, 1, 1); len(lines) != 1 || lines[0].Text != "mine" {
			t.Errorf("got %v, want my line", lines)
		}
	})
}

func BenchmarkEvidenceAdd(b *testing.B) {
	e := NewEvidence(0, 1)
	line := []byte("Nov 20 09:53:01 host sshd[4711]: Failed password for invalid user admin from 192.0.2.77 port 40022 ssh2")
	b.ReportAllocs()
	i := uint32(0)
	for b.Loop() {
		i++
		e.Add(v4Key(i&0xffff), 0, int64(i), line)
	}
}
