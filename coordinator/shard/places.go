package shard

import "sync/atomic"

// Keys are hashed to places, and a place has one owner. So what is remembered is bounded, and a set of thousands of
// sources knows the owner of nearly every key. With 4,000 sources each has 64 places, give or take 8.
const places = 1 << 18

// minRemembered is of how many identities on a set remembers owners: among fewer, weighing is as fast.
const minRemembered = 64

// owners has the index of each place's owner, plus 1; 0 where it is not known yet. Safe for concurrent use.
type owners [places]atomic.Uint32

// carry fills the owners of a set with what is known of the one before it: who stays keeps its places but those of
// which a new identity has the larger weight.
func (s *Set) carry(before *Set) {
	known := before.owners.Load()
	if known == nil || len(s.folded) < minRemembered {
		return
	}
	now := make([]uint32, len(before.identities)) // of each former identity: its index now, plus 1
	var joined []int
	old := 0
	for i := range s.identities {
		for old < len(before.identities) && before.identities[old].Name < s.identities[i].Name {
			old++
		}
		if old < len(before.identities) && before.identities[old].Name == s.identities[i].Name {
			now[old] = uint32(i) + 1
		} else {
			joined = append(joined, i)
		}
	}
	next := new(owners)
	for place := range known {
		was := known[place].Load()
		if was == 0 || now[was-1] == 0 {
			continue
		}
		at, key := int(now[was-1]-1), Key(place).folded()
		best := mix(key ^ s.folded[at])
		for _, i := range joined {
			if w := mix(key ^ s.folded[i]); w > best {
				best, at = w, i
			}
		}
		next[place].Store(uint32(at) + 1)
	}
	s.owners.Store(next)
}
