package feed

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"sync"
	"time"

	"stoplog/internal/export"
)

// key is one list that can be asked for.
type key struct {
	format string
	cap    int    // 0: the format's
	ports  string // an export.Guard as text; "": the format's
}

// text is an answer. Its bytes are shared and never changed.
type text struct {
	etag    string
	mime    string
	left    int
	limited int
	gzip    bool
	body    []byte
}

// maxLists bounds how many lists are kept written.
const maxLists = 8

// cache keeps lists that were asked for lately until they change. Lists are
// made one at a time, so that many who ask at once cost the memory of one.
type cache struct {
	view View

	mu    sync.Mutex // guards lists
	lists []*list    // the one used last first
}

// list is a written list.
type list struct {
	key
	version uint64
	made    time.Time
	ends    time.Time // the text holds until then; zero: until the version changes
	plain   text
	zipped  text // without a body until somebody wants it
}

// get returns the text of a list as it is now. It blocks while another is made.
func (c *cache) get(k key, zip bool, now time.Time) (text, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := c.fresh(k, now)
	if err != nil || !zip {
		if err != nil {
			return text{}, err
		}
		return l.plain, nil
	}
	if l.zipped.body == nil {
		l.zipped = l.plain
		l.zipped.gzip = true
		if l.zipped.body, err = compress(l.plain.body); err != nil {
			return text{}, err
		}
	}
	return l.zipped, nil
}

// fresh finds or makes the list, and puts it first.
func (c *cache) fresh(k key, now time.Time) (*list, error) {
	es, version := c.view.Entries()
	at := len(c.lists)
	for i, l := range c.lists {
		if l.key == k {
			at = i
		}
	}
	if at == len(c.lists) {
		c.lists = append(c.lists, &list{})
	}
	l := c.lists[at]
	if l.key != k || l.version != version || !now.Before(l.ends) && !l.ends.IsZero() {
		made, err := write(c.view, k, es, version, now)
		if err != nil {
			c.lists = append(c.lists[:at], c.lists[at+1:]...)
			return nil, err
		}
		l = made
	}
	copy(c.lists[1:at+1], c.lists[:at])
	c.lists[0] = l
	if len(c.lists) > maxLists {
		c.lists[maxLists] = nil
		c.lists = c.lists[:maxLists]
	}
	return l, nil
}

func write(v View, k key, es []export.Entry, version uint64, now time.Time) (*list, error) {
	f, err := export.Find(k.format)
	if err != nil {
		return nil, err
	}
	var g export.Guard
	if k.ports != "" {
		if g, err = export.ParseGuard(k.ports); err != nil {
			return nil, err
		}
	}
	l, err := export.Build(k.format, es, export.Options{Cap: k.cap, Allow: v.AllowList(), Now: now, Guard: g})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := l.Write(&b); err != nil {
		return nil, err
	}
	made := &list{key: k, version: version, made: now, ends: l.Ends}
	if f.Counts {
		made.ends = now.Truncate(time.Second).Add(time.Second)
	}
	// Weak: seconds that count down differ while the tag does not, and so do
	// the bytes when they are compressed.
	made.plain = text{etag: fmt.Sprintf(`W/"%016x"`, l.Tag()), mime: f.MIME, left: l.Left, limited: l.Limited, body: b.Bytes()}
	return made, nil
}

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
