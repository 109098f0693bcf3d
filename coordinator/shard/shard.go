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

// Key is the place of what an identity owns: a narrow route, or a part of a provider that many sources share.
type Key uint32

// Seeds of the kinds of key.
const (
	seedRoute = iota
	seedDomain
	seedAddress
)

// Route is the key of a narrow route: all its rows have one owner.
func Route(routeKey string) Key { return placeOf(routeKey, seedRoute) }

// Domain is the key of one domain of a wide provider, or of one with tenants.
func Domain(domain string) Key { return placeOf(domain, seedDomain) }

// Address is the key of one folded address at a consumer domain of a wide provider.
func Address(folded string) Key { return placeOf(folded, seedAddress) }

func placeOf(text string, seed uint64) Key { return Key(xxh3.HashStringSeed(text, seed) % places) }

// folded is the fold of a hash of the place.
func (k Key) folded() uint64 { return fold(mix(uint64(k) + 1)) }

// Identity is an egress identity that may own keys.
type Identity struct {
	Name string // stable across restarts, unique in the cluster
	Node string // the node that has it
}

// Set is an immutable set of identities, safe for any number of readers. The zero value is empty.
type Set struct {
	identities []Identity // by name
	folded     []uint64   // fold of the hashes of the names, in the same order
	owners     atomic.Pointer[owners]
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
func New(identities []Identity) (*Set, error) { return new(Set).Next(identities) }

// Next makes the set that follows this one, and takes over what it remembers.
func (s *Set) Next(identities []Identity) (*Set, error) {
	next := &Set{identities: slices.Clone(identities), folded: make([]uint64, len(identities))}
	slices.SortFunc(next.identities, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	for i, id := range next.identities {
		if i > 0 && next.identities[i-1].Name == id.Name {
			return nil, fmt.Errorf("identity %s: both %s and %s claim it", id.Name, next.identities[i-1].Node, id.Node)
		}
		next.folded[i] = fold(xxh3.HashString(id.Name))
	}
	next.carry(s)
	return next, nil
}

// Len is the number of identities.
func (s *Set) Len() int { return len(s.identities) }

// All lists the identities by name. It is the set's own memory: read only.
func (s *Set) All() []Identity { return s.identities }

// Owner is the identity that owns the key; false if the set is empty. The first call for a place takes time in
// proportion to the identities, later ones do not.
func (s *Set) Owner(k Key) (Identity, bool) {
	if len(s.folded) == 0 {
		return Identity{}, false
	}
	if len(s.folded) < minRemembered {
		return s.identities[s.heaviest(k)], true
	}
	known := s.owners.Load()
	for known == nil {
		s.owners.CompareAndSwap(nil, new(owners))
		known = s.owners.Load()
	}
	at := known[k].Load()
	if at == 0 {
		at = uint32(s.heaviest(k)) + 1
		known[k].Store(at)
	}
	return s.identities[at-1], true
}

// heaviest is the index of the identity with the largest weight for a key.
func (s *Set) heaviest(k Key) (at int) {
	best, key := uint64(0), k.folded()
	for i, name := range s.folded {
		if w := mix(key ^ name); w > best {
			best, at = w, i
		}
	}
	return at
}

// OwnerAmong is the owner of a key that only the first n identities in the ranking of another key may own; 0 is no
// limit. When one of them leaves, the next in the ranking takes its place: keys move only from the one and to the
// other.
func (s *Set) OwnerAmong(k, ranking Key, n int) (Identity, bool) {
	if n <= 0 || n >= len(s.folded) {
		return s.Owner(k)
	}
	return s.first(ranked{ranking, n}).Owner(k)
}

// first is the set of the first identities in a ranking. It is ranked once; two callers may both rank it the first
// time.
func (s *Set) first(r ranked) *Set {
	known := s.ranked.Load()
	if known != nil && (*known)[r] != nil {
		return (*known)[r]
	}
	order := make([]int, len(s.folded))
	weights := make([]uint64, len(s.folded))
	for i, name := range s.folded {
		order[i], weights[i] = i, mix(r.ranking.folded()^name)
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

// An identity's weight for a key is mix(fold(key's hash) ^ fold(hash of its name)): the 64-bit finalizer of MurmurHash3
// of the XOR of both hashes, in two steps, as the first one distributes over XOR. It is a bijection: two identities tie
// only if their names' hashes are equal.
func fold(h uint64) uint64 { return h ^ h>>33 }

func mix(h uint64) uint64 {
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
