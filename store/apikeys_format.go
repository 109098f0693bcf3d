package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// The form of an API key: a prefix for live or test, 32 random base62 characters (190 bits), and the CRC-32 of these in six
// more, so that a mistyped or invented key is refused without a look-up.
const (
	LivePrefix = "prb_live_"
	TestPrefix = "prb_test_"

	keyRandom   = 32
	keyChecksum = 6
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// KeyHash is the stored form of a key or of a session token: its SHA-256. Both have so many random bits that no slow hash is
// needed.
type KeyHash [sha256.Size]byte

// MarshalText writes a hash as hexadecimal digits.
func (h KeyHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *KeyHash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return fmt.Errorf("hash of %d digits, want %d", len(text), 2*len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// hashSecret is the stored form of a secret that we made, and of a name that must not be a key in clear.
func hashSecret(secret string) KeyHash {
	var short [64]byte // holds a key
	return sha256.Sum256(append(short[:0], secret...))
}

// generateKey makes a new API key.
func generateKey(test bool) string {
	prefix := LivePrefix
	if test {
		prefix = TestPrefix
	}
	body := prefix + randomBase62(keyRandom)
	sum := checksumDigits(body)
	return body + string(sum[:])
}

// WellFormedKey reports whether s has the form and the checksum of an API key, and whether it is a test key.
func WellFormedKey(s string) (test, ok bool) {
	rest, live := strings.CutPrefix(s, LivePrefix)
	if !live {
		if rest, test = strings.CutPrefix(s, TestPrefix); !test {
			return false, false
		}
	}
	if len(rest) != keyRandom+keyChecksum || strings.Trim(rest, base62) != "" {
		return false, false
	}
	cut := len(s) - keyChecksum
	sum := checksumDigits(s[:cut])
	return test, string(sum[:]) == s[cut:]
}

// checksumDigits is the CRC-32 (IEEE) of body in base62, most significant digit first; 62^6 holds every CRC. It computes the CRC byte
// by byte: the library's function would need a copy of the key on the heap (BenchmarkWellFormedKey).
func checksumDigits(body string) (out [keyChecksum]byte) {
	n := ^uint32(0)
	for i := range len(body) {
		n = crc32.IEEETable[byte(n)^body[i]] ^ n>>8
	}
	n = ^n
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = base62[n%62]
		n /= 62
	}
	return out
}

// randomBase62 returns n unbiased random base62 characters.
func randomBase62(n int) string {
	out := make([]byte, n)
	for i := range out {
		digit, _ := rand.Int(rand.Reader, big.NewInt(int64(len(base62)))) // never fails: it ends the process instead
		out[i] = base62[digit.Int64()]
	}
	return string(out)
}
