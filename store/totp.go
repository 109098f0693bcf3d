package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" // as RFC 6238 has it; collisions do not weaken HMAC
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// TOTP follows RFC 6238 with the values that all authenticator apps support: SHA-1, 30 seconds, six digits.
const (
	totpStep   = 30 // seconds
	totpDigits = 6
	totpSecret = 20 // bytes, as long as the hash (RFC 4226, section 4)
	totpSkew   = 1  // steps by which the app's clock may be off, either way

	recoveryCodes  = 10
	recoveryLength = 16 // characters of base32: 80 bits, so that a plain hash is as good as a slow one
)

// base32Text is the encoding of secrets that are typed into an app, and of recovery codes.
var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// totpCode is the code of a step (RFC 4226, section 5.3).
func totpCode(secret []byte, step int64, digits int) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	code := uint64(binary.BigEndian.Uint32(sum[at:at+4]) & 0x7fffffff)
	modulus := uint64(1)
	for range digits {
		modulus *= 10
	}
	return fmt.Sprintf("%0*d", digits, code%modulus)
}

// secondFactor is an account's second factor. Its secret is stored in clear, because codes are computed from it.
type secondFactor struct {
	Secret   []byte    `json:"secret"`
	Step     int64     `json:"step"` // of the last code that was used: no code is valid twice
	Recovery []KeyHash `json:"recovery,omitempty"`
}

func newSecondFactor() *secondFactor {
	f := &secondFactor{Secret: make([]byte, totpSecret)}
	rand.Read(f.Secret)
	return f
}

// renewRecovery replaces the recovery codes, and returns the new ones in the form for people.
func (f *secondFactor) renewRecovery() []string {
	f.Recovery = nil
	var codes []string
	for range recoveryCodes {
		random := make([]byte, recoveryLength*5/8)
		rand.Read(random)
		code := strings.ToLower(base32Text.EncodeToString(random))
		f.Recovery = append(f.Recovery, hashSecret(code))
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
	}
	return codes
}

// normalizeCode removes the spaces and dashes that people and apps put into a code.
func normalizeCode(code string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(code))
}

// useCode uses up a code of the app that is newer than the last one, or a recovery code, and reports whether it was valid.
func (f *secondFactor) useCode(code string, now time.Time) bool {
	code = normalizeCode(code)
	if len(code) == totpDigits {
		present := now.Unix() / totpStep
		for step := max(present-totpSkew, f.Step+1); step <= present+totpSkew; step++ {
			if subtle.ConstantTimeCompare([]byte(totpCode(f.Secret, step, totpDigits)), []byte(code)) == 1 {
				f.Step = step
				return true
			}
		}
		return false
	}
	sent := hashSecret(code)
	i := slices.IndexFunc(f.Recovery, func(h KeyHash) bool { return subtle.ConstantTimeCompare(h[:], sent[:]) == 1 })
	if i < 0 {
		return false
	}
	f.Recovery = slices.Delete(f.Recovery, i, i+1)
	return true
}
