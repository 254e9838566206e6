// Package web reads the access and error logs of web servers and proxies, and
// structured records (JSON, logfmt) of them and of applications.
package web

import (
	"fmt"
	"strings"

	"stoplog/internal/parse/event"
	"stoplog/internal/parse/scan"
)

// AccessLog is the service of an access log of any web server or proxy.
const AccessLog = "http"

// Options say how a Reader reads.
type Options struct {
	Service string // that the source names; "" for none
	Family  string // of Service; "" for none
	Sniff   bool   // a line may be of any server
	Format  string // as in parse.Options
	Map     map[string]string
	Client  ClientOptions
	// Packs reads a record of an application before its keys are guessed; nil
	// for none.
	Packs func(line []byte, ev *event.Event) bool
}

// Reader reads the logs of web servers by one set of options. It is used by one
// goroutine.
type Reader struct {
	format   *format
	main     bool // the format is nginx's "main"
	client   ClientOptions
	header   string // of ClientOptions, in lower case
	sniff    bool
	strict   bool   // the service also logs clients' text: only access logs' usual timestamp is one
	serves   bool   // the origin is a web server's, whose structured records are requests only
	any      bool   // it is an access log of any server
	family   string // of the service
	packs    func(line []byte, ev *event.Event) bool
	scanners map[string]event.Scanner

	scratch []byte    // unescaped values of the lines since Reset
	fields  *fieldMap // of Options.Map
	extra   [][]byte  // values of its own fields, of one line
}

// New checks o. An error names the format at fault.
func New(o Options) (*Reader, error) {
	f, err := compileFormat(o.Format)
	if err != nil {
		return nil, err
	}
	w := &Reader{
		format: f, main: o.Format == "main", client: o.Client, header: strings.ToLower(o.Client.Header),
		sniff: o.Sniff, any: o.Service == AccessLog, family: o.Family, packs: o.Packs,
	}
	w.strict = !o.Sniff && ErrorLogs(o.Family)
	w.serves = !o.Sniff && f == nil && (w.any || Requests(o.Family))
	w.scanners = map[string]event.Scanner{
		"nginx": w.nginxTagged, "apache": w.apacheAny, "haproxy": w.haproxyAny, "lighttpd": w.lighttpdAny, "squid": w.squidAny,
		"suhosin": w.suhosinLog, "mod_evasive": w.evasiveLog,
		"caddy": w.Access, "traefik": w.Access, "envoy": w.Access, "varnish": w.Access,
	}
	return w, w.setMap(o)
}

func (w *Reader) setMap(o Options) (err error) {
	if w.fields, err = compileMap(o.Map); err != nil || w.fields == nil {
		return err
	}
	switch strings.ToLower(o.Format) {
	case "json", "logfmt":
	default:
		return fmt.Errorf("format %q: fields are for json and logfmt", o.Format)
	}
	w.extra = make([][]byte, len(w.fields.extra))
	return nil
}

// Reset forgets the memory that unescaped values of earlier events live in.
func (w *Reader) Reset() { w.scratch = w.scratch[:0] }

// Requests reports whether the family's servers write access logs.
func Requests(family string) bool {
	switch family {
	case "caddy", "traefik", "envoy", "varnish":
		return true
	}
	return ErrorLogs(family)
}

// ErrorLogs reports whether the family's servers also write logs with clients'
// text in other forms than requests.
func ErrorLogs(family string) bool {
	switch family {
	case "nginx", "apache", "lighttpd", "haproxy", "squid":
		return true
	}
	return false
}

// Scanner returns the scanner of a family, nil when it is none of these.
func (w *Reader) Scanner(family string) event.Scanner { return w.scanners[family] }

// Formats reports whether the user named a format.
func (w *Reader) Formats() bool { return w.format != nil }

// AddressLast reports whether the format that the user named has the address
// behind text that clients choose.
func (w *Reader) AddressLast() bool { return w.format != nil && w.format.back }

// Formatted reads a line by the format that the user named.
func (w *Reader) Formatted(m *event.Message, line []byte, ev *event.Event) bool {
	return w.format.match(w, m, line, ev)
}

// Any reads a line of any web server's error or access log.
func (w *Reader) Any(env *event.Message, line []byte, ev *event.Event) bool {
	return w.Error(env, line, ev) || w.Access(env, line, ev)
}

// Error decides by the first bytes which server's error log a line may be
// of.
func (w *Reader) Error(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) < 12 {
		return false
	}
	switch c := line[0]; {
	case c == '[':
		return w.apacheError(env, line, ev)
	case c-'0' <= 9 && (line[4] == '/' || line[4] == '-'):
		return w.nginxError(env, line, ev) || w.lighttpdError(env, line, ev)
	}
	return false
}

// Access reads a line of an access log or a structured record. In the log of
// a server that also has an error log, only its own formats are tried: what
// clients of others' choose could stand there on a line of its own.
func (w *Reader) Access(env *event.Message, line []byte, ev *event.Event) bool {
	if len(line) < 12 {
		return false
	}
	switch c := line[0]; {
	case c == '{':
		return w.JSON(env, line, ev)
	case w.strict:
		return w.accessLog(env, line, ev)
	case c == '[', c-'0' <= 9 && (line[4] == '/' || line[4] == '-'):
		return w.presets(env, line, ev)
	case c == '1' && line[10] == '.' && w.squidLog(env, line, ev):
		return true
	}
	// HAProxy's first: what it writes behind an IPv6 address is a port.
	return w.haproxyLog(env, line, ev) || w.accessLog(env, line, ev) || w.presets(env, line, ev) || w.logfmtLog(env, line, ev)
}

// Family returns the family of a syslog tag, "" when it belongs to no family
// here.
func Family(tag []byte) string {
	switch string(tag) {
	case "nginx", "angie", "openresty", "tengine":
		return "nginx"
	case "httpd", "apache", "apache2", "httpd2":
		return "apache"
	case "haproxy", "hapee-lb":
		return "haproxy"
	case "lighttpd":
		return "lighttpd"
	case "squid", "squid3", "(squid)", "(squid-1)", "squid-1", "squid-2", "squid-3", "squid-4":
		return "squid"
	case "suhosin":
		return "suhosin"
	case "mod_evasive":
		return "mod_evasive"
	case "caddy":
		return "caddy"
	case "traefik":
		return "traefik"
	case "envoy":
		return "envoy"
	case "varnishncsa", "varnish":
		return "varnish"
	}
	return ""
}

func (w *Reader) apacheAny(env *event.Message, msg []byte, ev *event.Event) bool {
	return w.apacheTagged(env, msg, ev) || w.apacheError(env, msg, ev) || w.Access(env, msg, ev)
}

func (w *Reader) haproxyAny(env *event.Message, msg []byte, ev *event.Event) bool {
	return w.haproxyLog(env, msg, ev) || w.Access(env, msg, ev)
}

func (w *Reader) lighttpdAny(env *event.Message, msg []byte, ev *event.Event) bool {
	return w.lighttpdTagged(env, msg, ev) || w.lighttpdError(env, msg, ev) || w.Access(env, msg, ev)
}

func (w *Reader) squidAny(env *event.Message, msg []byte, ev *event.Event) bool {
	return w.squidLog(env, msg, ev) || w.Access(env, msg, ev)
}

// evasiveLog reads mod_evasive's "Blacklisting address A: possible DoS attack."
func (w *Reader) evasiveLog(_ *event.Message, msg []byte, ev *event.Event) bool {
	rest, ok := scan.After(msg, "Blacklisting address ")
	if !ok {
		return false
	}
	addr, rest, ok := scan.Cut(rest, ": ")
	if !ok || !scan.HasPrefix(rest, "possible ") {
		return false
	}
	ev.Service, ev.Count = "apache", 1
	if a, ok := scan.Addr(addr); ok {
		ev.Addr, ev.Outcome, ev.Kind = a, event.Failure, event.Limited
	}
	return true
}
