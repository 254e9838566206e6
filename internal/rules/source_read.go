package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

func sortNetworks[T any](s []T, of func(T) netip.Prefix) {
	slices.SortStableFunc(s, func(a, b T) int { return cmp.Compare(of(b).Bits(), of(a).Bits()) })
}

// sourceEntry is one element of `sources` as it is written.
type sourceEntry struct {
	Source
	file, pipe string
	journal    bool
	zone       string
	exclude    []string
}

// sourceValue reads auth, stdin, {file: GLOB, …}, {pipe: PATH, …} and
// {journal: {units: […]}, …}.
func sourceValue() value[Source] {
	plain := word("a source", "auth", "journal", "stdin")
	obj := object("a source", sourceFields(), nil)
	s := &shape{what: "a source", oneOf: []*shape{plain.shape, obj.shape}}
	return value[Source]{s, func(c *checker, n *yaml.Node) (Source, bool) {
		if c.resolve(n).Kind != yaml.MappingNode {
			w, ok := plain.read(c, n)
			kind := map[string]SourceKind{"auth": Auth, "journal": Journal, "stdin": Stdin}[w]
			return Source{Kind: kind, Line: n.Line}, ok
		}
		e, ok := obj.read(c, n)
		if !ok {
			return Source{}, false
		}
		return c.source(n, e)
	}}
}

func sourceFields() []field[sourceEntry] {
	journal := object("a selection of the journal", []field[Source]{
		key("units", "systemd units; with `service`, their entries count as that service's", list(text("a unit")), func(s *Source) *[]string { return &s.Units }),
		key("identifiers", "syslog identifiers", list(text("an identifier")), func(s *Source) *[]string { return &s.Identifiers }),
		key("containers", "names of containers whose output Docker or Podman logs to the journal; with `service`, their entries count as that service's", list(text("a container")), func(s *Source) *[]string { return &s.Containers }),
		key("matches", "FIELD=value, like matches of journalctl", list(text("FIELD=value")), func(s *Source) *[]string { return &s.Matches }),
	}, nil)
	return []field[sourceEntry]{
		key("file", "a file or glob", path("a file or glob"), func(s *sourceEntry) *string { return &s.file }),
		key("exclude", "globs of files to skip", list(path("a glob")), func(s *sourceEntry) *[]string { return &s.exclude }),
		key("pipe", "a named pipe", path("a pipe"), func(s *sourceEntry) *string { return &s.pipe }),
		{fieldDoc{name: "journal", about: "the systemd journal, or a part of it", shape: journal.shape}, func(c *checker, n *yaml.Node, s *sourceEntry) {
			j, _ := journal.read(c, n)
			s.journal, s.Units, s.Identifiers, s.Containers, s.Matches = true, j.Units, j.Identifiers, j.Containers, j.Matches
		}},
		key("service", "the service that writes this log: sshd, nginx, gitea…, http for an access log, syslog for a file of many programs, or a name of your own. Lines of other services are not read. Default: the service that usually logs there, otherwise the syslog tags decide", text("the name of a service"), func(s *sourceEntry) *string { return &s.Service }),
		key("format", "combined, common, vhost, json, logfmt, or an nginx log_format (default: the service's format)", text("a format"), func(s *sourceEntry) *string { return &s.Format }),
		key("fields", "for json and logfmt: names of ip, user, time, status, path, message…, as dotted paths (default: the usual names)", tableOf("fields", text("a dotted path"), nil), func(s *sourceEntry) *map[string]string { return &s.Fields }),
		key("client", "the client's address if a proxy is in front of the server", clientValue(), func(s *sourceEntry) *Client { return &s.Client }),
		key("zone", "time zone of timestamps without one, such as Europe/Zurich or UTC", text("a time zone"), func(s *sourceEntry) *string { return &s.zone }),
	}
}

func clientValue() value[Client] {
	header := text("a header name")
	lower := value[string]{header.shape, func(c *checker, n *yaml.Node) (string, bool) {
		s, ok := header.read(c, n)
		if ok && strings.ContainsAny(s, " :\t") {
			c.fail(n, "x-forwarded-for", "expected a header name, not %q", clip(s))
			return "", false
		}
		return strings.ToLower(s), ok
	}}
	return object("a client", []field[Client]{
		must(key("header", "header with the client's address: x-forwarded-for, forwarded, cf-connecting-ip…", lower, func(cl *Client) *string { return &cl.Header })),
		must(key("trusted", "proxies whose header is trusted", list(prefix("the address or prefix of a proxy")), func(cl *Client) *[]netip.Prefix { return &cl.Trusted })),
	}, nil)
}

func (c *checker) source(n *yaml.Node, e sourceEntry) (Source, bool) {
	s := e.Source
	s.Line, s.Exclude = n.Line, e.exclude
	kinds := 0
	for _, k := range []struct {
		on   bool
		kind SourceKind
		path string
	}{{e.file != "", File, e.file}, {e.pipe != "", Pipe, e.pipe}, {e.journal, Journal, ""}} {
		if k.on {
			kinds++
			s.Kind, s.Path = k.kind, k.path
		}
	}
	ok := true
	if kinds != 1 {
		c.fail(n, "", "expected one of file, pipe and journal")
		ok = false
	}
	if e.zone != "" {
		loc, err := time.LoadLocation(e.zone)
		if err != nil || strings.Contains(e.zone, "..") {
			c.fail(n, "such as Europe/Zurich or UTC", "unknown time zone %q", clip(e.zone))
			ok = false
		}
		s.Zone = loc
	}
	if s.Fields != nil && s.Format != "json" && s.Format != "logfmt" {
		c.fail(n, "format: json", "fields needs format json or logfmt")
		ok = false
	}
	if s.Exclude != nil && s.Kind != File {
		c.fail(n, "", "exclude needs file")
		ok = false
	}
	return s, ok
}
