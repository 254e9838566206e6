package record

import (
	"bytes"
	"time"

	"stoplog/internal/parse/scan"
)

// Container unwraps what a container runtime wrote around one line of a
// program's output: Docker's json-file {"log":"…\n","stream":"stdout","time":"…"}
// and CRI's "2026-11-20T09:23:10.1Z stdout F …" (kubernetes, design-proposals,
// kubelet-cri-logging). Only whole lines are unwrapped: CRI's "P" is a part. ns is
// the runtime's timestamp. A text with escapes is appended to *memory.
func Container(line []byte, memory *[]byte, ref int64, loc *time.Location) (inner []byte, ns int64, ok bool) {
	if len(line) < 20 {
		return nil, 0, false
	}
	if line[0] == '{' {
		return docker(line, memory, ref, loc)
	}
	if line[0] != '2' && line[0] != '1' || line[4] != '-' || line[10] != 'T' {
		return nil, 0, false
	}
	stamp, rest := scan.Word(line)
	if len(rest) < 9 || rest[0] != 's' || rest[7] != 'F' {
		return nil, 0, false
	}
	inner, ok = scan.After(rest, "stdout F ")
	if !ok {
		inner, ok = scan.After(rest, "stderr F ")
	}
	ns, end, stamped := scan.Stamp(stamp, ref, loc)
	return inner, ns, ok && stamped && len(end) == 0
}

func docker(line []byte, memory *[]byte, ref int64, loc *time.Location) ([]byte, int64, bool) {
	const head = `{"log":`
	if !scan.HasPrefix(line, head) {
		return nil, 0, false
	}
	end := StringEnd(line, len(head))
	if end < 0 {
		return nil, 0, false
	}
	// Docker ends each whole line so, and goes on with the stream; a record of an
	// application's own that begins like one does not.
	rest := line[end:]
	if !scan.HasPrefix(rest, `,"stream":"std`) {
		return nil, 0, false
	}
	text, whole := scan.Before(Text(line[len(head)+1:end-1], memory), "\n")
	_, stamp, ok := scan.Last(rest, `"time":"`)
	if !whole || !ok {
		return nil, 0, false
	}
	ns, tail, ok := scan.Stamp(stamp, ref, loc)
	return bytes.TrimRight(text, "\r\n"), ns, ok && string(tail) == `"}`
}

// Compose drops the "name  | " that docker compose writes before each line.
func Compose(line []byte) []byte {
	i := 0
	for i < len(line) && i < 64 && ((line[i]|0x20)-'a' <= 25 || line[i]-'0' <= 9 || line[i] == '-' || line[i] == '_' || line[i] == '.') {
		i++
	}
	name := i
	for i < len(line) && line[i] == ' ' {
		i++
	}
	if name == 0 || i == name || i+1 >= len(line) || line[i] != '|' || line[i+1] != ' ' {
		return line
	}
	return line[i+2:]
}
