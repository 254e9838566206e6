package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"stoplog/internal/atomicfile"
	"stoplog/internal/httpd"
)

// Bounds of sessions.
const (
	maxSessions = 100
	maxIdle     = 2 * time.Hour
	maxAge      = 12 * time.Hour
	// saveSeen is how often the use of a session is written: a session that
	// is in use may look this much older after a crash.
	saveSeen = time.Minute
	// maxSessionFile bounds what is read back; a hundred sessions take 40 kB.
	maxSessionFile = 256 << 10
)

// session is one login. Its fields below mu are guarded by the store's lock.
type session struct {
	token httpd.Token
	csrf  string
	made  time.Time

	seen  time.Time
	saved time.Time // the value of seen that is in the file
	flash notice
	undo  undo // of the last order
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.seen) > maxIdle || now.Sub(s.made) > maxAge || s.made.After(now.Add(saveSeen))
}

// notice is what the next page says of the last order.
type notice struct {
	Text string
	Bad  bool
	Undo string // the id of its undo, "" for none
}

type sessionID = [sha256.Size]byte

// sessions are the valid logins, by the hash of their id: neither memory nor
// the file holds a cookie. Logins survive a restart in the file; without a
// file they are in memory alone.
type sessions struct {
	file string

	mu sync.Mutex
	by map[sessionID]*session
}

// newSessions reads the sessions of a file, which need not exist; "" is none.
// With an error the store is empty and usable.
func newSessions(file string, now time.Time) (*sessions, error) {
	ss := &sessions{file: file, by: map[sessionID]*session{}}
	if file == "" {
		return ss, nil
	}
	if err := ss.load(now); err != nil {
		clear(ss.by)
		return ss, fmt.Errorf("reading the sessions in %s: %w", file, err)
	}
	return ss, nil
}

// random is 256 bits as text.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b)
}

// csrfOf is the token of a session's forms. It follows from the id, so that a
// form that was open during a restart is still valid and the file need not
// hold a secret.
func csrfOf(id string) string {
	h := sha256.Sum256([]byte("stoplog csrf\x00" + id))
	return base64.RawURLEncoding.EncodeToString(h[:])
}

// begin makes a session and returns its id; over the bound the one that was
// idle longest ends. With an error the session is valid until a restart.
func (ss *sessions) begin(t httpd.Token, now time.Time) (string, error) {
	id := random()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for k, s := range ss.by {
		if s.over(now) {
			delete(ss.by, k)
		}
	}
	for len(ss.by) >= maxSessions {
		var oldest sessionID
		first := true
		for k, s := range ss.by {
			if first || s.seen.Before(ss.by[oldest].seen) {
				oldest, first = k, false
			}
		}
		delete(ss.by, oldest)
	}
	ss.by[sha256.Sum256([]byte(id))] = &session{token: t, csrf: csrfOf(id), made: now, seen: now}
	return id, ss.save()
}

// find returns the session of that id, nil when there is none (any more). An
// error is of the file; the answer holds all the same.
func (ss *sessions) find(id string, now time.Time) (*session, error) {
	k := sha256.Sum256([]byte(id))
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.by[k]
	if s == nil {
		return nil, nil
	}
	if s.over(now) {
		delete(ss.by, k)
		return nil, ss.save()
	}
	s.seen = now
	if s.csrf == "" { // it was read back
		s.csrf = csrfOf(id)
	}
	if now.Sub(s.saved) < saveSeen {
		return s, nil
	}
	return s, ss.save()
}

func (ss *sessions) end(id string) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	k := sha256.Sum256([]byte(id))
	if ss.by[k] == nil {
		return nil
	}
	delete(ss.by, k)
	return ss.save()
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

// savedSession is a session in the file. The token is held by its hash, as in
// the file of tokens: a token that was removed ends its sessions there too.
type savedSession struct {
	ID    string    `json:"id"` // SHA-256 of the cookie, in hex
	Name  string    `json:"name"`
	Token string    `json:"token"` // its hash, in hex
	Added time.Time `json:"added"` // when the token was made
	Made  time.Time `json:"made"`
	Seen  time.Time `json:"seen"`
}

// save writes all sessions; the caller holds mu. After a failure it is tried
// again with the next change, at most once in saveSeen.
func (ss *sessions) save() error {
	if ss.file == "" {
		return nil
	}
	out := make([]savedSession, 0, len(ss.by))
	for k, s := range ss.by {
		s.saved = s.seen
		out = append(out, savedSession{hex.EncodeToString(k[:]), s.token.Name, hex.EncodeToString(s.token.Hash[:]), s.token.Made, s.made, s.seen})
	}
	slices.SortFunc(out, func(a, b savedSession) int { return a.Made.Compare(b.Made) })
	data, err := json.Marshal(out)
	if err == nil {
		err = atomicfile.Write(ss.file, append(data, '\n'), nil)
	}
	if err != nil {
		return fmt.Errorf("writing the sessions to %s: %w", ss.file, err)
	}
	return nil
}

func (ss *sessions) load(now time.Time) error {
	if _, err := atomicfile.Lstat(ss.file); err != nil {
		return err
	}
	f, err := os.Open(ss.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSessionFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxSessionFile {
		return fmt.Errorf("larger than %d bytes", maxSessionFile)
	}
	var in []savedSession
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for _, x := range in[:min(len(in), maxSessions)] {
		var k sessionID
		s := &session{token: httpd.Token{Name: x.Name, Made: x.Added}, made: x.Made, seen: x.Seen, saved: x.Seen}
		if !unhex(k[:], x.ID) || !unhex(s.token.Hash[:], x.Token) {
			return errors.New("a hash is malformed")
		}
		if s.seen.After(now) {
			s.seen = now // the clock was set back
		}
		if !s.over(now) {
			ss.by[k] = s
		}
	}
	return nil
}

func unhex(to []byte, s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && copy(to, b) == len(to) && len(b) == len(to)
}
