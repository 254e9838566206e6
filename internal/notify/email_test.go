package notify

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stoplog/internal/rules"
)

// smtpd is a strict server of one conversation (RFC 5321): commands in their
// order only, lines that end in CRLF and are not too long.
type smtpd struct {
	t        *testing.T
	addr     string
	offer    []string          // after EHLO
	answer   map[string]string // to a command in place of the usual
	tls      *tls.Config
	secure   bool // TLS from the start
	from     string
	to       []string
	data     []byte
	auth     []string // what was authenticated, decoded
	inTLS    bool
	problems []string
	done     chan struct{}
}

func (s *smtpd) start() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr, s.done = ln.Addr().String(), make(chan struct{})
	go func() {
		defer close(s.done)
		defer ln.Close()
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { c.Close() }()
		if s.secure {
			c, s.inTLS = tls.Server(c, s.tls), true
		}
		s.talk(c)
	}()
}

func (s *smtpd) line(r *bufio.Reader) (string, bool) {
	l, err := r.ReadString('\n')
	if err != nil {
		return "", false
	}
	if !strings.HasSuffix(l, "\r\n") || len(l) > 1000 || strings.Count(l, "\r") != 1 {
		s.problems = append(s.problems, fmt.Sprintf("line %q", l))
	}
	return strings.TrimSuffix(l, "\r\n"), true
}

var (
	mailFrom = regexp.MustCompile(`^MAIL FROM:<([^<>\s]+)>( BODY=8BITMIME)?( SMTPUTF8)?$`)
	rcptTo   = regexp.MustCompile(`^RCPT TO:<([^<>\s]+)>$`)
)

func (s *smtpd) talk(c net.Conn) {
	r := bufio.NewReader(c)
	say := func(l string) { fmt.Fprint(c, l+"\r\n") }
	say("220 mx.example ESMTP")
	state := "start"
	for {
		l, ok := s.line(r)
		if !ok {
			return
		}
		verb := strings.ToUpper(strings.SplitN(l, " ", 2)[0])
		if a := s.answer[l]; a != "" {
			say(a)
			continue
		}
		switch {
		case verb == "EHLO" && len(l) > 5:
			say("250-mx.example")
			for _, o := range s.offer {
				say("250-" + o)
			}
			say("250 PIPELINING")
			state = "greeted"
		case l == "STARTTLS" && state == "greeted":
			say("220 go ahead")
			tc := tls.Server(c, s.tls)
			if tc.Handshake() != nil {
				return
			}
			c, r, s.inTLS, state = tc, bufio.NewReader(tc), true, "start"
		case verb == "AUTH" && state == "greeted":
			s.login(l, r, say)
		case state == "greeted" && mailFrom.MatchString(l):
			s.from, state = mailFrom.FindStringSubmatch(l)[1], "mail"
			say("250 ok")
		case state == "mail" && rcptTo.MatchString(l):
			s.to = append(s.to, rcptTo.FindStringSubmatch(l)[1])
			say("250 ok")
		case l == "DATA" && state == "mail" && len(s.to) > 0:
			say("354 go on")
			s.read(r)
			say("250 taken")
			state = "greeted"
		case l == "QUIT":
			say("221 bye")
			return
		default:
			s.problems = append(s.problems, fmt.Sprintf("%q in state %s", l, state))
			say("503 bad sequence")
		}
	}
}

func (s *smtpd) read(r *bufio.Reader) {
	for {
		l, ok := s.line(r)
		if !ok || l == "." {
			return
		}
		s.data = append(s.data, strings.TrimPrefix(l, ".")+"\r\n"...)
	}
}

func (s *smtpd) login(l string, r *bufio.Reader, say func(string)) {
	words := strings.Fields(l)
	keep := func(b64 string) {
		b, err := base64.StdEncoding.DecodeString(b64)
		if err != nil {
			s.problems = append(s.problems, err.Error())
		}
		s.auth = append(s.auth, string(b))
	}
	switch {
	case len(words) == 3 && words[1] == "PLAIN":
		keep(words[2])
	case words[1] == "LOGIN":
		for _, ask := range []string{"VXNlcm5hbWU6", "UGFzc3dvcmQ6"} {
			say("334 " + ask)
			l, _ := s.line(r)
			keep(l)
		}
	}
	say("235 welcome")
}

// pair makes a certificate for localhost, and a pool that trusts it.
func pair(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mx.example"}, DNSNames: []string{"mx.example"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

func mailTo(t *testing.T, s *smtpd, c rules.Email) *mailer {
	t.Helper()
	s.t = t
	s.start()
	if c.To == nil {
		c.To = []string{"ops@example.net", "night@example.net"}
	}
	c.From, c.Server = "stoplog@web1.example", s.addr
	m, err := newMailer(c, "web1.example")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// away makes the mailer take the server for one elsewhere.
func away(m *mailer, pool *x509.CertPool) {
	m.name = "mx.example"
	m.tls = &tls.Config{ServerName: "mx.example", RootCAs: pool}
}

// checkMail parses a message as a mail program would and compares its text.
func checkMail(t *testing.T, b, plain []byte) *mail.Message {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%v in %q", err, b)
	}
	if len(m.Header) != 9 {
		t.Fatalf("%d headers, want 9: %v", len(m.Header), m.Header)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(string(text), "\r\n", "\n"); got != string(plain) {
		t.Fatalf("text %q, want %q", got, plain)
	}
	return m
}

func TestMail(t *testing.T) {
	s := &smtpd{offer: []string{"8BITMIME", "STARTTLS"}} // on loopback: not needed
	m := mailTo(t, s, rules.Email{})
	l := letter{subject: "[stoplog] wéb1: 3 blocks\r\nBcc: x@example.net", plain: []byte("first\n.\n..two\n" + strings.Repeat("long ", 300) + "\nZoë\n")}
	if err := m.send(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	<-s.done
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
	if s.from != "stoplog@web1.example" || strings.Join(s.to, " ") != "ops@example.net night@example.net" {
		t.Errorf("from %s to %v", s.from, s.to)
	}
	got := checkMail(t, s.data, l.plain)
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if want := `[stoplog] wéb1: 3 blocks\x0d\x0aBcc: x@example.net`; err != nil || subject != want {
		t.Errorf("subject %q %v, want %q", subject, err, want)
	}
	if at, err := got.Header.Date(); err != nil || time.Since(at) > time.Minute {
		t.Errorf("date %v %v", at, err)
	}
	if to, err := got.Header.AddressList("To"); err != nil || len(to) != 2 {
		t.Errorf("to %v %v", to, err)
	}
}

func TestMailLogin(t *testing.T) {
	cert, pool := pair(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		offer  []string
		secure bool
		want   []string
	}{
		{"PLAIN", []string{"STARTTLS", "AUTH LOGIN PLAIN"}, false, []string{"\x00me\x00s3cret word"}},
		{"LOGIN alone", []string{"STARTTLS", "AUTH LOGIN"}, false, []string{"me", "s3cret word"}},
		{"TLS at once", []string{"AUTH PLAIN"}, true, []string{"\x00me\x00s3cret word"}},
	} {
		s := &smtpd{offer: c.offer, tls: cert, secure: c.secure}
		m := mailTo(t, s, rules.Email{User: "me", PasswordFile: file})
		away(m, pool)
		m.direct = c.secure
		if err := m.send(t.Context(), letter{plain: []byte("x")}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		<-s.done
		if !s.inTLS || strings.Join(s.auth, "|") != strings.Join(c.want, "|") || len(s.problems) > 0 {
			t.Errorf("%s: TLS %v, authenticated %q, problems %q", c.name, s.inTLS, s.auth, s.problems)
		}
	}
}

func TestMailNeverInTheClear(t *testing.T) {
	cert, _ := pair(t)
	for _, c := range []struct {
		name  string
		offer []string
		want  string
	}{
		{"a server without TLS", []string{"AUTH PLAIN"}, "never sent unencrypted"},
		{"a certificate that nobody vouches for", []string{"STARTTLS", "AUTH PLAIN"}, "STARTTLS"},
	} {
		s := &smtpd{offer: c.offer, tls: cert}
		m := mailTo(t, s, rules.Email{User: "me", PasswordFile: "/nonexistent"})
		away(m, x509.NewCertPool())
		err := m.send(t.Context(), letter{})
		<-s.done
		if err == nil || !strings.Contains(err.Error(), c.want) || s.auth != nil || s.from != "" {
			t.Errorf("%s: %v, authenticated %q", c.name, err, s.auth)
		}
	}
}

func TestMailRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer map[string]string
		good   bool
		some   bool
		to     int
	}{
		{"for good", map[string]string{"MAIL FROM:<stoplog@web1.example>": "550 no"}, true, false, 0},
		{"for now", map[string]string{"MAIL FROM:<stoplog@web1.example>": "451 later"}, false, false, 0},
		{"one recipient", map[string]string{"RCPT TO:<ops@example.net>": "550 who"}, false, true, 1},
		{"one recipient for now", map[string]string{"RCPT TO:<ops@example.net>": "450 full"}, false, true, 1},
		{"all recipients", map[string]string{"RCPT TO:<ops@example.net>": "550 who", "RCPT TO:<night@example.net>": "550 who"}, true, false, 0},
		{"the text", map[string]string{"DATA": "554 no"}, true, false, 2},
	} {
		s := &smtpd{answer: c.answer}
		err := mailTo(t, s, rules.Email{}).send(t.Context(), letter{plain: []byte("x")})
		<-s.done
		if err == nil || errors.As(err, new(permanent)) != c.good || errors.As(err, new(partly)) != c.some || len(s.to) != c.to {
			t.Errorf("%s: %v (for good %v, in part %v, %d recipients)", c.name, err, errors.As(err, new(permanent)), errors.As(err, new(partly)), len(s.to))
		}
	}
}

// TestMailBounds: a server that talks without end, and one that says nothing.
func TestMailBounds(t *testing.T) {
	s := &smtpd{answer: map[string]string{"MAIL FROM:<stoplog@web1.example>": strings.Repeat("250-x\r\n", 1<<16) + "250 x"}}
	m := mailTo(t, s, rules.Email{})
	if err := m.send(t.Context(), letter{}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("an endless answer: %v", err)
	}
	<-s.done
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	m.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := m.send(ctx, letter{}); err == nil {
		t.Error("a silent server: no error after the end")
	}
}

func TestMailServers(t *testing.T) {
	for _, c := range []struct {
		server, host       string
		addr, name, helo   string
		direct, onLoopback bool
	}{
		{"mail.example:587", "web1.example", "mail.example:587", "mail.example", "web1.example", false, false},
		{"mail.example", "web1", "mail.example:25", "mail.example", "web1", false, false},
		{"mail.example:465", "web1", "mail.example:465", "mail.example", "web1", true, false},
		{"localhost:25", "web 1", "localhost:25", "localhost", "localhost", false, true},
		{"[::1]:25", "", "[::1]:25", "::1", "localhost", false, true},
		{"[2001:db8::1]", "a@b", "[2001:db8::1]:25", "2001:db8::1", "localhost", false, false},
		{"127.0.0.5:2525", "x\r\ny", "127.0.0.5:2525", "127.0.0.5", "localhost", false, true},
	} {
		m, err := newMailer(rules.Email{To: []string{"a@example.net"}, From: "b@example.net", Server: c.server}, c.host)
		if err != nil {
			t.Errorf("%s: %v", c.server, err)
			continue
		}
		if m.addr != c.addr || m.name != c.name || m.host != c.helo || m.direct != c.direct || loopback(m.name) != c.onLoopback {
			t.Errorf("%s as %q: %s %s %s, TLS at once %v, on loopback %v", c.server, c.host, m.addr, m.name, m.host, m.direct, loopback(m.name))
		}
	}
}

func TestPasswords(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{"secret", "secret"}, {"secret\n", "secret"}, {"secret\r\n", "secret"}, {" with spaces \n", " with spaces "}, {"", ""},
		{strings.Repeat("x", 2*maxPassword), strings.Repeat("x", maxPassword)},
	} {
		file := filepath.Join(dir, "p")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := password(file); err != nil || got != c.want {
			t.Errorf("%.20q: %.20q %v, want %.20q", c.text, got, err, c.want)
		}
	}
	if _, err := password(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestAuthAsksTooMuch: a server that wants more than a name and a password.
func TestAuthAsksTooMuch(t *testing.T) {
	l := &loginAuth{user: "u", password: "p"}
	for i, want := range []string{"u", "p"} {
		if got, err := l.Next(nil, true); err != nil || string(got) != want {
			t.Errorf("answer %d: %q %v, want %q", i, got, err, want)
		}
	}
	if _, err := l.Next(nil, true); err == nil {
		t.Error("LOGIN answers a third question")
	}
	if _, err := (&plainAuth{}).Next(nil, true); err == nil {
		t.Error("PLAIN answers a question")
	}
}
