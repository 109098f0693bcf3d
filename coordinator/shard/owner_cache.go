package shard

import "sync/atomic"

// Sets of fewer identities than minCached do not use their cache: it would cost more than the weights. An entry has no room for the
// indexes of more than maxCached.
const (
	minCached = 64
	maxCached = 1<<16 - 1
)

// ownerCache has the owners of up to 65,536 keys: for each value of a key's lower 16 bits the last one, in half a megabyte.
// The zero value is empty. Safe for concurrent use.
type ownerCache struct {
	pages [1 << 8]atomic.Pointer[cachePage] // by the lower 8 bits of the key
}

// cachePage has its entries by bits 8 to 15 of the key: above bit 16 they are the key's, below the index of its owner plus 1.
type cachePage [1 << 8]atomic.Uint64

// get returns the index of a key's owner.
func (c *ownerCache) get(k Key) (at int, ok bool) {
	p := c.pages[byte(k.hash)].Load()
	if p == nil {
		return 0, false
	}
	entry := p[byte(k.hash>>8)].Load()
	return int(uint16(entry)) - 1, entry>>16 == k.hash>>16 && uint16(entry) != 0
}

// put remembers the index of a key's owner.
func (c *ownerCache) put(k Key, at int) {
	page := &c.pages[byte(k.hash)]
	p := page.Load()
	for p == nil {
		page.CompareAndSwap(nil, new(cachePage))
		p = page.Load()
	}
	p[byte(k.hash>>8)].Store(k.hash&^0xffff | uint64(at+1))
}
