package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// Key is the hash of what an identity owns: a narrow route, or a part of a provider that many sources share.
type Key struct {
	hash    uint64
	repeats bool // it is the key of many rows: its owner is worth remembering
}

// Seeds of the kinds of key.
const (
	seedRoute = iota
	seedDomain
	seedAddress
)

// Route is the key of a narrow route: all its rows have one owner.
func Route(routeKey string) Key { return Key{xxh3.HashStringSeed(routeKey, seedRoute), true} }

// Domain is the key of one domain of a wide provider, or of one with tenants.
func Domain(domain string) Key { return Key{xxh3.HashStringSeed(domain, seedDomain), true} }

// Address is the key of one folded address at a consumer domain of a wide provider.
func Address(folded string) Key { return Key{xxh3.HashStringSeed(folded, seedAddress), false} }

// Identity is an egress identity that may own keys.
type Identity struct {
	Name string // stable across restarts, unique in the cluster
	Node string // the node that has it
}

// Set is an immutable set of identities, safe for any number of readers. The zero value is empty.
type Set struct {
	identities []Identity // by name
	folded     []uint64   // fold of the hashes of the names, in the same order
	owners     ownerCache // of routes and domains
	ranked     atomic.Pointer[map[ranked]*Set]
}

// ranked is the first identities of a set in the ranking of a key.
type ranked struct {
	ranking Key
	n       int
}

// maxRanked bounds the rankings that a set remembers: more than a table has providers with a limited number of sources.
const maxRanked = 256

// New makes a set. Two identities with one name are refused: both would use the same receiver's budget.
func New(identities []Identity) (*Set, error) {
	s := &Set{identities: slices.Clone(identities), folded: make([]uint64, len(identities))}
	slices.SortFunc(s.identities, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	for i, id := range s.identities {
		if i > 0 && s.identities[i-1].Name == id.Name {
			return nil, fmt.Errorf("identity %s: both %s and %s claim it", id.Name, s.identities[i-1].Node, id.Node)
		}
		s.folded[i] = fold(xxh3.HashString(id.Name))
	}
	return s, nil
}

// Len is the number of identities.
func (s *Set) Len() int { return len(s.identities) }

// All lists the identities by name. It is the set's own memory: read only.
func (s *Set) All() []Identity { return s.identities }

// Owner is the identity that owns the key; false if the set is empty. The first call for a key takes time in proportion to the
// identities, and so does each for an address, which is seldom asked twice; later ones for a route or a domain do not.
func (s *Set) Owner(k Key) (Identity, bool) {
	if len(s.folded) == 0 {
		return Identity{}, false
	}
	if !k.repeats || len(s.folded) < minCached || len(s.folded) > maxCached {
		return s.identities[s.heaviest(k)], true
	}
	at, ok := s.owners.get(k)
	if !ok {
		at = s.heaviest(k)
		s.owners.put(k, at)
	}
	return s.identities[at], true
}

// heaviest is the index of the identity with the largest weight for a key.
func (s *Set) heaviest(k Key) (at int) {
	best, key := uint64(0), fold(k.hash)
	for i, name := range s.folded {
		if w := mix(key ^ name); w > best {
			best, at = w, i
		}
	}
	return at
}

// OwnerAmong is the owner of a key that only the first n identities in the ranking of another key may own; 0 is no limit.
// When one of them leaves, the next in the ranking takes its place: keys move only from the one and to the other.
func (s *Set) OwnerAmong(k, ranking Key, n int) (Identity, bool) {
	if n <= 0 || n >= len(s.folded) {
		return s.Owner(k)
	}
	return s.first(ranked{ranking, n}).Owner(k)
}

// first is the set of the first identities in a ranking. It is ranked once; two callers may both rank it the first time.
func (s *Set) first(r ranked) *Set {
	known := s.ranked.Load()
	if known != nil && (*known)[r] != nil {
		return (*known)[r]
	}
	order := make([]int, len(s.folded))
	weights := make([]uint64, len(s.folded))
	for i, name := range s.folded {
		order[i], weights[i] = i, mix(fold(r.ranking.hash)^name)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	order = order[:r.n]
	slices.Sort(order) // by name again
	sub := &Set{identities: make([]Identity, r.n), folded: make([]uint64, r.n)}
	for i, at := range order {
		sub.identities[i], sub.folded[i] = s.identities[at], s.folded[at]
	}
	next := map[ranked]*Set{}
	if known != nil && len(*known) < maxRanked {
		maps.Copy(next, *known)
	}
	next[r] = sub
	s.ranked.Store(&next)
	return sub
}

// An identity's weight for a key is mix(fold(key) ^ fold(hash of its name)): the 64-bit finalizer of MurmurHash3 of key XOR hash, in
// two steps, as the first one distributes over XOR. It is a bijection: two identities tie only if their names' hashes are equal.
func fold(h uint64) uint64 { return h ^ h>>33 }

func mix(h uint64) uint64 {
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
