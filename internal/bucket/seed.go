package bucket

import "math/bits"

// Seed places keys. Tables and spots of one seed agree.
type Seed [2]uint64

// NewSeed makes two odd, unequal words of a number, which should be random
// where keys come from strangers.
func NewSeed(seed uint64) Seed {
	a, b := bits.Mul64(seed^0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9)
	c, d := bits.Mul64(a^b^0x94d049bb133111eb, 0xd6e8feb86659fd93)
	return Seed{a ^ b ^ seed | 1, c ^ d ^ 0xa0761d6478bd642e | 1}
}

// HashedKey is a key and where tables of one seed put it.
type HashedKey struct {
	Key
	hash uint64
}

// Hash names the bucket of k for all tables of the seed.
func (s Seed) Hash(k Key) HashedKey { return HashedKey{k, s.hash(k.hi, k.lo, k.tag)} }

// hash mixes a key with the seed.
func (s Seed) hash(hi, lo uint64, tag uint8) uint64 {
	a, b := bits.Mul64(hi^s[0], lo^s[1]^uint64(tag)<<56^uint64(tag))
	a, b = bits.Mul64(a^b^s[1], s[0]^uint64(tag)*0x9e3779b97f4a7c15)
	return a ^ b
}
