package base62

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func keySum(body string) string {
	digits := checksumDigits(body)
	return string(digits[:])
}

func TestWellFormedKey(t *testing.T) {
	const live = "prb_live_0123456789ABCDEFGHIJKLMNOPQRSTUV"
	good := live + keySum(live)
	for _, c := range []struct {
		in       string
		test, ok bool
	}{
		{good, false, true},
		{"prb_test_0123456789ABCDEFGHIJKLMNOPQRSTUV" + keySum("prb_test_0123456789ABCDEFGHIJKLMNOPQRSTUV"), true, true},
		{"", false, false},
		{"prb_live_", false, false},
		{strings.ToLower(good), false, false},
		{" " + good, false, false},
		{good + " ", false, false},
		{strings.Replace(good, "live", "prod", 1), false, false},
		{strings.Replace(good, "live", "test", 1), true, false},
		{strings.Replace(good, "0", "-", 1), false, false},
	} {
		test, ok := WellFormedKey(c.in)
		require.Equal(t, c.ok, ok, c.in)
		if ok {
			require.Equal(t, c.test, test, c.in)
		}
	}
}

// BenchmarkWellFormed is what every request pays before its key is looked up.
func BenchmarkWellFormedKey(b *testing.B) {
	key := NewKey(false)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := WellFormedKey(key); !ok {
			b.Fatal("refused")
		}
	}
}

func TestKeySum(t *testing.T) {
	// 0xCBF43926 is the check value that every description of this CRC gives for these nine digits.
	require.Equal(t, fixedBase62(0xCBF43926), keySum("123456789"))
	require.Equal(t, "000000", keySum(""))
}

func fixedBase62(n uint32) string {
	out := ""
	for range keyChecksum {
		out = string(digits[n%62]) + out
		n /= 62
	}
	return out
}

func TestKeyChecksumDetectsOneWrongCharacter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.Bool().Draw(rt, "test")
		secret := NewKey(want)
		test, ok := WellFormedKey(secret)
		require.True(rt, ok)
		require.Equal(rt, want, test)
		i := rapid.IntRange(0, len(secret)-1).Draw(rt, "at")
		c := rapid.SampledFrom([]byte(digits)).Draw(rt, "becomes")
		if secret[i] == c {
			return
		}
		_, ok = WellFormedKey(secret[:i] + string(c) + secret[i+1:])
		require.False(rt, ok)
	})
}

func TestGeneratedKeysDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		secret := NewKey(false)
		require.False(t, seen[secret])
		seen[secret] = true
	}
}

func FuzzWellFormedKey(f *testing.F) {
	f.Add(NewKey(false))
	f.Add("prb_test_")
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := WellFormedKey(s); ok && len(s) != len(livePrefix)+keyRandom+keyChecksum {
			t.Fatalf("%q taken for a key", s)
		}
	})
}
