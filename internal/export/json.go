package export

import (
	"bufio"
	"encoding/json"
	"time"
)

// json is one object: {"blocks":[{"prefix","until","rule","count"}…],"left_out":0}.
// A block that has no end has no "until".
func jsonFormat() format {
	return format{Format{Name: "json", About: "one object with every block: prefix, until, rule, count", MIME: "application/json", Cap: everything},
		byEntry, writeJSON}
}

type jsonBlock struct {
	Prefix string     `json:"prefix"`
	Until  *time.Time `json:"until,omitempty"`
	Rule   string     `json:"rule"`
	Count  int        `json:"count"`
}

func writeJSON(w *bufio.Writer, l *List) {
	put(w, `{"blocks":[`)
	for i, p := range l.pieces {
		if i > 0 {
			put(w, ",")
		}
		b := jsonBlock{Prefix: p.String(), Rule: l.rule(p), Count: l.entries[p.entry].Count}
		if p.end != forever {
			t := time.Unix(p.end, 0).UTC()
			b.Until = &t
		}
		text, err := json.Marshal(b)
		if err != nil { // a year beyond 9999
			b.Until = nil
			text, _ = json.Marshal(b)
		}
		put(w, "\n")
		w.Write(text)
	}
	put(w, "\n],\"left_out\":")
	putInt(w, int64(l.Left))
	put(w, "}\n")
}
