package shard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"probity/internal/detector"
)

// drawSet draws a set of 1 to 24 identities; two of a node are common.
func drawSet(t *rapid.T) []Identity {
	names := rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 1, 24, rapid.ID).Draw(t, "names")
	ids := make([]Identity, len(names))
	for i, name := range names {
		ids[i] = Identity{Name: name, Node: "node" + strconv.Itoa(i/2)}
	}
	return ids
}

func drawKey(t *rapid.T) Key {
	return rapid.OneOf(rapid.Map(rapid.String(), Route), rapid.Map(rapid.String(), Domain),
		rapid.Map(rapid.String(), Address)).Draw(t, "key")
}

func mustSet(t require.TestingT, ids []Identity) *Set {
	s, err := New(ids)
	require.NoError(t, err)
	return s
}

func owner(t require.TestingT, s *Set, k Key) Identity {
	id, ok := s.Owner(k)
	require.True(t, ok)
	return id
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids, k := drawSet(t), drawKey(t)
		want := owner(t, mustSet(t, ids), k)
		shuffled := rapid.Permutation(ids).Draw(t, "shuffled")
		require.Equal(t, want, owner(t, mustSet(t, shuffled), k))
	})
}

func TestOnlyKeysOfTheChangedIdentityMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, k := drawSet(t), drawKey(t)
		i := rapid.IntRange(0, len(all)-1).Draw(t, "who")
		changed, rest := all[i], slices.Delete(slices.Clone(all), i, i+1)
		if len(rest) == 0 {
			return
		}
		with, without := owner(t, mustSet(t, all), k), owner(t, mustSet(t, rest), k)
		if with != changed && with != without {
			t.Fatalf("a key of %q went to %q though %q came or went", with.Name, without.Name, changed.Name)
		}
	})
}

// With a limited number of owners, one that leaves is replaced by one, and keys move only from the one and to the
// other.
func TestLimitedOwnersAreStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, k, ranking := drawSet(t), drawKey(t), drawKey(t)
		n := rapid.IntRange(1, len(all)).Draw(t, "n")
		i := rapid.IntRange(0, len(all)-1).Draw(t, "leaves")
		removed, rest := all[i], slices.Delete(slices.Clone(all), i, i+1)
		set := mustSet(t, all)
		owners := func(s *Set) map[string]bool {
			seen := map[string]bool{}
			for i := range 300 {
				id, ok := s.OwnerAmong(Domain(strconv.Itoa(i)), ranking, n)
				require.True(t, ok)
				seen[id.Name] = true
			}
			return seen
		}
		with, ok := set.OwnerAmong(k, ranking, n)
		require.True(t, ok)
		before := owners(set)
		require.LessOrEqual(t, len(before), n)
		free, _ := set.OwnerAmong(k, ranking, 0)
		require.Equal(t, owner(t, set, k), free, "0 is no limit")
		if len(rest) == 0 {
			return
		}
		without, _ := mustSet(t, rest).OwnerAmong(k, ranking, n)
		if with != removed && with != without {
			require.False(t, before[without.Name], "a key of %q went to %q, which had a share before", with.Name,
				without.Name)
		}
	})
}

// Each identity's share of n keys is binomial: a fair hash stays within five standard deviations.
func TestSharesAreEven(t *testing.T) {
	const n = 100_000
	kinds := map[string]func(string) Key{"route": Route, "domain": Domain, "address": Address}
	for kind, key := range kinds {
		for _, members := range []int{2, 3, 4, 8, 24} {
			ids := make([]Identity, members)
			for i := range ids {
				ids[i] = Identity{Name: fmt.Sprintf("192.0.2.%d", i+1)}
			}
			set, share := mustSet(t, ids), map[string]int{}
			for i := range n {
				share[owner(t, set, key("mx"+strconv.Itoa(i)+".example")).Name]++
			}
			p := 1 / float64(members)
			for _, id := range ids {
				require.InDelta(t, n*p, share[id.Name], 5*math.Sqrt(n*p*(1-p)), "%s: share of %s among %d", kind,
					id.Name, members)
			}
		}
	}
}

// An identity that joins takes keys evenly from the others.
func TestNewIdentityTakesEvenlyFromAll(t *testing.T) {
	const n, members = 100_000, 5
	ids := make([]Identity, members+1)
	for i := range ids {
		ids[i] = Identity{Name: fmt.Sprintf("node%d/198.51.100.%d", i, i)}
	}
	before, after := mustSet(t, ids[:members]), mustSet(t, ids)
	taken := map[string]int{}
	for i := range n {
		k := Domain("d" + strconv.Itoa(i) + ".example")
		was, is := owner(t, before, k), owner(t, after, k)
		if was != is {
			require.Equal(t, ids[members], is)
			taken[was.Name]++
		}
	}
	each := n / (members * (members + 1.0))
	for _, id := range ids[:members] {
		require.InDelta(t, each, taken[id.Name], 5*math.Sqrt(each))
	}
}

func TestKeyKindsAreDistinct(t *testing.T) {
	require.NotEqual(t, Route("a.example"), Domain("a.example"))
	require.NotEqual(t, Domain("a.example"), Address("a.example"))
}

func TestEmptySetAndDuplicateNames(t *testing.T) {
	var empty Set
	_, ok := empty.Owner(Route("x"))
	require.False(t, ok)
	_, ok = empty.OwnerAmong(Route("x"), Route("y"), 2)
	require.False(t, ok)
	_, err := New([]Identity{{"192.0.2.1", "a"}, {"192.0.2.1", "b"}})
	require.ErrorContains(t, err, "identity 192.0.2.1: both")
}

// Owners must not change between releases: the first restart would move every route to another source.
func TestOwnersAreStable(t *testing.T) {
	ids := []Identity{{Name: "192.0.2.1"}, {Name: "192.0.2.2"}, {Name: "192.0.2.3"}}
	var got []int
	for i := range 12 {
		got = append(got, slices.Index(ids, owner(t, mustSet(t, ids), Route(fmt.Sprintf("mx%d.example", i)))))
	}
	require.Equal(t, stableOwners, got)
}

var stableOwners = []int{0, 2, 2, 0, 1, 2, 1, 2, 1, 0, 1, 1}

// plainOwner is the definition of the owner: of the first n identities in a ranking, the one with the largest weight.
func plainOwner(ids []Identity, k, ranking Key, n int) Identity {
	weight := func(k Key, name string) uint64 {
		h := mix(uint64(k)+1) ^ xxh3.HashString(name)
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		return h ^ h>>33
	}
	by := func(k Key) func(a, b Identity) int {
		return func(a, b Identity) int { return cmp.Compare(weight(k, b.Name), weight(k, a.Name)) }
	}
	ids = slices.SortedFunc(slices.Values(ids), by(ranking))
	return slices.MinFunc(ids[:n], by(k))
}

// thousands makes a set of n identities.
func thousands(t require.TestingT, n int) *Set {
	ids := make([]Identity, n)
	for i := range ids {
		ids[i] = Identity{Name: fmt.Sprintf("198.18.%d.%d", i/256, i%256), Node: fmt.Sprintf("p%d", i/4)}
	}
	return mustSet(t, ids)
}

// TestRememberedOwnersAreThose: what a set remembers of rankings and keys changes no owner, for any number of readers,
// and also when there are more rankings than are remembered.
func TestRememberedOwnersAreThose(t *testing.T) {
	detector.SpareByDay(t)
	set := thousands(t, 300)
	routes := make([]Key, 300)
	for i := range routes {
		routes[i] = Route(fmt.Sprintf("mx%d.example", i))
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 2 {
				for i, k := range routes {
					assert.Equal(t, plainOwner(set.All(), k, k, set.Len()), owner(t, set, k))
					id, ok := set.OwnerAmong(k, Route(strconv.Itoa(i)), 8+i%2)
					assert.True(t, ok)
					assert.Equal(t, plainOwner(set.All(), k, Route(strconv.Itoa(i)), 8+i%2), id)
				}
			}
		})
	}
	readers.Wait()
	require.LessOrEqual(t, len(*set.ranked.Load()), maxRanked)
}

// TestNextSetHasTheOwnersOfAFreshOne: what a set takes over from the one before it changes no owner, whatever left or
// joined, and also where only a part of it was known.
func TestNextSetHasTheOwnersOfAFreshOne(t *testing.T) {
	all := thousands(t, 400).All()
	keys := make([]Key, 500)
	for i := range keys {
		keys[i] = Address(fmt.Sprintf("ann%d@example.org", i))
	}
	rapid.Check(t, func(t *rapid.T) {
		set := new(Set)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			from := rapid.IntRange(0, 200).Draw(t, "from")
			n := rapid.IntRange(1, 200).Draw(t, "identities")
			without := rapid.IntRange(0, n-1).Draw(t, "without")
			ids := slices.Delete(slices.Clone(all[from:from+n]), without, min(without+1, n-1))
			next, err := set.Next(ids)
			require.NoError(t, err)
			fresh := mustSet(t, ids)
			for i := range rapid.IntRange(0, len(keys)).Draw(t, "asked") {
				require.Equal(t, owner(t, fresh, keys[i]), owner(t, next, keys[i]))
			}
			set = next
		}
	})
}

// TestOwnersAreFoundWithoutGarbage: neither a ranking nor a key is worked out again.
func TestOwnersAreFoundWithoutGarbage(t *testing.T) {
	set, address, route := thousands(t, 4000), Address("ann@example.org"), Route("mx.example.org")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		set.OwnerAmong(address, Route("orange"), 8)
		set.Owner(address)
		set.Owner(route)
	}))
}

// BenchmarkChange is one identity of 4,000 that leaves and joins, when all owners are known.
func BenchmarkChange(b *testing.B) {
	all := thousands(b, 4000)
	for place := range places {
		all.Owner(Key(place))
	}
	b.ReportAllocs()
	for b.Loop() {
		less, _ := all.Next(all.identities[1:])
		_, _ = less.Next(all.identities)
	}
}

func BenchmarkOwner(b *testing.B) {
	address, route := Address("ann.example@gmail.com"), Route("mx.example.org")
	for _, n := range []int{16, 1000, 4000} {
		set := thousands(b, n)
		for name, find := range map[string]func(){
			"address":       func() { set.Owner(address) },
			"route":         func() { set.Owner(route) },
			"address-among": func() { set.OwnerAmong(address, Route("orange"), 8) },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					find()
				}
			})
		}
	}
}
