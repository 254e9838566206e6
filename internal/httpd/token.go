package httpd

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"stoplog/internal/atomicfile"
)

// Bounds of a file of tokens.
const (
	secretBytes  = 32 // 256 bits: guessing is hopeless, so a plain hash is enough
	secretPrefix = "stoplog_"
	maxTokens    = 100
	maxTokenFile = 64 << 10
	maxName      = 32
)

// ErrTokenName: a token's name is not one.
var ErrTokenName = errors.New("a name has at most 32 letters a-z, digits, dots, dashes and underscores, and starts with a letter or digit")

// Token is one line of a file of tokens: name, SHA-256 of the secret in hex,
// and when it was made (RFC 3339), separated by blanks. Lines that begin with
// # are comments.
type Token struct {
	Name string
	Hash [sha256.Size]byte
	Made time.Time
}

// ReadTokens reads a file of tokens, at most 64 KiB of it. A file that does
// not exist holds none.
func ReadTokens(path string) ([]Token, error) {
	data, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the tokens: %w", err)
	}
	return parseTokens(data, path)
}

// secrets are what a listener takes: tokens of `stoplog token`, or the one
// secret on the first line of a file that somebody wrote by hand.
type secrets []Token

// readSecrets reads either kind of file. One that does not exist, or begins
// with an empty line, is an error; one of which all tokens were removed lets
// nobody in.
func readSecrets(path string) (secrets, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("reading the token: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	line = strings.TrimSpace(line)
	if _, ok := parseToken(strings.Fields(line)); ok || strings.HasPrefix(line, "# ") {
		return parseTokens(data, path)
	}
	if line == "" {
		return nil, fmt.Errorf("reading the token: the first line of %s is empty", path)
	}
	return secrets{{Hash: sha256.Sum256([]byte(line))}}, nil
}

// holds reports whether secret is one of them.
func (s secrets) holds(secret string) bool {
	_, ok := FindToken(s, secret)
	return ok
}

func readBounded(path string) ([]byte, error) {
	// Without O_NONBLOCK a named pipe would hold the caller up.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", path))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxTokenFile)
	}
	return data, nil
}

func parseTokens(data []byte, path string) (ts []Token, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxTokenFile+1)
	for n := 1; lines.Scan(); n++ {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		t, ok := parseToken(f)
		if !ok {
			return nil, fmt.Errorf("reading the tokens: %s:%d was not written by stoplog token", path, n)
		}
		ts = append(ts, t)
	}
	return ts, lines.Err()
}

func parseToken(f []string) (t Token, ok bool) {
	if len(f) != 3 || !tokenName(f[0]) {
		return t, false
	}
	h, err := hex.DecodeString(f[1])
	if err != nil || len(h) != len(t.Hash) {
		return t, false
	}
	t.Name = f[0]
	copy(t.Hash[:], h)
	t.Made, err = time.Parse(time.RFC3339, f[2])
	return t, err == nil
}

func tokenName(s string) bool {
	if s == "" || len(s) > maxName || strings.IndexByte("._-", s[0]) >= 0 {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c) {
			return false
		}
	}
	return true
}

// AddToken makes a token of that name and returns its secret, which is kept
// nowhere: the file gets its hash. The file is replaced as a whole, with mode
// 0600 and the owner of the file before it, or else of its folder.
func AddToken(path, name string, now time.Time) (secret string, err error) {
	if !tokenName(name) {
		return "", fmt.Errorf("%q: %w", name, ErrTokenName)
	}
	raw := make([]byte, secretBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
	err = changeTokens(path, func(ts []Token) ([]Token, error) {
		if slices.ContainsFunc(ts, func(t Token) bool { return t.Name == name }) {
			return nil, fmt.Errorf("token %s already exists; to replace it, remove it first", name)
		}
		if len(ts) >= maxTokens {
			return nil, fmt.Errorf("there are already %d tokens, the maximum", len(ts))
		}
		return append(ts, Token{name, sha256.Sum256([]byte(secret)), now.UTC()}), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// RemoveToken takes a token away and reports whether it was there. Sessions
// that began with it end with it.
func RemoveToken(path, name string) (was bool, err error) {
	err = changeTokens(path, func(ts []Token) ([]Token, error) {
		rest := slices.DeleteFunc(ts, func(t Token) bool { return t.Name == name })
		was = len(rest) < len(ts)
		return rest, nil
	})
	return was, err
}

// changeTokens reads, changes and replaces the file while no other does.
func changeTokens(path string, change func([]Token) ([]Token, error)) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing the tokens: %w", err)
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("writing the tokens: locking %s: %w", dir.Name(), err)
	}
	ts, err := ReadTokens(path)
	if err != nil {
		return err
	}
	if ts, err = change(ts); err != nil {
		return err
	}
	if err := replaceTokens(dir, path, ts); err != nil {
		return fmt.Errorf("writing the tokens: %w", err)
	}
	return nil
}

func replaceTokens(dir *os.File, path string, ts []Token) error {
	var b bytes.Buffer
	b.WriteString("# Tokens: name, SHA-256, creation time. Change this file with: stoplog token\n")
	for _, t := range ts {
		fmt.Fprintf(&b, "%s %x %s\n", t.Name, t.Hash, t.Made.Format(time.RFC3339))
	}
	return atomicfile.Write(path, b.Bytes(), func(f *os.File, old fs.FileInfo) error { return ownAs(f, old, dir) })
}

// ownAs gives f, when we are root, to the owner of the file before it or else
// of its folder; in a folder of root's, to the user that the daemon becomes,
// which must be able to read it.
func ownAs(f *os.File, old fs.FileInfo, dir *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if old != nil {
		return f.Chown(atomicfile.Owner(old))
	}
	fi, err := dir.Stat()
	if err != nil {
		return err
	}
	uid, gid := atomicfile.Owner(fi)
	if u, err := user.Lookup("stoplog"); uid == 0 && err == nil {
		if id, err := strconv.Atoi(u.Uid); err == nil {
			uid = id
		}
		if id, err := strconv.Atoi(u.Gid); err == nil {
			gid = id
		}
	}
	return f.Chown(uid, gid)
}

// FindToken finds the token that secret is of. How long it takes tells nothing
// of how much of it was right.
func FindToken(ts []Token, secret string) (found Token, ok bool) {
	h := sha256.Sum256([]byte(secret))
	for _, t := range ts {
		if subtle.ConstantTimeCompare(h[:], t.Hash[:]) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
