package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// Key is the hash of what an identity owns: a narrow route, or a part of a provider that many sources share.
type Key uint64

// Seeds of the kinds of key.
const (
	seedRoute = iota
	seedDomain
	seedAddress
)

// Route is the key of a narrow route: all its rows have one owner.
func Route(routeKey string) Key { return Key(xxh3.HashStringSeed(routeKey, seedRoute)) }

// Domain is the key of one domain of a wide provider, or of one with tenants.
func Domain(domain string) Key { return Key(xxh3.HashStringSeed(domain, seedDomain)) }

// Address is the key of one folded address at a consumer domain of a wide provider.
func Address(folded string) Key { return Key(xxh3.HashStringSeed(folded, seedAddress)) }

// Identity is an egress identity that may own keys.
type Identity struct {
	Name string // stable across restarts, unique in the cluster
	Node string // the node that has it
}

// Set is an immutable set of identities, safe for any number of readers. The zero value is empty.
type Set struct {
	identities []Identity // by name
	hashes     []uint64   // of the names, in the same order
}

// New makes a set. Two identities with one name are refused: both would use the same receiver's budget.
func New(identities []Identity) (*Set, error) {
	s := &Set{identities: slices.Clone(identities), hashes: make([]uint64, len(identities))}
	slices.SortFunc(s.identities, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	for i, id := range s.identities {
		if i > 0 && s.identities[i-1].Name == id.Name {
			return nil, fmt.Errorf("identity %s: both %s and %s claim it", id.Name, s.identities[i-1].Node, id.Node)
		}
		s.hashes[i] = xxh3.HashString(id.Name)
	}
	return s, nil
}

// Len is the number of identities.
func (s *Set) Len() int { return len(s.identities) }

// All lists the identities by name. It is the set's own memory: read only.
func (s *Set) All() []Identity { return s.identities }

// Owner is the identity that owns the key; false if the set is empty. It does not allocate.
func (s *Set) Owner(k Key) (Identity, bool) {
	best, at := uint64(0), -1
	for i, h := range s.hashes {
		if score := weight(k, h); at < 0 || score > best {
			best, at = score, i
		}
	}
	if at < 0 {
		return Identity{}, false
	}
	return s.identities[at], true
}

// OwnerAmong is the owner of a key that only the first n identities in the ranking of another key may own; 0 is no limit.
// When one of them leaves, the next in the ranking takes its place: keys move only from the one and to the other.
func (s *Set) OwnerAmong(k, ranking Key, n int) (Identity, bool) {
	if n <= 0 || n >= len(s.hashes) {
		return s.Owner(k)
	}
	ranked := make([]int, len(s.hashes))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortFunc(ranked, func(a, b int) int { return cmp.Compare(weight(ranking, s.hashes[b]), weight(ranking, s.hashes[a])) })
	at := slices.MaxFunc(ranked[:n], func(a, b int) int { return cmp.Compare(weight(k, s.hashes[a]), weight(k, s.hashes[b])) })
	return s.identities[at], true
}

// weight is an identity's weight for a key. It is the 64-bit finalizer of MurmurHash3, a bijection: two identities tie only
// if their names' hashes are equal.
func weight(k Key, name uint64) uint64 {
	h := uint64(k) ^ name
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
