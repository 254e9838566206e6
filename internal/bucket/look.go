package bucket

// Look is a place that will be poured to soon.
type Look struct {
	table *Table
	heads []uint64 // of evidence, when there is no table
	hash  uint64   // or the number of a head
}

// Look names the place of p, for Fetch.
func (t *Table) Look(p Spot) Look { return Look{table: t, hash: p.hash} }

// Look names the place where lines of k are found, for Fetch.
func (e *Evidence) Look(k Key, scope uint32) Look {
	return Look{heads: e.heads, hash: uint64(e.slot(k, scope))}
}

// Fetch looks at all places, so that what is done there soon after finds them
// in the processor's cache. Its loops are short and ask nothing of what they
// have just fetched, so that the waits for memory overlap. What it returns
// means nothing, but must be used for the looks to happen.
func Fetch(looks []Look) (x uint64) {
	for i := range looks {
		l := &looks[i]
		if l.table == nil {
			x |= l.heads[l.hash]
		} else if len(l.table.index) > 0 {
			x |= uint64(l.table.index[l.table.home(l.hash)])
		}
	}
	for i := range looks {
		t := looks[i].table
		if t == nil || len(t.index) == 0 {
			continue
		}
		if v := t.index[t.home(looks[i].hash)]; v&t.numbers != 0 {
			x |= t.slot(int(v&t.numbers) - 1).meta
		}
	}
	return x
}
