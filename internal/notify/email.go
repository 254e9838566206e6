package notify

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"os"
	"strings"
	"time"

	"stoplog/internal/rules"
)

// Bounds of one conversation.
const (
	maxSMTP     = 256 << 10 // bytes from the server
	maxPassword = 4 << 10
	maxSubject  = 200
)

// mailer sends by SMTP (RFC 5321). On port 465 it speaks TLS at once (RFC
// 8314), elsewhere it asks for STARTTLS wherever the server offers it, with
// the certificate checked; to loopback it speaks as it is.
type mailer struct {
	cfg  rules.Email
	addr string // host:port
	name string // of the server
	host string // ours
	tls  *tls.Config
	// direct: TLS from the first byte.
	direct bool
}

func newMailer(c rules.Email, host string) (*mailer, error) {
	for _, a := range append([]string{c.From}, c.To...) {
		if p, err := mail.ParseAddress(a); err != nil || p.Address != a || !printable(a) {
			return nil, fmt.Errorf("email: %q is not a plain address", clip(clean(a), 80))
		}
	}
	name, port, err := net.SplitHostPort(c.Server)
	if err != nil {
		name, port = strings.Trim(c.Server, "[]"), "25"
	}
	if name == "" || !printable(c.Server) {
		return nil, fmt.Errorf("email: server: expected host:port, not %q", clip(clean(c.Server), 80))
	}
	if c.User != "" && c.PasswordFile == "" {
		return nil, errors.New("email: user needs password_file")
	}
	if !printable(host) || host == "" || strings.ContainsAny(host, " <>@\"\\") {
		host = "localhost"
	}
	return &mailer{
		cfg: c, addr: net.JoinHostPort(name, port), name: name, host: host, direct: port == "465",
		tls: &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12},
	}, nil
}

func (m *mailer) send(ctx context.Context, l letter) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	// A deadline alone would not mind an end of ctx before it.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return err
		}
	}
	err = m.talk(&capped{Conn: conn, left: maxSMTP}, l)
	if p := (*textproto.Error)(nil); errors.As(err, &p) && p.Code >= 500 && !errors.As(err, new(partly)) {
		return permanent{err}
	}
	return err
}

// talk holds the conversation.
func (m *mailer) talk(conn net.Conn, l letter) error {
	if m.direct {
		conn = tls.Client(conn, m.tls)
	}
	c, err := smtp.NewClient(conn, m.name)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if err := c.Hello(m.host); err != nil {
		return fmt.Errorf("EHLO: %w", err)
	}
	_, secure := c.TLSConnectionState()
	if ok, _ := c.Extension("STARTTLS"); ok && !secure && !loopback(m.name) {
		if err := c.StartTLS(m.tls); err != nil {
			return fmt.Errorf("STARTTLS: %w", err)
		}
	}
	if err := m.login(c); err != nil {
		return err
	}
	refused, err := m.envelope(c)
	if err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("DATA: %w", err)
	}
	if _, err := w.Write(m.message(l, time.Now())); err != nil {
		return fmt.Errorf("DATA: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("DATA: %w", err)
	}
	_ = c.Quit() // it has the message
	if refused != nil {
		return partly{refused}
	}
	return nil
}

// envelope names sender and recipients; some recipients suffice, the others
// are returned as refused.
func (m *mailer) envelope(c *smtp.Client) (refused, err error) {
	if err := c.Mail(m.cfg.From); err != nil {
		return nil, fmt.Errorf("MAIL FROM: %w", err)
	}
	taken := 0
	for _, to := range m.cfg.To {
		if err := c.Rcpt(to); err != nil {
			refused = errors.Join(refused, fmt.Errorf("RCPT TO %s: %w", to, err))
			continue
		}
		taken++
	}
	if taken == 0 {
		return nil, refused
	}
	return refused, nil
}

// login authenticates when the rules name a user; never in the clear.
func (m *mailer) login(c *smtp.Client) error {
	if m.cfg.User == "" {
		return nil
	}
	if _, secure := c.TLSConnectionState(); !secure && !loopback(m.name) {
		return permanent{errors.New("the server offers no TLS, and the password is never sent unencrypted")}
	}
	pw, err := password(m.cfg.PasswordFile)
	if err != nil {
		return permanent{err}
	}
	_, ways := c.Extension("AUTH")
	how := smtp.Auth(&plainAuth{user: m.cfg.User, password: pw})
	if offered := strings.Fields(strings.ToUpper(ways)); !has(offered, "PLAIN") && has(offered, "LOGIN") {
		how = &loginAuth{user: m.cfg.User, password: pw}
	}
	if err := c.Auth(how); err != nil {
		return fmt.Errorf("AUTH: %w", err)
	}
	return nil
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// plainAuth is RFC 4616. login has seen to it that nobody listens.
type plainAuth struct{ user, password string }

func (a *plainAuth) Start(*smtp.ServerInfo) (string, []byte, error) {
	return "PLAIN", []byte("\x00" + a.user + "\x00" + a.password), nil
}

func (a *plainAuth) Next(_ []byte, more bool) ([]byte, error) {
	if more {
		return nil, errors.New("unexpected challenge during PLAIN authentication")
	}
	return nil, nil
}

// loginAuth is the older way that some servers offer alone.
type loginAuth struct {
	user, password string
	asked          int
}

func (a *loginAuth) Start(*smtp.ServerInfo) (string, []byte, error) { return "LOGIN", nil, nil }

func (a *loginAuth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.asked++
	switch a.asked {
	case 1:
		return []byte(a.user), nil
	case 2:
		return []byte(a.password), nil
	}
	return nil, errors.New("unexpected challenge during LOGIN authentication")
}

// password reads the file again each time: it may have changed.
func password(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPassword))
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// loopback reports whether the name is this machine for certain.
func loopback(name string) bool {
	a, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && a.IsLoopback()
}

// message is the whole text (RFC 5322): headers that hold nothing of a log,
// encoded where they must be (RFC 2047), and a quoted-printable body.
func (m *mailer) message(l letter, now time.Time) []byte {
	var b bytes.Buffer
	subject := mime.QEncoding.Encode("utf-8", clip(clean(l.subject), maxSubject))
	for _, h := range [][2]string{
		{"From", m.cfg.From}, {"To", strings.Join(m.cfg.To, ",\r\n ")}, {"Subject", subject},
		{"Date", now.Format("Mon, 02 Jan 2006 15:04:05 -0700")},
		{"Message-ID", "<" + rand.Text() + "@" + m.host + ">"},
		{"Auto-Submitted", "auto-generated"}, // RFC 3834: no answers by machines
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write(l.plain) // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}

// capped ends a conversation in which the other side talks without end.
type capped struct {
	net.Conn
	left int
}

func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, errors.New("the server's answer is too long")
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}
