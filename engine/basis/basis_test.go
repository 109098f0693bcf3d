package basis

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzRead: what is read is written again in the same bytes, so no two of them are one basis.
func FuzzRead(f *testing.F) {
	f.Add(make([]byte, Size))
	f.Add([]byte{0x54, 0x09, 0x80, 0x01, 0x12})
	f.Add(bytes.Repeat([]byte{0xff}, Size))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var b Basis
		if len(stored) < Size || !b.Read(stored) {
			return
		}
		again := make([]byte, Size)
		b.Put(again)
		require.Equal(t, stored[:Size], again)
	})
}

func TestZeroBasisIsZeroBytes(t *testing.T) {
	stored := bytes.Repeat([]byte{0xff}, Size)
	(&Basis{}).Put(stored)
	require.Equal(t, make([]byte, Size), stored)
}

func TestMoreIsNeverASmallerTally(t *testing.T) {
	require.Equal(t, []Tally{0, 1, 2, 2, 3, 3, 4, 4, TallyMost, TallyMost}, []Tally{
		TallyOf(0), TallyOf(1), TallyOf(2), TallyOf(3), TallyOf(4), TallyOf(15), TallyOf(16), TallyOf(63), TallyOf(64),
		TallyOf(math.MaxUint8)})
	for n := range uint8(math.MaxUint8) {
		require.LessOrEqual(t, TallyOf(n), TallyOf(n+1))
	}
}

func TestFartherIsNeverASmallerDistance(t *testing.T) {
	require.Equal(t, DistanceUnknown, DistanceOf(0))
	require.Equal(t, []Distance{Distance2, Distance8, Distance32, DistanceFar},
		[]Distance{DistanceOf(2), DistanceOf(8), DistanceOf(32), DistanceOf(math.MaxUint16)})
	for n := uint16(1); n < math.MaxUint16; n++ {
		require.LessOrEqual(t, DistanceOf(n), DistanceOf(n+1))
	}
	require.Equal(t, []Delay{Delay10s, Delay2min, DelayLong},
		[]Delay{DelayOf(0), DelayOf(time.Minute), DelayOf(time.Hour)})
}
