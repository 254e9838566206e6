package rules

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"

	"gopkg.in/yaml.v3"
)

// address is host:port, :port (loopback) or the absolute path of a unix socket.
func address() value[string] {
	const what = "an address to listen on"
	return value[string]{&shape{kind: "string", what: what}, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := c.scalar(n, what)
		if !ok || strings.HasPrefix(s, "/") {
			return s, ok
		}
		host, port, err := net.SplitHostPort(s)
		p, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || p > 65535 {
			c.fail(n, "127.0.0.1:8080, '[::1]:8080' or /run/stoplog/page.sock", "expected %s, not %q", what, clip(s))
			return "", false
		}
		if host == "" {
			return net.JoinHostPort("127.0.0.1", port), true
		}
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			c.fail(n, "127.0.0.1, [::1] or localhost", "expected an IP address before the port, not the name %q", clip(host))
			return "", false
		}
		return s, true
	}}
}

// listenerFields are what listeners have in common.
func listenerFields[O any](of func(*O) *Listener) []field[O] {
	return []field[O]{
		key("addr", "host:port (loopback without a host) or the path of a unix socket", address(), func(o *O) *string { return &of(o).Addr }),
		key("token_file", "a file with the token that clients must send", path("a file"), func(o *O) *string { return &of(o).TokenFile }),
		key("clients", "addresses that may connect (default: any)", list(prefix("an address or prefix")), func(o *O) *[]netip.Prefix { return &of(o).Clients }),
	}
}

// pageValue adds the names that a proxy before the page is known by.
func pageValue() value[Listener] {
	fields := append(listenerFields(func(l *Listener) *Listener { return l }),
		key("hosts", "host names of the page, in addition to IP addresses and localhost", list(hostName()), func(l *Listener) *[]string { return &l.Hosts }))
	return needsAddr(object("page", fields, nil), func(l Listener) bool { return l.Addr != "" })
}

// feedValue adds which limited blocks are in the list.
func feedValue() value[Listener] {
	fields := append(listenerFields(func(l *Listener) *Listener { return l }), guardedKey(func(l *Listener) *Guarded { return &l.Ports }))
	return needsAddr(object("feed", fields, nil), func(l Listener) bool { return l.Addr != "" })
}

func guardedKey[O any](of func(*O) *Guarded) field[O] {
	return key("ports", "also list blocks of single ports: those of these ports, or any (default for web servers: 80 and 443)", guarded(), of)
}

// guarded is "any", or a list of at most seven ports.
func guarded() value[Guarded] {
	v := list(ports())
	any := &shape{kind: "string", words: []string{"any"}}
	return value[Guarded]{&shape{oneOf: []*shape{any, v.shape}, what: "any, or ports"}, func(c *checker, n *yaml.Node) (Guarded, bool) {
		if n.Kind == yaml.ScalarNode && n.Value == "any" {
			return Guarded{Any: true}, true
		}
		ps, ok := v.read(c, n)
		if ok && (len(ps) == 0 || len(ps) > maxGuarded) {
			c.fail(n, "any, or [80, 443]", "expected any, or one to %d ports", maxGuarded)
			return Guarded{}, false
		}
		return Guarded{Ports: ps}, ok
	}}
}

// maxGuarded is as many ports as a block can have.
const maxGuarded = 7

func hostName() value[string] {
	v := text("a host name")
	return value[string]{v.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := v.read(c, n)
		if ok && (s == "" || strings.ContainsAny(s, " /:@*?#[]")) {
			c.fail(n, "stoplog.example.net", "expected a host name without a port, not %q", clip(s))
			return "", false
		}
		return strings.ToLower(s), ok
	}}
}

func needsAddr[T any](v value[T], has func(T) bool) value[T] {
	return value[T]{v.shape, func(c *checker, n *yaml.Node) (T, bool) {
		x, ok := v.read(c, n)
		if ok && !has(x) {
			c.fail(n, "addr: 127.0.0.1:8080", "a listener needs addr")
			return x, false
		}
		return x, ok
	}}
}

func listenValue() value[Listen] {
	metrics := object("metrics", append(listenerFields(func(m *Metrics) *Listener { return &m.Listener }),
		key("textfile", "a file for node_exporter's textfile collector", path("a file"), func(m *Metrics) *string { return &m.Textfile })), nil)
	check := object("check", append(listenerFields(func(k *Check) *Listener { return &k.Listener }),
		must(key("header", "header with the client's address", clientHeader(), func(k *Check) *string { return &k.Header })),
		must(key("trusted", "peers whose header is trusted", list(prefix("the address or prefix of a peer")), func(k *Check) *[]netip.Prefix { return &k.Trusted })),
		key("ports", "ports of the proxy: only blocks of these ports refuse clients; any: all blocks do (default: 80 and 443)", guarded(), func(k *Check) *Guarded { return &k.Ports }),
		key("port_header", "header with the port that the client connected to; the proxy must set it", clientHeader(), func(k *Check) *string { return &k.PortHeader }),
		key("status", "HTTP status of a refusal: 403 for nginx, 429 for Caddy, Traefik and HAProxy", integer("a status", 403, 429), func(k *Check) *int { return &k.Status })),
		func() Check { return Check{Status: 403} })
	return object("listen", []field[Listen]{
		key("page", "the web page", pageValue(), func(l *Listen) *Listener { return &l.Page }),
		key("feed", "the blocklist for other firewalls", feedValue(), func(l *Listen) *Listener { return &l.Feed }),
		key("check", "the check for proxies: is this client blocked?", needsAddr(check, func(k Check) bool { return k.Addr != "" }), func(l *Listen) *Check { return &l.Check }),
		key("metrics", "metrics for Prometheus", needsAddr(metrics, func(m Metrics) bool { return m.Addr != "" || m.Textfile != "" }), func(l *Listen) *Metrics { return &l.Metrics }),
	}, nil)
}

func clientHeader() value[string] {
	v := name("a header name")
	return value[string]{v.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := v.read(c, n)
		return strings.ToLower(s), ok
	}}
}

// notifyField is `notify`: targets by name.
func notifyField() field[book] {
	v := tableOf("targets by name", notifyValue(), func(c *checker, k *yaml.Node) bool {
		_, ok := name("the name of a target").read(c, k)
		return ok
	})
	return field[book]{fieldDoc{name: "notify", about: "notification targets, by name", shape: v.shape}, func(c *checker, n *yaml.Node, b *book) {
		m, _ := v.read(c, n)
		for _, k := range sortedKeys(m) {
			t := m[k]
			t.Name = k
			b.Notify = append(b.Notify, t)
		}
	}}
}

func notifyValue() value[Notify] {
	v := object("a target", []field[Notify]{
		key("webhook", "a URL to which messages are sent by POST", webURL(), func(t *Notify) *string { return &t.Webhook }),
		key("headers", "HTTP headers of the POST", tableOf("headers", text("a header value"), nil), func(t *Notify) *map[string]string { return &t.Headers }),
		key("email", "e-mail recipients and server", emailValue(), func(t *Notify) *Email { return &t.Email }),
		key("exec", "a program; it gets the message on standard input", argv(), func(t *Notify) *[]string { return &t.Exec }),
		key("template", "template of the message, in Go's text/template", templateText(), func(t *Notify) *string { return &t.Template }),
		key("group", "minimum time between messages; breaches within it are one message", duration("group", 0, day), func(t *Notify) *time.Duration { return &t.Group }),
		key("limit", "maximum number of messages per hour", integer("limit", 1, 10_000), func(t *Notify) *int { return &t.Limit }),
		key("timeout", "timeout of one attempt", duration("timeout", time.Second, 5*time.Minute), func(t *Notify) *time.Duration { return &t.Timeout }),
	}, func() Notify { return Notify{Group: 30 * time.Second, Limit: 60, Timeout: 10 * time.Second} })
	return value[Notify]{v.shape, func(c *checker, n *yaml.Node) (Notify, bool) {
		t, ok := v.read(c, n)
		ways := 0
		for _, has := range []bool{t.Webhook != "", t.Email.To != nil, t.Exec != nil} {
			if has {
				ways++
			}
		}
		if ok && ways != 1 {
			c.fail(n, "", "a target needs one of webhook, email and exec")
			return t, false
		}
		return t, ok
	}}
}

func webURL() value[string] {
	v := text("a URL")
	return value[string]{v.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := v.read(c, n)
		if !ok {
			return "", false
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.fail(n, "https://…", "expected an http or https URL, not %q", clip(s))
			return "", false
		}
		return s, true
	}}
}

func templateText() value[string] {
	v := text("a template")
	return value[string]{v.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := v.read(c, n)
		if _, err := template.New("").Parse(s); ok && err != nil {
			c.fail(n, "", "invalid template: %s", strings.TrimPrefix(err.Error(), "template: :"))
			return "", false
		}
		return s, ok
	}}
}

func emailValue() value[Email] {
	addr := value[string]{text("an e-mail address").shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := text("an e-mail address").read(c, n)
		if ok && (strings.Count(s, "@") != 1 || strings.ContainsAny(s, " <>\r\n,;\"")) {
			c.fail(n, "ops@example.net", "expected an e-mail address, not %q", clip(s))
			return "", false
		}
		return s, ok
	}}
	return object("email", []field[Email]{
		must(key("to", "recipients", list(addr), func(e *Email) *[]string { return &e.To })),
		must(key("from", "sender", addr, func(e *Email) *string { return &e.From })),
		must(key("server", "host:port of the mail server", text("host:port"), func(e *Email) *string { return &e.Server })),
		key("user", "user name at the mail server", text("a user"), func(e *Email) *string { return &e.User }),
		key("password_file", "a file with the password", path("a file"), func(e *Email) *string { return &e.PasswordFile }),
	}, nil)
}
