package bucket

import "encoding/binary"

const distinctVersion = 1

// AppendBinary appends what Distinct holds to b.
func (d *Distinct) AppendBinary(b []byte) []byte {
	b = append(b, distinctVersion)
	b = binary.LittleEndian.AppendUint64(b, d.evicted)
	b = binary.AppendUvarint(b, uint64(d.n))
	d.each(func(r *ring) {
		b = binary.LittleEndian.AppendUint64(appendKey(b, r.key), uint64(r.last))
		b = binary.AppendUvarint(b, uint64(r.n))
		for i := r.oldest; i != 0; i = d.nodes[i].newer {
			v := &d.nodes[i]
			b = binary.LittleEndian.AppendUint64(appendKey(b, v.value), uint64(v.mark)<<32|uint64(v.count))
			b = binary.LittleEndian.AppendUint64(b, uint64(v.last))
		}
	})
	return b
}

// Restore replaces what Distinct holds by what AppendBinary wrote at the
// beginning of b and returns what follows. Of a key with more values than the
// cap the latest are kept; keys over the bounds go at the next Pour. On an
// error nothing is held.
func (d *Distinct) Restore(b []byte) (rest []byte, err error) {
	d.clear()
	r := reader{b: b}
	version, evicted := r.byte(), r.uint64()
	for range r.count(26) {
		d.restoreKey(&r)
	}
	if r.bad || version != distinctVersion {
		d.clear()
		return nil, errShort
	}
	d.evicted = evicted
	return r.b, nil
}

func (d *Distinct) restoreKey(r *reader) {
	k, last := r.key(), int64(r.uint64())
	if r.bad || d.find(k) != nil || last != clamp(last) {
		r.bad = true
		return
	}
	ring := d.add(k, last)
	before := int64(-maxAt)
	for range r.count(33) {
		value := r.key()
		marked, last := r.uint64(), int64(r.uint64())
		if r.bad || d.lookup(ring, value) != 0 || last < before || last > ring.last {
			r.bad = true
			return
		}
		before = last
		if int(ring.n) >= d.cap {
			d.drop(ring, ring.oldest)
		}
		i := d.take(ring, value)
		v := &d.nodes[i]
		v.count, v.mark, v.last = int32(min(marked&(1<<32-1), 1<<30)), uint32(marked>>32), last
		d.link(ring, i)
	}
}
