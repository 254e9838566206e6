package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"stoplog/internal/rules"
)

// maxAnswer bounds what is read of a server's answer.
const maxAnswer = 4 << 10

// webhook sends by POST. The URL may hold a secret: no error repeats it.
type webhook struct {
	url     string
	headers map[string]string
	client  *http.Client
}

func newWebhook(c rules.Notify) (*webhook, error) {
	u, err := url.Parse(c.Webhook)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("webhook: expected an http or https URL")
	}
	if _, err := request(context.Background(), c.Webhook, c.Headers, letter{}); err != nil {
		return nil, err
	}
	return &webhook{url: c.Webhook, headers: c.Headers, client: &http.Client{
		CheckRedirect: follow,
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           1,
			IdleConnTimeout:        30 * time.Second,
		},
	}}, nil
}

// follow lets a redirect pass that keeps the method, the scheme and the host:
// elsewhere the headers' secrets have no business.
func follow(r *http.Request, via []*http.Request) error {
	from := via[0]
	switch {
	case len(via) > 3:
		return errors.New("redirected more than three times")
	case r.Method != from.Method:
		return errors.New("redirected with a change from POST to GET: use the final URL in the rules")
	case r.URL.Scheme != from.URL.Scheme || r.URL.Host != from.URL.Host:
		return fmt.Errorf("redirect to another host, %s://%s, not followed", r.URL.Scheme, clip(r.URL.Host, 100))
	}
	return nil
}

func request(ctx context.Context, to string, headers map[string]string, l letter) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(l.body))
	if err != nil {
		return nil, errors.New("webhook: invalid URL")
	}
	r.Header.Set("Content-Type", l.typ)
	r.Header.Set("User-Agent", "stoplog")
	for k, v := range headers {
		if !token(k) || !printable(v) {
			return nil, fmt.Errorf("webhook: invalid header %q", clip(clean(k), 60))
		}
		r.Header.Set(k, v)
		if http.CanonicalHeaderKey(k) == "Host" {
			r.Host = v
		}
	}
	return r, nil
}

// token reports whether s may be a header's name (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !bytes.ContainsRune([]byte("!#$%&'*+-.^_`|~"), rune(c)) {
			return false
		}
	}
	return s != ""
}

func (w *webhook) send(ctx context.Context, l letter) error {
	r, err := request(ctx, w.url, w.headers, l)
	if err != nil {
		return permanent{err}
	}
	a, err := w.client.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL
		}
		if a != nil { // a redirect that was not followed
			a.Body.Close()
			return permanent{err}
		}
		return err
	}
	defer a.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	return judge(a, said)
}

// judge turns a status into an error: 429 and 5xx may pass, others not.
func judge(a *http.Response, said []byte) error {
	if a.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("the server answered %d: %s", a.StatusCode, clip(clean(string(said)), 200))
	if a.StatusCode != http.StatusTooManyRequests && a.StatusCode/100 != 5 {
		return permanent{err}
	}
	if s, e := strconv.ParseUint(a.Header.Get("Retry-After"), 10, 16); e == nil {
		return later{err, time.Duration(s) * time.Second}
	}
	return err
}
