// Package fleet shares counts, and orders given by hand, between machines that
// run stoplog. Each node signs what it says and is the only writer of it;
// receivers verify every signature themselves, so the engine that carries the
// entries (Redis, Valkey) is trusted with nothing.
//
// # Trust
//
// The administrator key, made by Create, signs an invitation for each node. The
// invitation has a key of its own, which signs the node's key when the node
// joins; the two signatures are the node's certificate. Whoever has the
// administrator's public key can verify it without asking anyone.
//
// # Time
//
// Entries carry the engine's time: a sender subtracts the offset of its own
// clock from what it says, a receiver adds its own, so clocks that are an hour
// off still agree.
package fleet

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// ID names a fleet.
type ID [16]byte

// String is the ID in hexadecimal, as it stands in the engine's keys.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText and UnmarshalText make an ID readable in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(b []byte) error {
	if n, err := hex.Decode(id[:], b); err != nil || n != len(id) || hex.DecodedLen(len(b)) != len(id) {
		return errors.New("not a fleet ID")
	}
	return nil
}

// nodeName is what a node may be called: it stands in keys of the engine, in
// user names and in messages.
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,46}[a-z0-9])?$`)

// CheckName returns an error if name cannot be a node's.
func CheckName(name string) error {
	if !nodeName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a node: 1 to 48 of a-z, 0-9, dot, dash and underscore", name)
	}
	return nil
}

// Admin is the fleet's administrator: who has it can invite and revoke nodes.
type Admin struct {
	Fleet ID     `json:"fleet"`
	Seed  []byte `json:"seed"` // of the Ed25519 key
	URL   string `json:"url"`  // of the engine, with the administrator's user there
	CA    string `json:"ca,omitempty"`
}

// Create makes a fleet with a new administrator key.
func Create(url string) (*Admin, error) {
	a := &Admin{Seed: make([]byte, ed25519.SeedSize), URL: url}
	rand.Read(a.Fleet[:]) // never fails
	rand.Read(a.Seed)
	return a, nil
}

func (a *Admin) key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(a.Seed) }

// Public is the administrator's public key.
func (a *Admin) Public() ed25519.PublicKey { return a.key().Public().(ed25519.PublicKey) }

// Check returns an error if a file of an administrator cannot be one.
func (a *Admin) Check() error {
	if len(a.Seed) != ed25519.SeedSize || a.Fleet == (ID{}) || a.URL == "" {
		return errors.New("not the file of a fleet's administrator")
	}
	return nil
}

// Certificate proves that a key is that of a node of the fleet.
type Certificate struct {
	Name    string    `json:"name"`
	Invited time.Time `json:"invited"`
	Expires time.Time `json:"expires"` // of the invitation: Joined is before it
	Invite  []byte    `json:"invite"`  // public key of the invitation
	ByAdmin []byte    `json:"by_admin"`
	Joined  time.Time `json:"joined"` // as the node says
	Key     []byte    `json:"key"`    // public key of the node
	ByInv   []byte    `json:"by_invitation"`
}

// Revocation ends a node's membership. What the node says later is ignored, and
// so is every key of an invitation to the name that was made before At.
type Revocation struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	Sig  []byte    `json:"sig"`
}

// Token is what a node needs to join. It contains secrets.
type Token struct {
	Fleet   ID        `json:"fleet"`
	Admin   []byte    `json:"admin"` // public key
	Name    string    `json:"name"`
	URL     string    `json:"url"` // of the engine, with the node's own user
	CA      string    `json:"ca,omitempty"`
	Seed    []byte    `json:"seed"` // of the invitation's key
	Invited time.Time `json:"invited"`
	Expires time.Time `json:"expires"`
	Sig     []byte    `json:"sig"`
}

// sum is what is signed: a purpose, so that no signature serves another, and
// the parts, each with its length.
func sum(purpose string, fleet ID, parts ...[]byte) []byte {
	h := sha256.New()
	h.Write([]byte("stoplog fleet " + purpose))
	h.Write(fleet[:])
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write(p)
	}
	return h.Sum(nil)
}

func instant(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())) }

// Invite makes a token for the node of that name, valid until expires. url is
// the engine's, with the node's own user and password.
func (a *Admin) Invite(name, url string, expires time.Time) (*Token, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	t := &Token{Fleet: a.Fleet, Admin: a.Public(), Name: name, URL: url, CA: a.CA, Seed: make([]byte, ed25519.SeedSize), Invited: time.Now().UTC(), Expires: expires.UTC().Truncate(time.Second)}
	rand.Read(t.Seed)
	pub := ed25519.NewKeyFromSeed(t.Seed).Public().(ed25519.PublicKey)
	t.Sig = ed25519.Sign(a.key(), sum("invite", a.Fleet, []byte(name), instant(t.Invited), instant(t.Expires), pub))
	return t, nil
}

// Revoke ends the membership of the node of that name.
func (a *Admin) Revoke(name string, now time.Time) Revocation {
	r := Revocation{Name: name, At: now.UTC()}
	r.Sig = ed25519.Sign(a.key(), sum("revoke", a.Fleet, []byte(name), instant(r.At)))
	return r
}

// tokenPrefix begins each token, so that a pasted text is recognised.
const tokenPrefix = "stoplog-fleet-"

// String writes a token in one word.
func (t *Token) String() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // only strings, bytes and a time
	}
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// maxToken bounds a token's length.
const maxToken = 16 << 10

// ParseToken reads what String wrote and verifies the invitation in it.
func ParseToken(s string) (*Token, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	if !ok || len(rest) > maxToken {
		return nil, errors.New("not a fleet token: it begins with " + tokenPrefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(rest)
	if err != nil {
		return nil, errors.New("the fleet token is damaged or incomplete")
	}
	t := &Token{}
	if json.Unmarshal(b, t) != nil || len(t.Seed) != ed25519.SeedSize || len(t.Admin) != ed25519.PublicKeySize || CheckName(t.Name) != nil {
		return nil, errors.New("the fleet token is damaged or incomplete")
	}
	pub := ed25519.NewKeyFromSeed(t.Seed).Public().(ed25519.PublicKey)
	if !ed25519.Verify(t.Admin, sum("invite", t.Fleet, []byte(t.Name), instant(t.Invited), instant(t.Expires), pub), t.Sig) {
		return nil, errors.New("the fleet token is not signed by the fleet's administrator")
	}
	return t, nil
}

// Member is what a node keeps of its fleet: its own key, and how to verify the
// others'. It contains secrets.
type Member struct {
	Fleet ID          `json:"fleet"`
	Admin []byte      `json:"admin"`
	URL   string      `json:"url"`
	CA    string      `json:"ca,omitempty"`
	Seed  []byte      `json:"seed"` // of the node's key
	Cert  Certificate `json:"certificate"`
	// Incarnation grows with each start: see Version.
	Incarnation uint64 `json:"incarnation"`
}

// Join makes the node's key and certificate.
func (t *Token) Join(now time.Time) (*Member, error) {
	if now.After(t.Expires) {
		return nil, fmt.Errorf("the fleet token expired at %s: ask for a new one", t.Expires.Format(time.RFC3339))
	}
	m := &Member{Fleet: t.Fleet, Admin: t.Admin, URL: t.URL, CA: t.CA, Seed: make([]byte, ed25519.SeedSize)}
	rand.Read(m.Seed)
	inv := ed25519.NewKeyFromSeed(t.Seed)
	c := Certificate{Name: t.Name, Invited: t.Invited, Expires: t.Expires, Invite: inv.Public().(ed25519.PublicKey), ByAdmin: t.Sig,
		Joined: now.UTC().Truncate(time.Second), Key: ed25519.NewKeyFromSeed(m.Seed).Public().(ed25519.PublicKey)}
	c.ByInv = ed25519.Sign(inv, sum("node", t.Fleet, []byte(c.Name), instant(c.Joined), c.Key))
	m.Cert = c
	return m, nil
}

// Check returns an error if a file of a member cannot be one.
func (m *Member) Check() error {
	if len(m.Seed) != ed25519.SeedSize || len(m.Admin) != ed25519.PublicKeySize || m.URL == "" {
		return errors.New("not the file of a node of a fleet")
	}
	return m.Cert.Verify(m.Fleet, m.Admin)
}

// Verify returns an error unless the certificate is of the fleet whose
// administrator has that public key.
func (c *Certificate) Verify(fleet ID, admin ed25519.PublicKey) error {
	switch {
	case CheckName(c.Name) != nil || len(c.Invite) != ed25519.PublicKeySize || len(c.Key) != ed25519.PublicKeySize:
		return errors.New("the certificate is damaged")
	case !ed25519.Verify(admin, sum("invite", fleet, []byte(c.Name), instant(c.Invited), instant(c.Expires), c.Invite), c.ByAdmin):
		return fmt.Errorf("node %s was not invited to this fleet", c.Name)
	case !ed25519.Verify(c.Invite, sum("node", fleet, []byte(c.Name), instant(c.Joined), c.Key), c.ByInv):
		return fmt.Errorf("the key of node %s is not signed by its invitation", c.Name)
	case c.Joined.After(c.Expires):
		return fmt.Errorf("node %s joined after its invitation had expired", c.Name)
	}
	return nil
}

// Verify reports whether the revocation is the administrator's.
func (r *Revocation) Verify(fleet ID, admin ed25519.PublicKey) bool {
	return ed25519.Verify(admin, sum("revoke", fleet, []byte(r.Name), instant(r.At)), r.Sig)
}

// ends reports whether the revocation ends the membership of c. The node chooses
// when it says that it joined, up to the end of its invitation.
func (r *Revocation) ends(c *Certificate) bool { return r.Name == c.Name && !c.Invited.After(r.At) }

// replaces reports whether c comes after old: by a later invitation, or by the same
// later.
func (c *Certificate) replaces(old *Certificate) bool {
	return cmp.Or(old.Invited.Compare(c.Invited), old.Joined.Compare(c.Joined)) < 0
}
