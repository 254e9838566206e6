package daemon

import (
	"cmp"
	"fmt"
	"time"
)

// feud is how often others changed the wall lately. A program that does so
// without end, such as another stoplog of the same name, must not make us
// restore without pause: each would undo the other's work a hundred times a
// second. Nor may the pause be long: the blocks are gone meanwhile.
type feud struct {
	last  time.Time // when others' damage was last repaired
	times int       // repairs, none of them long after the one before
	bears int       // repairs that are not waited with; 0: patient
}

const (
	patient = 3           // repairs without a pause, unless the keeper is told otherwise
	truce   = minBackoff  // the pause before each of the others
	peace   = time.Minute // without a repair: the feud is over
)

// again counts a repair and tells how long to wait with it.
func (f *feud) again(now time.Time) (wait time.Duration) {
	if now.Sub(f.last) > peace {
		f.times = 0
	}
	f.last = now
	bears := cmp.Or(f.bears, patient)
	if f.times++; f.times <= bears {
		return 0
	}
	return truce
}

// trouble is for status, while it goes on.
func (f *feud) trouble(now time.Time) string {
	if f.times <= patient || now.Sub(f.last) > peace {
		return ""
	}
	return fmt.Sprintf("other programs keep removing stoplog's firewall rules, %d times so far: a firewall manager that reloads (firewalld, ufw, docker), or a second stoplog with the same --name", f.times)
}
