package web

import (
	"errors"
	"strings"
)

// nginxPieces reads an nginx log_format (ngx_http_log_module): literals and
// $variables or ${variables}.
func nginxPieces(text string) ([]piece, error) {
	text, bare := pasted(text, "log_format")
	var out []piece
	lit := ""
	for text != "" {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			lit += text
			break
		}
		lit += text[:i]
		name, rest := variable(text[i+1:])
		if name == "" {
			return nil, errors.New("a $ without a variable's name")
		}
		out = append(out, nginxVariable(lit, name, bare))
		lit, text = "", rest
	}
	return append(out, piece{lit: lit, kind: fieldEnd}), nil
}

// variable splits off a variable's name.
func variable(s string) (name, rest string) {
	if strings.HasPrefix(s, "{") {
		if i := strings.IndexByte(s, '}'); i > 0 {
			return s[1:i], s[i+1:]
		}
		return "", s
	}
	i := 0
	for i < len(s) && ((s[i]|0x20)-'a' <= 25 || s[i]-'0' <= 9 || s[i] == '_') {
		i++
	}
	return s[:i], s[i:]
}

// nginxVariables are those with a meaning for us; what clients fill is loose.
var nginxVariables = map[string]piece{
	"remote_addr":         {kind: fieldAddr},
	"remote_user":         {kind: fieldUser, grip: loose},
	"time_local":          {kind: fieldTime},
	"time_iso8601":        {kind: fieldTime},
	"msec":                {kind: fieldTime},
	"request":             {kind: fieldRequest, grip: loose},
	"request_method":      {kind: fieldMethod},
	"request_uri":         {kind: fieldURI, grip: loose},
	"uri":                 {kind: fieldURI, grip: loose},
	"document_uri":        {kind: fieldURI, grip: loose},
	"args":                {kind: fieldQuery, grip: loose},
	"query_string":        {kind: fieldQuery, grip: loose},
	"status":              {kind: fieldStatus},
	"http_user_agent":     {kind: fieldAgent, grip: loose},
	"http_referer":        {kind: fieldReferrer, grip: loose},
	"http_host":           {kind: fieldHost, grip: loose},
	"host":                {kind: fieldHost},
	"server_name":         {kind: fieldHost},
	"proxy_protocol_addr": {kind: fieldHeader, name: "proxy-protocol-addr"},
}

// nginxVariable is the piece of a variable. Those of upstreams are lists with
// spaces; those of requests hold anything; of the rest the server makes a word.
func nginxVariable(lit, name string, bare bool) piece {
	pc, ok := nginxVariables[name]
	if !ok {
		if h, is := strings.CutPrefix(name, "http_"); is {
			pc = piece{kind: fieldHeader, grip: loose, name: strings.ReplaceAll(h, "_", "-")}
		}
		for _, p := range [...]string{"arg_", "cookie_", "sent_http_", "upstream_", "ssl_client_", "request_body", "proxy_add_", "jwt_", "request_filename"} {
			if strings.HasPrefix(name, p) {
				pc.grip = loose
			}
		}
	}
	pc.lit = lit
	if bare && pc.grip == loose {
		pc.grip = bareLoose
	}
	return pc
}

// apachePieces reads an Apache LogFormat (mod_log_config).
func apachePieces(text string) ([]piece, error) {
	text, _ = pasted(text, "LogFormat")
	text = strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\\`, `\`).Replace(text)
	var out []piece
	lit := ""
	for text != "" {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			lit += text
			break
		}
		lit += text[:i]
		text = text[i+1:]
		if strings.HasPrefix(text, "%") {
			lit, text = lit+"%", text[1:]
			continue
		}
		arg, verb, rest, err := apacheVerb(text)
		if err != nil {
			return nil, err
		}
		pc := apachePiece(arg, verb)
		pc.lit = lit
		lit, text = "", rest
		if verb == "t" && arg == "" {
			pc.lit, lit = pc.lit+"[", "]"
		}
		out = append(out, pc)
	}
	return append(out, piece{lit: lit, kind: fieldEnd}), nil
}

// apacheVerb reads what follows a %: conditions on the status, < or >, an
// argument in braces, and the letter, which may be two after ^.
func apacheVerb(s string) (arg, verb, rest string, err error) {
	s = strings.TrimLeft(s, "!0123456789,<>")
	if strings.HasPrefix(s, "{") {
		i := strings.IndexByte(s, '}')
		if i < 0 {
			return "", "", "", errors.New("a { without its }")
		}
		arg, s = s[1:i], s[i+1:]
	}
	n := 1
	if strings.HasPrefix(s, "^") {
		n = 3
	}
	if len(s) < n {
		return "", "", "", errors.New("a % at the end")
	}
	return arg, s[:n], s[n:], nil
}

// apachePiece is the piece of a directive.
func apachePiece(arg, verb string) piece {
	switch verb {
	case "h":
		return piece{kind: fieldAddr}
	case "a":
		if arg == "c" {
			return piece{}
		}
		return piece{kind: fieldAddr}
	case "u":
		return piece{kind: fieldUser, grip: loose}
	case "t":
		return piece{kind: fieldTime}
	case "r":
		return piece{kind: fieldRequest, grip: loose}
	case "m":
		return piece{kind: fieldMethod}
	case "U":
		return piece{kind: fieldURI, grip: loose}
	case "q":
		return piece{kind: fieldQuery, grip: loose}
	case "s":
		return piece{kind: fieldStatus}
	case "v", "V":
		return piece{kind: fieldHost}
	case "i":
		return headerPiece(arg)
	case "A", "B", "b", "D", "H", "I", "k", "L", "l", "O", "p", "P", "R", "S", "T", "X":
		return piece{}
	}
	return piece{grip: loose}
}

func headerPiece(arg string) piece {
	switch h := strings.ToLower(arg); h {
	case "user-agent":
		return piece{kind: fieldAgent, grip: loose}
	case "referer":
		return piece{kind: fieldReferrer, grip: loose}
	case "host":
		return piece{kind: fieldHost, grip: loose}
	default:
		return piece{kind: fieldHeader, grip: loose, name: h}
	}
}

// w3cPieces reads a "#Fields:" line of the W3C extended log file format, which
// IIS and CloudFront write: words, in which spaces were replaced.
func w3cPieces(text string) ([]piece, error) {
	names := strings.Fields(strings.TrimPrefix(text, "#Fields:"))
	kinds := map[string]fieldKind{
		"c-ip": fieldAddr, "cs-username": fieldUser, "cs-method": fieldMethod, "cs-uri-stem": fieldURI,
		"cs-uri-query": fieldQuery, "sc-status": fieldStatus, "cs(user-agent)": fieldAgent,
		"cs(referer)": fieldReferrer, "cs-host": fieldHost, "cs(host)": fieldHost, "x-host-header": fieldHost,
		"cs-uri": fieldURI,
	}
	var out []piece
	sep := ""
	for i := 0; i < len(names); i++ {
		name := strings.ToLower(names[i])
		pc := piece{lit: sep, kind: kinds[name]}
		if name == "date" && i+1 < len(names) && strings.EqualFold(names[i+1], "time") {
			pc.kind = fieldTime
			i++
		}
		if h, ok := strings.CutPrefix(name, "cs("); ok && pc.kind == fieldSkip {
			pc.kind, pc.name = fieldHeader, strings.TrimSuffix(h, ")")
		}
		out = append(out, pc)
		sep = " "
	}
	return append(out, piece{kind: fieldEnd}), nil
}
