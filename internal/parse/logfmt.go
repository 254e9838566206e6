package parse

import "bytes"

// logfmtLog reads a line of key=value pairs (brandur.org/logfmt; Go's
// log/slog.TextHandler, logrus), each value bare or a quoted string with
// escapes, and nothing but pairs: Traefik, Grafana, Authelia, Caddy…
func logfmtLog(p *Parser, line []byte, ev *Event) bool {
	r := p.newRecord()
	for rest := line; len(rest) > 0; {
		key, value, after, ok := logfmtPair(rest)
		if !ok {
			return false
		}
		r.keep(atTop, r.root(), key, value)
		rest = after
	}
	return r.known(p, line, ev) || r.event(p, ev)
}

// logfmtPair splits off the first pair.
func logfmtPair(b []byte) (key, value, rest []byte, ok bool) {
	i := 0
	for i < len(b) && logfmtKey(b[i]) {
		i++
	}
	if i == 0 || i == len(b) || b[i] != '=' {
		return nil, nil, nil, false
	}
	key, b = b[:i], b[i+1:]
	if len(b) > 0 && b[0] == '"' {
		end := stringEnd(b, 0)
		if end < 0 || end < len(b) && b[end] != ' ' {
			return nil, nil, nil, false
		}
		return key, b[1 : end-1], bytes.TrimLeft(b[end:], " "), true
	}
	end := bytes.IndexByte(b, ' ')
	if end < 0 {
		end = len(b)
	}
	return key, b[:end], bytes.TrimLeft(b[end:], " "), true
}

func logfmtKey(c byte) bool {
	return (c|0x20)-'a' <= 25 || c-'0' <= 9 || c == '_' || c == '-' || c == '.' || c == '@'
}
