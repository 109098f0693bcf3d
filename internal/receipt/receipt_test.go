package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
)

const result = `{"email":"Ann@example.org","status":"VALID","score":98,"reason":null,"smtp_valid":true,"verified_at":"2026-03-01T12:00:00Z",
"details":{"normalized_email":"ann@example.org","checked_by":"node-1","mx_host":"mx1.example.org","smtp_code":250,"enhanced_code":"2.1.5",
"smtp_message":"2.1.5 Ok \"é\" \\ <x>","stage":"rcpt","egress_source":"mail1.us.example","rule":"decoy/refused","rule_source":null,"rule_date":null,
"is_catch_all":false,"control":{"kind":"made_up_refused_after","mx_host":"mx1.example.org","smtp_code":550,"smtp_message":"5.1.1 <address>: unknown"}}}`

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func newReceipt(t testing.TB) []byte {
	b, err := Sign(testKey(1), []byte(result), "a1b2", time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	return b
}

func public(n byte) ed25519.PublicKey { return testKey(n).Public().(ed25519.PublicKey) }

func TestReceiptIsVerified(t *testing.T) {
	text := newReceipt(t)
	require.NotContains(t, string(text), "ann@")
	var indented bytes.Buffer
	require.NoError(t, json.Indent(&indented, text, "", "  "))
	for _, form := range []string{string(text), indented.String() + "\n",
		`{"email":"x","receipt":` + string(text) + `}`} {
		r, err := Parse([]byte(form))
		require.NoError(t, err)
		require.NoError(t, r.Verify(nil))
		require.NoError(t, r.Verify([]ed25519.PublicKey{public(2), public(1)}))
		require.ErrorIs(t, r.Verify([]ed25519.PublicKey{public(2)}), ErrUnknownKey)
		require.True(t, r.IsOf("ann@example.org"))
		require.False(t, r.IsOf("bo@example.org"))
		require.Equal(t, "VALID", r.Statement["status"])
	}
}

// TestFlippedByteIsRefused flips each bit of a receipt, and changes each of its bytes to a space.
func TestFlippedByteIsRefused(t *testing.T) {
	detector.SpareByDay(t)
	text := newReceipt(t)
	for i := range text {
		for bit := range 9 {
			changed := bytes.Clone(text)
			changed[i] ^= 1 << bit
			if bit == 8 {
				changed[i] = ' '
			}
			if bytes.Equal(changed, text) {
				continue
			}
			r, err := Parse(changed)
			if err == nil {
				err = r.Verify([]ed25519.PublicKey{public(1)})
			}
			require.Error(t, err, "byte %d, bit %d: %s", i, bit, changed)
		}
	}
}

// TestReceiptOfAnotherKeyIsRefused: a statement that was changed and signed with another key does not fit the published
// keys.
func TestReceiptOfAnotherKeyIsRefused(t *testing.T) {
	other, err := Sign(testKey(2), []byte(strings.Replace(result, "VALID", "INVALID", 1)), "a1b2", time.Unix(0, 0))
	require.NoError(t, err)
	r, err := Parse(other)
	require.NoError(t, err)
	keys, err := ParseKeys([]byte(`{"keys":[{"public_key":"` + base64.StdEncoding.EncodeToString(public(1)) +
		`","key_id":"x"}]}`))
	require.NoError(t, err)
	require.ErrorIs(t, r.Verify(keys), ErrUnknownKey)
}

func TestCanonicalForm(t *testing.T) {
	// The examples of RFC 8785 sections 3.2.2 and 3.2.3, without the numbers that are not whole.
	v, err := decode([]byte(`{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false],"\ud83d\ude00":1,"\ufb33":2,"\r":3,"1":4,"\u0080":5,"\u00f6":6,"\u20ac":7}`))
	require.NoError(t, err)
	require.Equal(t, "{\"\\r\":3,\"1\":4,\"literals\":[null,true,false],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\",\"\u0080\":5,\"ö\":6,\"€\":7,\"😀\":1,\"\ufb33\":2}", string(appendCanonical(nil, v)))
	for _, bad := range []string{"", "{", `{"a":1,"a":1}`, `{"a":1.5}`, `{"a":1e3}`, `{"a":-0}`, "[1] 2", "\"\xff\"",
		strings.Repeat("[", 99), `{"a":99999999999999999}`} {
		_, err := decode([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(newReceipt(f))
	f.Add([]byte(`{"receipt":{"version":1}}`))
	good, err := Parse(newReceipt(f))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err != nil || r.Verify([]ed25519.PublicKey{public(1)}) != nil {
			return
		}
		require.Equal(t, good.signed, r.signed, "only what was signed is accepted")
	})
}
