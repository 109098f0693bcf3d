package addresses

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

const before = "what stands before the set"

// writeSet writes a set behind other bytes.
func writeSet(t require.TestingT, all []string) []byte {
	b := bytes.NewBufferString(before)
	w := NewSetWriter(b, 7)
	for _, a := range all {
		require.NoError(t, w.Add(Hash(a, 7)))
	}
	require.NoError(t, w.Finish())
	return b.Bytes()
}

func openSet(b []byte) *Set { return OpenSet(bytes.NewReader(b), int64(len(before)), int64(len(b))) }

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("u%d@x.example", i))
	}
	return all
}

// sorted sorts addresses by their hashes, as those of uploads nearly are.
func sorted(all []string) []string {
	slices.SortFunc(all, func(x, y string) int { return int(firstByte(Hash(x, 7))) - int(firstByte(Hash(y, 7))) })
	return all
}

// TestSetContainsWhatWasAdded also removes each of some addresses: the set says nothing of it, and has all others.
func TestSetContainsWhatWasAdded(t *testing.T) {
	for _, n := range []int{0, 1, 100, 40_000} {
		for _, all := range [][]string{numbered(n), sorted(numbered(n))} {
			s := openSet(writeSet(t, all))
			require.NotNil(t, s)
			for i := 0; i < n; i += 1 + n/500 {
				require.True(t, s.MayContain(all[i]))
			}
			wrong := 0
			for i := range 500 {
				if s.MayContain(fmt.Sprintf("other%d@x.example", i)) {
					wrong++
				}
			}
			require.LessOrEqual(t, wrong, 1)
			for i := 0; i < n; i += 1 + n/5 {
				b := bytes.NewBufferString(before)
				require.NoError(t, s.WriteWithout(b, all[i]))
				less := openSet(b.Bytes())
				require.False(t, less.MayContain(all[i]))
				for k := 0; k < n; k += 1 + n/99 {
					require.Equal(t, k != i, less.MayContain(all[k]))
				}
			}
		}
	}
}

// TestEqualFingerprintsAreNotConfused: if two addresses have the same fingerprint, the set cannot be written without
// one of them.
func TestEqualFingerprintsAreNotConfused(t *testing.T) {
	h := Hash("ann@x.example", 7)
	other := xxh3.Uint128{Hi: h.Hi ^ 1<<63, Lo: h.Lo}
	for _, first := range []xxh3.Uint128{h, other} {
		var b bytes.Buffer
		w := NewSetWriter(&b, 7)
		require.NoError(t, errors.Join(w.Add(first), w.Add(xxh3.Uint128{Hi: first.Hi ^ 1<<63, Lo: h.Lo}), w.Finish()))
		s := OpenSet(bytes.NewReader(b.Bytes()), 0, int64(b.Len()))
		require.True(t, s.MayContain("ann@x.example"))
		var less bytes.Buffer
		require.NoError(t, s.WriteWithout(&less, "ann@x.example"))
		require.Nil(t, OpenSet(bytes.NewReader(less.Bytes()), 0, int64(less.Len())))
	}
}

// TestDamagedSetMayContainAll flips each bit of a set and cuts it at each byte, and damages it between two reads: it
// contains each of its addresses, and so does what is written of it without another.
func TestDamagedSetMayContainAll(t *testing.T) {
	all := numbered(20)
	whole := writeSet(t, all)
	check := func(b []byte, what string, at int) {
		s := openSet(b)
		for _, a := range all {
			require.True(t, s.MayContain(a), "%s %d", what, at)
		}
		less := bytes.NewBufferString(before)
		require.NoError(t, s.WriteWithout(less, all[3]))
		require.True(t, openSet(less.Bytes()).MayContain(all[4]), "%s %d", what, at)
	}
	for bit := len(before) * 8; bit < len(whole)*8; bit++ {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		check(b, "bit", bit)
	}
	for n := len(before); n < len(whole); n++ {
		check(whole[:n], "cut at", n)
	}
	require.Nil(t, openSet([]byte(before)))
	other := bytes.Clone(whole)
	s := openSet(other)
	other[len(before)] ^= 1
	require.True(t, s.MayContain("bo@else.example"), "the page was damaged after the directory was read")
}

// TestSetOfOtherRulesMayContainAll writes the directory of a set anew.
func TestSetOfOtherRulesMayContainAll(t *testing.T) {
	var b bytes.Buffer
	w := NewSetWriter(&b, 7)
	w.directory[0]++
	require.NoError(t, w.Finish())
	require.Nil(t, OpenSet(bytes.NewReader(b.Bytes()), 0, int64(b.Len())))
}

// failing is a file or disk that fails after some bytes.
type failing struct {
	io.ReaderAt
	left int
}

var errFailing = errors.New("failing disk")

func (f *failing) Write(b []byte) (int, error) {
	f.left -= len(b)
	if f.left < 0 {
		return 0, errFailing
	}
	return len(b), nil
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	f.left--
	if f.left < 0 {
		return 0, errFailing
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestFailingDisk: a set that cannot be read may contain any address; one that cannot be written is an error.
func TestFailingDisk(t *testing.T) {
	whole := writeSet(t, numbered(20))
	for reads := range 3 {
		s := OpenSet(&failing{bytes.NewReader(whole), reads}, int64(len(before)), int64(len(whole)))
		require.True(t, s.MayContain("bo@else.example"), reads)
	}
	s := openSet(whole)
	for left := range len(whole) - len(before) - fingerprintBytes {
		require.ErrorIs(t, s.WriteWithout(&failing{left: left}, "u1@x.example"), errFailing)
	}
}

// FuzzSet opens any bytes as a set.
func FuzzSet(f *testing.F) {
	f.Add(writeSet(f, numbered(3)))
	f.Add(writeSet(f, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := OpenSet(bytes.NewReader(b), 0, int64(len(b)))
		s.MayContain("ann@x.example")
		var less bytes.Buffer
		require.NoError(t, s.WriteWithout(&less, "ann@x.example"))
	})
}

// TestAnySetHasItsAddresses is for any addresses, each once, in any order.
func TestAnySetHasItsAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "addresses")
		s := openSet(writeSet(t, all))
		for _, a := range all {
			require.True(t, s.MayContain(a))
		}
	})
}
