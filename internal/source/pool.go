package source

import "sync"

const (
	smallBlock = 4 << 10
	largeBlock = 128 << 10 // with its lines it stays within a core's second-level cache
	smallLines = 32
)

// block is the memory of one batch: the bytes, the lines that alias them, and
// the batch itself, so that handing on lines allocates nothing.
type block struct {
	batch   Batch
	bytes   []byte
	lines   []Line
	entries []Entry
	home    *sync.Pool
}

// pools hold blocks of two sizes between uses. They start empty and the
// garbage collector drains them when nothing is read.
type pools struct {
	small, large sync.Pool
	heads        sync.Pool // of *[printMax]byte, to compare fingerprints
}

// head returns memory for the beginning of a file, until it is put back.
func (p *pools) head() *[printMax]byte {
	if h, ok := p.heads.Get().(*[printMax]byte); ok {
		return h
	}
	return new([printMax]byte)
}

// get returns a block of at least size bytes. Sizes over the large block are
// not pooled.
func (p *pools) get(size int) *block {
	pool, n := &p.small, smallBlock
	if size > smallBlock {
		pool, n = &p.large, largeBlock
	}
	if size > n {
		return &block{bytes: make([]byte, size)}
	}
	if b, ok := pool.Get().(*block); ok {
		return b
	}
	return &block{bytes: make([]byte, n), lines: make([]Line, 0, smallLines), home: pool}
}

// put gives a block back that was never handed on as a batch.
func (b *block) put() {
	if b.home == nil {
		return
	}
	clear(b.lines)
	b.batch, b.lines, b.entries = Batch{}, b.lines[:0], b.entries[:0]
	b.home.Put(b)
}

// asBatch makes a batch of the block's lines; its release returns the block.
func (b *block) asBatch() *Batch {
	b.batch = Batch{Lines: b.lines, Done: releaseBlock, block: b}
	return &b.batch
}

func releaseBlock(b *Batch) { b.block.put() }
