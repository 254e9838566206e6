package source

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var stateNames = [numFileStates]string{"-", "newest", "replaced", "drained", "late", "archive", "closed"}

var eventNames = [numFileEvents]string{
	gaveLines: "lines", atItsEnd: "end", lostItsName: "loses name", gotItsName: "gets name", startedAgain: "restarts",
	wasCompressed: "compressed", wasReadUp: "its end", couldNotRead: "error", stayedQuiet: "quiet",
	wasTooMany: "too many", wasDropped: "dropped",
}

func (s fileState) String() string { return stateNames[s] }
func (e fileEvent) String() string { return eventNames[e] }

// onlyTable fails the test at a transition that is not in the table.
func onlyTable(t testing.TB) func(fileState, fileEvent, fileState) {
	return func(from fileState, ev fileEvent, to fileState) {
		if to == 0 {
			t.Errorf("a file that is %v: %v, which cannot happen", from, ev)
		}
	}
}

// life is a log that is rotated by hand. at brings its oldest file, which it
// leaves open for writing, into a state.
type life struct {
	*stepped
	path string
	w    *os.File
}

func startLife(t *testing.T) *life {
	path := filepath.Join(t.TempDir(), "app.log")
	l := &life{path: path, w: openAppend(t, path)}
	l.stepped = startStepped(t, Options{}, Spec{File: path})
	l.write("first\n")
	l.step()
	return l
}

func (l *life) f() *follower     { return l.list[0] }
func (l *life) oldest() *segment { return l.f().chain[0] }

func (l *life) write(text string) {
	_, err := l.w.WriteString(text)
	must(l.t, err)
}

// rotate gives the name to a new file, n is that of the old one.
func (l *life) rotate(n int) {
	must(l.t, os.Rename(l.path, fmt.Sprintf("%s.%d", l.path, n)))
	writeFile(l.t, l.path, "")
}

func (l *life) back() {
	must(l.t, os.Remove(l.path))
	must(l.t, os.Rename(l.path+".1", l.path))
}

func (l *life) at(state fileState) *life {
	switch state {
	case replaced: // and not read since
		l.rotate(1)
		l.look(l.f())
	case drained:
		l.rotate(1)
		l.step()
	case late:
		l.at(drained).write("late\n")
		l.step()
	case archive:
		text := text(manyLines(10_000))
		pack(l.t, "gzip", l.path+".1.gz", text)
		l.insert(l.f(), 0, func() { l.addMissed(l.f(), l.f().current(), time.Time{}) })
	}
	if l.oldest().state != state {
		l.t.Fatalf("the file is %v, want %v", l.oldest().state, state)
	}
	return l
}

// happen lets the event happen to the oldest file.
var happen = map[fileEvent]func(l *life){
	gaveLines: func(l *life) { l.write("more\n"); l.step() },
	atItsEnd:  func(l *life) { l.step() },
	lostItsName: func(l *life) {
		l.rotate(1)
		l.step()
	},
	gotItsName: func(l *life) { l.back(); l.look(l.f()) },
	startedAgain: func(l *life) {
		must(l.t, l.w.Truncate(0))
		l.write("x\n")
		l.step()
	},
	wasCompressed: func(l *life) {
		l.rotate(1) // an empty file, which looks like text when it is opened
		must(l.t, os.Truncate(l.path+".1", 0))
		s, err := openRotated(l.path+".1", l.pool, l.f().maxLine)
		must(l.t, err)
		l.drop(l.f())
		l.add(l.f(), s)
		pack(l.t, "gzip", l.path+".1", "one\n")
		l.read(l.t.Context(), l.f())
	},
	wasReadUp: func(l *life) { l.step() },
	couldNotRead: func(l *life) {
		if s := l.oldest(); s.packed == nil {
			s.h.Close()
			s.h = -1
		} else {
			must(l.t, os.Truncate(s.path, s.size/2))
		}
		l.step()
	},
	stayedQuiet: func(l *life) {
		must(l.t, os.Remove(l.path))
		l.opts.Quiet = 1
		l.step()
	},
	wasTooMany: func(l *life) {
		for n := range maxOlder + 1 {
			l.rotate(n + 2)
			l.step()
		}
	},
	wasDropped: func(l *life) { l.closeAll() },
}

// The table is the specification: each of its entries is gone through with real
// files, and nothing else happens on the way.
func TestEveryTransitionOfAFile(t *testing.T) {
	for state := newest; state < closed; state++ {
		for ev := range fileEvent(numFileEvents) {
			want := fileSteps[state][ev]
			if want == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%v %v", state, ev), func(t *testing.T) {
				l := startLife(t).at(state)
				var seen []string
				check := onlyTable(t)
				l.opts.trace = func(from fileState, ev fileEvent, to fileState) {
					check(from, ev, to)
					seen = append(seen, fmt.Sprintf("%v %v %v", from, ev, to))
				}
				happen[ev](l)
				for _, s := range seen {
					if s == fmt.Sprintf("%v %v %v", state, ev, want) {
						return
					}
				}
				t.Errorf("saw %q, want one that leads to %v", seen, want)
			})
		}
	}
}
