package export

import (
	"bufio"
	"encoding/json"
	"time"
)

type jsonBlock struct {
	Prefix string     `json:"prefix"`
	Until  *time.Time `json:"until,omitempty"`
	Rule   string     `json:"rule"`
	Count  int        `json:"count"`
	Points int        `json:"points"`
	// Of limited blocks: what is closed, all when absent, and how many new
	// connections a minute pass, none when absent.
	Ports []string `json:"ports,omitempty"`
	Rate  int      `json:"rate,omitempty"`
}

// writeJSON writes one object:
// {"blocks":[{"prefix","until","rule","count","points"}…],"left_out":0}, and
// when there are any, "limited":[…] with "ports" or "rate" and "note", which
// says how to have them among the blocks. A block that has no end has no
// "until".
func writeJSON(w *bufio.Writer, l *List) {
	put(w, `{"blocks":[`)
	for i, p := range l.pieces {
		writeBlock(w, l, p, i > 0, Limit{})
	}
	put(w, "\n]")
	if len(l.classes) > 0 {
		put(w, `,"limited":[`)
		more := false
		for _, c := range l.classes {
			for _, p := range c.pieces {
				writeBlock(w, l, p, more, c.Limit)
				more = true
			}
		}
		put(w, "\n],\"note\":\"limited blocks cover some ports or limit the rate; ports: any in the rules, or --all-ports, lists them with the other blocks\"")
	}
	put(w, ",\"left_out\":")
	putInt(w, int64(l.Left))
	put(w, "}\n")
}

func writeBlock(w *bufio.Writer, l *List, p piece, more bool, limit Limit) {
	e := &l.entries[p.entry]
	b := jsonBlock{Prefix: p.String(), Rule: l.rule(p), Count: e.Count, Points: e.Points, Ports: limit.List(), Rate: limit.Rate}
	if p.end != forever {
		t := time.Unix(p.end, 0).UTC()
		b.Until = &t
	}
	text, err := json.Marshal(b)
	if err != nil { // a year beyond 9999
		b.Until = nil
		text, _ = json.Marshal(b)
	}
	if more {
		put(w, ",")
	}
	put(w, "\n")
	w.Write(text)
}

// writeCSV is RFC 4180 with a header line. No field needs quotes: rules' names
// are written in letters, digits, "-", "_" and ".".
func writeCSV(w *bufio.Writer, l *List) {
	put(w, "prefix,until,rule,count,points\r\n")
	for _, p := range l.pieces {
		putPrefix(w, p.Prefix)
		put(w, ",")
		if p.end != forever {
			put(w, time.Unix(p.end, 0).UTC().Format(time.RFC3339))
		}
		put(w, ",", l.rule(p), ",")
		putInt(w, int64(l.entries[p.entry].Count))
		put(w, ",")
		putInt(w, int64(l.entries[p.entry].Points))
		put(w, "\r\n")
	}
}
