package reconcile

import (
	"cmp"
	"fmt"
	"time"
)

// backoff slows down repairs that never end. A program that removes our rules
// again and again, such as another stoplog of the same name, must not make us
// restore without a pause: each would undo the other's work a hundred times a
// second. The pause must not be long either: the blocks are gone meanwhile.
type backoff struct {
	last     time.Time // when others' changes were last repaired
	times    int       // repairs in a row
	patience int       // repairs without a pause; 0: defaultPatience
}

const (
	defaultPatience = 3
	pauseBetween    = minRetry    // before each repair after these
	calmAfter       = time.Minute // without a repair: the count starts again
)

// next counts a repair and returns how long to wait before it.
func (b *backoff) next(now time.Time) (wait time.Duration) {
	if now.Sub(b.last) > calmAfter {
		b.times = 0
	}
	b.last = now
	if b.times++; b.times <= cmp.Or(b.patience, defaultPatience) {
		return 0
	}
	return pauseBetween
}

// conflict is the sentence for status while repairs go on, otherwise "".
func (b *backoff) conflict(now time.Time) string {
	if b.times <= defaultPatience || now.Sub(b.last) > calmAfter {
		return ""
	}
	return fmt.Sprintf("other programs keep removing stoplog's firewall rules, %d times so far: a firewall manager that reloads (firewalld, ufw, docker), or a second stoplog with the same --name", b.times)
}
