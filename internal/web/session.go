package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"
)

// Bounds of sessions. They are kept in memory alone: none survives us.
const (
	maxSessions = 100
	maxIdle     = 2 * time.Hour
	maxAge      = 12 * time.Hour
)

// session is one login. Its fields below mu are guarded by the store's lock.
type session struct {
	token Token
	csrf  string
	made  time.Time

	seen  time.Time
	flash notice
}

// notice is what the next page says of the last order.
type notice struct {
	Text string
	Bad  bool
}

// sessions are the logins that hold, by the hash of their id: what can be
// read of memory is no cookie.
type sessions struct {
	mu sync.Mutex
	by map[[sha256.Size]byte]*session
}

func newSessions() *sessions { return &sessions{by: map[[sha256.Size]byte]*session{}} }

// random is 256 bits as text.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// begin makes a session and returns its id; over the bound the one that was
// idle longest ends.
func (ss *sessions) begin(t Token, now time.Time) string {
	id := random()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for len(ss.by) >= maxSessions {
		var oldest [sha256.Size]byte
		first := true
		for k, s := range ss.by {
			if first || s.seen.Before(ss.by[oldest].seen) {
				oldest, first = k, false
			}
		}
		delete(ss.by, oldest)
	}
	ss.by[sha256.Sum256([]byte(id))] = &session{token: t, csrf: random(), made: now, seen: now}
	return id
}

// find returns the session of that id, nil when there is none (any more).
func (ss *sessions) find(id string, now time.Time) *session {
	k := sha256.Sum256([]byte(id))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.by[k]
	if s == nil {
		return nil
	}
	if now.Sub(s.seen) > maxIdle || now.Sub(s.made) > maxAge {
		delete(ss.by, k)
		return nil
	}
	s.seen = now
	return s
}

func (ss *sessions) end(id string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.by, sha256.Sum256([]byte(id)))
}

// say keeps a notice for the session's next page.
func (ss *sessions) say(s *session, n notice) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.flash = n
}

// said gives the notice, once.
func (ss *sessions) said(s *session) notice {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	n := s.flash
	s.flash = notice{}
	return n
}
