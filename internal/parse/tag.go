package parse

import (
	"bytes"

	"stoplog/internal/parse/scan"
)

// tagged reads a tag at word's start, whose first word is tok, and returns
// what follows: "sshd[12]:", "sshd:", "sshd[12]", "(sshd)[12]:",
// "pam_unix(sshd:auth):", "pop(pam_unix)[12]:", and behind a host's name also
// "[name][12]" and "name(pam_unix)". "name   [12]:" is one, too.
func tagged(word, tok []byte, e *envelope) (rest []byte, ok bool) {
	i := 0
	for i < len(tok) && scan.TagByte(tok[i]) {
		i++
	}
	if i == 0 {
		return boxedTag(word, tok, e)
	}
	name := tok[:i]
	if i == len(tok) {
		return spacedPID(word, name, e)
	}
	if tok[i] == '(' {
		n := bytes.IndexByte(tok[i:], ')')
		if n < 0 {
			return nil, false
		}
		i += n + 1
		if e.host == nil && i == len(tok) {
			return nil, false
		}
	}
	pid, after, ok := tagEnd(tok[i:], word[i:])
	if !ok {
		return nil, false
	}
	e.pid = pid
	setTag(e, name, tok[len(name):i])
	return after, true
}

// tagEnd reads "[12]:", "[12]", ":" or nothing, which must end tok; word is
// tok with what follows it.
func tagEnd(tok, word []byte) (pid, after []byte, ok bool) {
	i := 0
	if len(tok) > 0 && tok[0] == '[' {
		for i = 1; i < len(tok) && tok[i]-'0' <= 9; i++ {
		}
		if i == 1 || i == len(tok) || tok[i] != ']' {
			return nil, nil, false
		}
		pid = tok[1:i]
		i++
	}
	if i < len(tok) && tok[i] == ':' {
		i++
	}
	return pid, word[i:], i == len(tok)
}

func setTag(e *envelope, name, suffix []byte) {
	if name[0] == '/' {
		_, base, _ := scan.Last(name, "/")
		if len(base) > 0 {
			name = base
		}
	}
	if len(suffix) > 0 {
		e.module = suffix
		if bytes.HasPrefix(name, []byte("pam_")) {
			svc, _, _ := scan.Cut(suffix[1:len(suffix)-1], ":")
			if len(svc) > 0 {
				name = svc
			}
		}
	}
	e.tag = name
}

// boxedTag reads "(sshd)[12]:", and "[name][12]" behind a host's name.
func boxedTag(word, tok []byte, e *envelope) ([]byte, bool) {
	shut := byte(')')
	switch {
	case tok[0] == '[' && e.host != nil:
		shut = ']'
	case tok[0] != '(':
		return nil, false
	}
	n := bytes.IndexByte(tok, shut)
	if n < 2 || !hostWord(tok[1:n]) {
		return nil, false
	}
	pid, after, ok := tagEnd(tok[n+1:], word[n+1:])
	if !ok || shut == ')' && n+1 == len(tok) {
		return nil, false
	}
	e.pid = pid
	setTag(e, tok[1:n], nil)
	return after, true
}

// spacedPID reads the "   [12]:" of a tag that was padded.
func spacedPID(word, name []byte, e *envelope) ([]byte, bool) {
	rest := word[len(name):]
	if len(rest) < 4 || rest[0] != ' ' {
		return nil, false
	}
	rest = scan.TrimLeft(rest)
	if len(rest) < 4 || rest[0] != '[' {
		return nil, false
	}
	tok, _ := scan.Word(rest)
	pid, after, ok := tagEnd(tok, rest)
	if !ok || pid == nil || tok[len(tok)-1] != ':' {
		return nil, false
	}
	e.pid = pid
	setTag(e, name, nil)
	return after, true
}
