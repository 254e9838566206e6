package web

import (
	"errors"
	"fmt"
	"strings"

	"stoplog/internal/parse/event"
)

// format is a compiled access log format: literals and the fields between
// them, matched in one pass without allocation. It is immutable.
type format struct {
	whole  reader // for formats that have a scanner of their own
	pieces []piece
	addr   int                    // index of the piece with the peer's address
	back   bool                   // what stands before the address may hold anything: match from the end
	open   bool                   // more may follow the last piece
	may    func(line []byte) bool // a first look at the shape of a preset's lines
	exact  bool                   // a line that does not fit to its end is of another format
}

// piece is a field and the literal in front of it. The last one of a format
// may have no field.
type piece struct {
	lit  string
	kind fieldKind
	grip grip
	name string // header of fieldHeader, in lower case
}

// fieldKind is what a field says.
type fieldKind uint8

const (
	fieldSkip fieldKind = iota
	fieldAddr
	fieldUser
	fieldTime
	fieldRequest
	fieldMethod
	fieldURI
	fieldQuery
	fieldStatus
	fieldAgent
	fieldReferrer
	fieldHost
	fieldHeader
	fieldEnd // no field: the format's last literal
)

// grip is how well the end of a field is known.
type grip uint8

const (
	tight     grip = iota // the server makes it, without spaces
	inQuotes              // in quotes, which the server escapes inside
	loose                 // it may hold anything
	bareLoose             // and quotes around it hold nothing together (escape=none)
)

// reader is a scanner that is a method of a Reader.
type reader func(w *Reader, env *event.Message, line []byte, ev *event.Event) bool

// namedFormat is the scanner of a format that a word names.
func namedFormat(name string) reader {
	switch strings.ToLower(name) {
	case "combined", "common", "main", "vhost", "vhost_combined":
		return (*Reader).accessLog
	case "json":
		return (*Reader).JSON
	case "logfmt":
		return (*Reader).logfmtLog
	case "haproxy":
		return (*Reader).haproxyLog
	case "squid":
		return (*Reader).squidLog
	case "nginx-error":
		return (*Reader).nginxError
	case "apache-error":
		return (*Reader).apacheError
	case "lighttpd-error":
		return (*Reader).lighttpdError
	case "npm", "zoraxy", "alb", "elb", "iis", "cloudfront":
		return (*Reader).presets
	}
	return nil
}

// compileFormat reads the name of a format, an nginx log_format (with or
// without the directive's name and quotes around it), an Apache LogFormat, or
// a W3C "#Fields:" line. "" and "auto" are to sniff: nil. A format whose client
// cannot be told from what clients write is an error.
func compileFormat(spec string) (*format, error) {
	text := strings.TrimSpace(spec)
	if text == "" || text == "auto" {
		return nil, nil
	}
	if s := namedFormat(text); s != nil {
		return &format{whole: s}, nil
	}
	f, err := compilePattern(text)
	if err != nil {
		return nil, fmt.Errorf("format %q: %w", spec, err)
	}
	return f, nil
}

func compilePattern(text string) (*format, error) {
	var pieces []piece
	var err error
	switch {
	case strings.HasPrefix(text, "#Fields:"):
		pieces, err = w3cPieces(text)
	case strings.ContainsRune(text, '$'):
		pieces, err = nginxPieces(text)
	case strings.ContainsRune(text, '%'):
		pieces, err = apachePieces(text)
	default:
		err = errors.New("neither a name that is known nor an nginx or Apache log format")
	}
	if err != nil {
		return nil, err
	}
	return newFormat(pieces)
}

// newFormat checks that no two fields touch, finds the address, and which end
// it has to be looked for from.
func newFormat(pieces []piece) (*format, error) {
	f := &format{pieces: pieces, addr: -1}
	for i := range pieces {
		pc := &pieces[i]
		if pc.kind == fieldEnd {
			continue
		}
		if i > 0 && pc.lit == "" {
			return nil, errors.New("two fields touch each other")
		}
		if pc.kind == fieldAddr && f.addr < 0 {
			f.addr = i
		}
		if pc.grip == loose && strings.HasSuffix(pc.lit, `"`) && i+1 < len(pieces) && strings.HasPrefix(pieces[i+1].lit, `"`) {
			pc.grip = inQuotes
		}
	}
	if f.addr < 0 {
		return nil, errors.New("it does not hold the peer's address ($remote_addr, %h or %a), without which no header can be believed")
	}
	before, after := looseIn(pieces[:f.addr]), looseIn(pieces[f.addr+1:])
	if before && after {
		return nil, errors.New("the address stands between fields that clients choose and that are not in quotes; put it first")
	}
	f.back = before
	return f, nil
}

func looseIn(ps []piece) bool {
	for _, pc := range ps {
		if pc.grip >= loose && pc.kind != fieldEnd {
			return true
		}
	}
	return false
}

// pasted strips what stands around a format in a server's configuration:
// "log_format name escape=json '…' '…';" and `LogFormat "…" name`. bare says
// that nothing in quotes is escaped.
func pasted(text, directive string) (inner string, bare bool) {
	rest, ok := strings.CutPrefix(text, directive)
	if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
		return strings.Trim(text, "'"), false
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		q := rest[i]
		if q != '\'' && q != '"' {
			continue
		}
		for i++; i < len(rest) && rest[i] != q; i++ {
			if rest[i] == '\\' && i+1 < len(rest) && q == '"' {
				i++
			}
			b.WriteByte(rest[i])
		}
	}
	return b.String(), strings.Contains(rest, "escape=none")
}
