package fleet

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A Carrier brings entries from node to node. Its methods wait for the network
// until ctx ends, and are safe for concurrent use. Nothing that it returns is
// trusted.
type Carrier interface {
	// Clock returns how far the engine's clock is ahead of now, this machine's.
	Clock(ctx context.Context, now func() time.Time) (time.Duration, error)
	// Announce publishes a node's certificate. News makes the other nodes read the
	// list of members at once.
	Announce(ctx context.Context, name string, cert []byte, news bool) error
	// Members returns the certificates and the revocations, by name.
	Members(ctx context.Context) (certs, revoked map[string][]byte, err error)
	// Send appends an entry to the node's stream and returns its place.
	Send(ctx context.Context, node string, entry []byte) (place string, err error)
	// Trim drops what is older than place from the node's stream.
	Trim(ctx context.Context, node, place string) error
	// Ends returns the places of the first and the last entry in the node's stream, ""
	// if it is empty.
	Ends(ctx context.Context, node string) (first, last string, err error)
	// Receive waits for entries after the places and passes them to f; then it
	// returns, and also after that wait without any. It updates after. News says that
	// a node announced itself.
	Receive(ctx context.Context, after map[string]string, wait time.Duration, f func(Received)) (news bool, err error)
	// Close ends all connections.
	Close()
}

// Received is an entry as it arrived.
type Received struct {
	Node  string // whose stream it was in
	At    int64  // when the engine got it, Unix nanoseconds, or what a malicious node made of that
	Entry []byte
}

// Valkey carries entries by streams of Valkey or Redis (7 or later), with the
// keys
//
//	stoplog:{FLEET}:nodes      hash: name → certificate
//	stoplog:{FLEET}:revoked    hash: name → revocation
//	stoplog:{FLEET}:s:NAME     stream of a node's entries, in the field "e"
//	stoplog:{FLEET}:news       stream without content: the list of nodes changed
//
// The braces put all keys of a fleet into one slot of a cluster.
type Valkey struct {
	client valkey.Client
	fleet  ID
	// room is how many bytes may still arrive before the next Receive: whoever may
	// write to a stream chooses the size of what is in it.
	room *atomic.Int64
	// large are the nodes whose streams are left out, as measured at sized.
	large map[string]bool
	sized time.Time
}

const (
	// maxArrival bounds what the engine may send between two calls of Receive.
	maxArrival = 64 << 20
	// maxSize is the size from which on a node's stream is left out.
	maxSize = 256 << 20
	// sizeEvery is how often streams are measured.
	sizeEvery = time.Minute
)

var errArrival = errors.New("the engine sends more than 64 MB at once")

// boundedConn is a connection that fails once more arrived than there is room for.
type boundedConn struct {
	net.Conn
	room *atomic.Int64
}

func (c boundedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.room.Add(-int64(n)) < 0 && err == nil {
		err = errArrival
	}
	return n, err
}

const (
	// answerIn is how long the engine may take for an answer.
	answerIn = 5 * time.Second
	// blockFor is how long a read waits for entries at most.
	blockFor = 10 * time.Second
	// maxStream bounds a stream whatever is appended to it.
	maxStream = 20_000
	// streamLives is how long the stream of a node that is gone stays.
	streamLives = 31 * 24 * time.Hour
	// maxNodes bounds the members that are read.
	maxNodes = 2000
)

// Dial connects to the engine at u: redis:// or valkey://, rediss:// or valkeys://
// for TLS; the path is the database, ?sentinel=NAME makes the hosts (separated by
// commas) Sentinels of that name. ca, if not empty, is a PEM file to verify the
// engine by. It waits for a connection.
func Dial(u string, ca string, fleet ID) (*Valkey, error) {
	o, err := options(u, ca)
	if err != nil {
		return nil, err
	}
	room := new(atomic.Int64)
	room.Store(maxArrival)
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (c net.Conn, err error) {
		if t != nil {
			c, err = (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
		} else {
			c, err = d.DialContext(ctx, "tcp", addr)
		}
		if err != nil {
			return nil, err
		}
		return boundedConn{c, room}, nil
	}
	c, err := valkey.NewClient(o)
	if err != nil {
		return nil, EngineError(err, u)
	}
	return &Valkey{client: c, fleet: fleet, room: room}, nil
}

// CheckURL returns an error if u cannot be the address of an engine.
func CheckURL(u string) error {
	_, err := options(u, "")
	return err
}

func options(raw, ca string) (o valkey.ClientOption, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return o, errors.New("the engine's URL cannot be read") // it may hold a password
	}
	secure := u.Scheme == "rediss" || u.Scheme == "valkeys"
	if !secure && u.Scheme != "redis" && u.Scheme != "valkey" {
		return o, fmt.Errorf("%q is not the URL of an engine: rediss://USER:PASSWORD@HOST:6379", u.Redacted())
	}
	if u.Host == "" {
		return o, errors.New("the engine's URL names no host")
	}
	for _, h := range strings.Split(u.Host, ",") {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), "6379")
		}
		o.InitAddress = append(o.InitAddress, h)
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	o.ClientName, o.ClientSetInfo = "stoplog", valkey.DisableClientSetInfo
	o.DisableCache = true
	o.DisableRetry = true // the node decides when to try again
	o.Dialer = net.Dialer{Timeout: answerIn, KeepAlive: answerIn}
	o.ConnWriteTimeout = blockFor + answerIn
	o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 64<<10, 64<<10, 8
	o.PipelineMultiplex = -1
	o.BlockingPoolSize = 2
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.SelectDB, err = strconv.Atoi(db); err != nil || o.SelectDB < 0 {
			return o, fmt.Errorf("%q is not the number of a database", db)
		}
	}
	if master := u.Query().Get("sentinel"); master != "" {
		o.Sentinel.MasterSet = master
	}
	if secure {
		// The certificate must name the host that is dialled, of Sentinel too.
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if ca != "" {
			o.TLSConfig.RootCAs = x509.NewCertPool()
			if !o.TLSConfig.RootCAs.AppendCertsFromPEM([]byte(ca)) {
				return o, errors.New("the engine's CA is not in PEM format")
			}
		}
		o.Sentinel.TLSConfig = o.TLSConfig
	}
	return o, nil
}

// EngineError says in one line what is wrong with the engine, without secrets.
func EngineError(err error, raw string) error {
	host := "the engine"
	if u, e := url.Parse(raw); e == nil {
		host = u.Host
	}
	msg := err.Error()
	switch {
	case strings.Contains(msg, "WRONGPASS"), strings.Contains(msg, "NOAUTH"):
		return fmt.Errorf("%s refuses the user or password", host)
	case strings.Contains(msg, "NOPERM"):
		return fmt.Errorf("%s: the user lacks a permission: %s", host, firstLine(msg))
	case strings.Contains(msg, "unknown command"):
		return fmt.Errorf("%s is not Redis or Valkey 7 or later: %s", host, firstLine(msg))
	case strings.Contains(msg, "OOM command not allowed"):
		return fmt.Errorf("%s has no memory left", host)
	case strings.Contains(msg, "READONLY"):
		return fmt.Errorf("%s is a read-only replica", host)
	}
	return fmt.Errorf("%s: %s", host, firstLine(msg))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(s[:min(len(s), 200)])
}

func (v *Valkey) key(rest string) string { return "stoplog:{" + v.fleet.String() + "}:" + rest }

// Close ends all connections.
func (v *Valkey) Close() { v.client.Close() }

// Clock measures the engine's clock, by half of the way there and back.
func (v *Valkey) Clock(ctx context.Context, now func() time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	before := now()
	a, err := v.client.Do(ctx, v.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		return 0, err
	}
	if len(a) != 2 {
		return 0, errors.New("TIME: not two numbers")
	}
	way := now().Sub(before) / 2
	return time.Unix(a[0], a[1]*1000).Sub(before.Add(way)), nil
}

// Announce publishes a node's certificate.
func (v *Valkey) Announce(ctx context.Context, name string, cert []byte, news bool) error {
	return v.publish(ctx, "nodes", name, cert, news)
}

// Revoke publishes a revocation.
func (v *Valkey) Revoke(ctx context.Context, r Revocation) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return v.publish(ctx, "revoked", r.Name, b, true)
}

// Join publishes the certificate of a new member.
func (v *Valkey) Join(ctx context.Context, m *Member) error {
	return v.Announce(ctx, m.Cert.Name, certJSON(&m.Cert), true)
}

// Listed is a node in the list of a fleet.
type Listed struct {
	Name            string
	Joined, Revoked time.Time // zero: not
}

// List verifies certificates and revocations as Members returned them, and lists
// the nodes by name.
func List(fleet ID, admin ed25519.PublicKey, certs, revoked map[string][]byte) (out []Listed) {
	by, members := map[string]Listed{}, map[string]Certificate{}
	for name, b := range certs {
		var c Certificate
		if json.Unmarshal(b, &c) == nil && c.Name == name && c.Verify(fleet, admin) == nil {
			by[name], members[name] = Listed{Name: name, Joined: c.Joined}, c
		}
	}
	for name, b := range revoked {
		var r Revocation
		if json.Unmarshal(b, &r) != nil || r.Name != name || !r.Verify(fleet, admin) {
			continue
		}
		l := by[name]
		l.Name = name
		if c, ok := members[name]; !ok || r.ends(&c) {
			l.Revoked = r.At
		}
		by[name] = l
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[name])
	}
	return out
}

func (v *Valkey) publish(ctx context.Context, hash, name string, value []byte, news bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	err := v.client.Do(ctx, v.client.B().Hset().Key(v.key(hash)).FieldValue().FieldValue(name, valkey.BinaryString(value)).Build()).Error()
	if err != nil || !news {
		return err
	}
	err = v.client.Do(ctx, v.client.B().Xadd().Key(v.key("news")).Maxlen().Almost().Threshold("100").Id("*").FieldValue().FieldValue("n", "").Build()).Error()
	if _, refused := valkey.IsValkeyErr(err); refused {
		// A node used up the places. Without news the others read the list later.
		return nil
	}
	return err
}

// Members returns what nodes and the administrator published.
func (v *Valkey) Members(ctx context.Context) (certs, revoked map[string][]byte, err error) {
	if certs, err = v.hash(ctx, "nodes"); err == nil {
		revoked, err = v.hash(ctx, "revoked")
	}
	return certs, revoked, err
}

// hash reads a hash, in bounded steps.
func (v *Valkey) hash(ctx context.Context, name string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	out := map[string][]byte{}
	for cursor := uint64(0); ; {
		s, err := v.client.Do(ctx, v.client.B().Hscan().Key(v.key(name)).Cursor(cursor).Count(200).Build()).AsScanEntry()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(s.Elements) && len(out) < maxNodes; i += 2 {
			if len(s.Elements[i+1]) <= maxToken {
				out[s.Elements[i]] = []byte(s.Elements[i+1])
			}
		}
		if cursor = s.Cursor; cursor == 0 || len(out) >= maxNodes {
			return out, nil
		}
	}
}

// Send appends an entry.
func (v *Valkey) Send(ctx context.Context, node string, entry []byte) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	k := v.key("s:" + node)
	return v.client.Do(ctx, v.client.B().Xadd().Key(k).Maxlen().Almost().Threshold(strconv.Itoa(maxStream)).Id("*").FieldValue().FieldValue("e", valkey.BinaryString(entry)).Build()).ToString()
}

// Trim drops what is older than place, and prolongs the stream's life.
func (v *Valkey) Trim(ctx context.Context, node, place string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	k := v.key("s:" + node)
	for _, r := range v.client.DoMulti(ctx,
		v.client.B().Xtrim().Key(k).Minid().Almost().Threshold(place).Build(),
		v.client.B().Pexpire().Key(k).Milliseconds(streamLives.Milliseconds()).Build()) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Ends returns the places of a stream's first and last entry.
func (v *Valkey) Ends(ctx context.Context, node string) (first, last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	k := v.key("s:" + node)
	es, err := v.client.Do(ctx, v.client.B().Xrevrange().Key(k).End("+").Start("-").Count(1).Build()).AsXRange()
	if err != nil || len(es) == 0 {
		return "", "", err
	}
	last = es[0].ID
	m, err := v.client.Do(ctx, v.client.B().Xread().Count(1).Streams().Key(k).Id("0").Build()).AsXRead()
	if valkey.IsValkeyNil(err) || err == nil && len(m[k]) == 0 {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	return m[k][0].ID, last, nil
}

// later reports whether the place a in a stream is behind b.
func later(a, b string) bool {
	x, y := parsePlace(a), parsePlace(b)
	return x[0] > y[0] || x[0] == y[0] && x[1] > y[1]
}

func parsePlace(s string) (p [2]uint64) {
	ms, seq, _ := strings.Cut(s, "-")
	p[0], _ = strconv.ParseUint(ms, 10, 64)
	p[1], _ = strconv.ParseUint(seq, 10, 64)
	return p
}

// Receive reads what is new in streams, and waits for it, at most ten seconds.
func (v *Valkey) Receive(ctx context.Context, after map[string]string, wait time.Duration, f func(Received)) (news bool, err error) {
	v.room.Store(maxArrival)
	if err := v.measure(ctx, after); err != nil {
		return false, err
	}
	keys, ids := []string{v.key("news")}, []string{after[""]}
	names := map[string]string{keys[0]: ""}
	for n, id := range after {
		if n == "" || v.large[n] {
			continue
		}
		k := v.key("s:" + n)
		names[k] = n
		keys, ids = append(keys, k), append(ids, id)
	}
	if ids[0] == "" {
		ids[0] = "0"
	}
	wait = min(max(wait, time.Millisecond), blockFor)
	c, release := v.client.Dedicate()
	defer release()
	ctx, cancel := context.WithTimeout(ctx, blockFor+answerIn)
	defer cancel()
	// A read that waits ends with its connection only.
	defer context.AfterFunc(ctx, c.Close)()
	m, err := c.Do(ctx, c.B().Xread().Count(20).Block(wait.Milliseconds()).Streams().Key(keys...).Id(ids...).Build()).AsXRead()
	if valkey.IsValkeyNil(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for k, es := range m {
		for _, e := range es {
			after[names[k]] = e.ID
			if names[k] == "" {
				news = true
				continue
			}
			// Who may write to the stream chooses the place.
			at := int64(min(parsePlace(e.ID)[0], uint64(maxInstant/1e6)))
			f(Received{Node: names[k], At: at * 1e6, Entry: []byte(e.FieldValues["e"])})
		}
	}
	return news, nil
}

// measure finds streams that are too large to be a stoplog's, now and then.
func (v *Valkey) measure(ctx context.Context, after map[string]string) error {
	if time.Since(v.sized) < sizeEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	var names []string
	var cmds []valkey.Completed
	for n := range after {
		if n != "" {
			names = append(names, n)
			cmds = append(cmds, v.client.B().MemoryUsage().Key(v.key("s:"+n)).Build())
		}
	}
	large := map[string]bool{}
	for i, r := range v.client.DoMulti(ctx, cmds...) {
		size, err := r.AsInt64()
		if err != nil && !valkey.IsValkeyNil(err) {
			return err
		}
		if size > maxSize {
			large[names[i]] = true
		}
	}
	v.large, v.sized = large, time.Now()
	return nil
}

// nodeCommands are the commands that a node's user may use.
const nodeCommands = "-@all +hello +auth +ping +client|setname +select +time +hset +hscan +xadd +xread +memory|usage +xrevrange +xtrim +pexpire +cluster|slots +cluster|shards +command +info +role"

// ACL is the rule of a node's user, as ACL SETUSER and users.acl take it: the node
// reads everything of its fleet, and writes the list of nodes and its own stream.
func ACL(fleet ID, node, password string) (user string, rules []string) {
	k := "stoplog:{" + fleet.String() + "}:"
	rules = []string{"reset", "on", ">" + password, "resetchannels", "%R~" + k + "*", "%RW~" + k + "nodes", "%RW~" + k + "news", "%RW~" + k + "s:" + node}
	return UserName(fleet, node), append(rules, strings.Fields(nodeCommands)...)
}

// UserName is the engine's user of a node.
func UserName(fleet ID, node string) string { return "stoplog-" + fleet.String()[:8] + "-" + node }

// SetUser makes the engine's user of a node.
func (v *Valkey) SetUser(ctx context.Context, user string, rules []string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return v.client.Do(ctx, v.client.B().AclSetuser().Username(user).Rule(rules...).Build()).Error()
}

// DropUser removes the engine's user of a node.
func (v *Valkey) DropUser(ctx context.Context, user string) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return v.client.Do(ctx, v.client.B().AclDeluser().Username(user).Build()).Error()
}

// certJSON encodes a certificate for Announce.
func certJSON(c *Certificate) []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings, bytes and times of a bounded range
	}
	return b
}
