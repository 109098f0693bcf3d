package base62

import (
	"crypto/rand"
	"hash/crc32"
	"math/big"
	"strings"
)

// The form of an API key: a prefix for live or test, 32 random base62 characters (190 bits), and the CRC-32 of these in
// six more, so that a mistyped or invented key is refused without a look-up.
const (
	livePrefix = "prb_live_"
	testPrefix = "prb_test_"

	keyRandom   = 32
	keyChecksum = 6
	digits      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// NewKey makes a new API key.
func NewKey(test bool) string {
	prefix := livePrefix
	if test {
		prefix = testPrefix
	}
	body := prefix + Random(keyRandom)
	sum := checksumDigits(body)
	return body + string(sum[:])
}

// WellFormedKey reports whether s has the form and the checksum of an API key, and whether it is a test key.
func WellFormedKey(s string) (test, ok bool) {
	rest, live := strings.CutPrefix(s, livePrefix)
	if !live {
		rest, test = strings.CutPrefix(s, testPrefix)
		if !test {
			return false, false
		}
	}
	if len(rest) != keyRandom+keyChecksum || strings.Trim(rest, digits) != "" {
		return false, false
	}
	cut := len(s) - keyChecksum
	sum := checksumDigits(s[:cut])
	return test, string(sum[:]) == s[cut:]
}

// checksumDigits is the CRC-32 (IEEE) of body in base62, most significant digit first; 62^6 holds every CRC. It
// computes the CRC byte by byte: the library's function would need a copy of the key on the heap
// (BenchmarkWellFormedKey).
func checksumDigits(body string) (out [keyChecksum]byte) {
	n := ^uint32(0)
	for i := range len(body) {
		n = crc32.IEEETable[byte(n)^body[i]] ^ n>>8
	}
	n = ^n
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[n%62]
		n /= 62
	}
	return out
}

// Random returns n unbiased random base62 characters.
func Random(n int) string {
	out := make([]byte, n)
	for i := range out {
		digit, _ := rand.Int(rand.Reader, big.NewInt(int64(len(digits)))) // never fails: it ends the process instead
		out[i] = digits[digit.Int64()]
	}
	return string(out)
}
