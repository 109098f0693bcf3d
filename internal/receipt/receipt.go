package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// Version is the version of the form of a receipt.
const Version = 1

// KeyID names a public key: the first eight bytes of its SHA-256 in hex.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// ErrNoDetails is returned for a result without details.
var ErrNoDetails = errors.New("the result has no details")

// Sign signs what a verification result with details says, as the API shows it: a JSON object. table is the version of
// the provider table.
func Sign(key ed25519.PrivateKey, result []byte, table string, now time.Time) ([]byte, error) {
	v, err := decode(result)
	if err != nil {
		return nil, fmt.Errorf("verification result: %w", err)
	}
	r, _ := v.(map[string]any)
	details, ok := r["details"].(map[string]any)
	if !ok {
		return nil, ErrNoDetails
	}
	address, ok := details["normalized_email"].(string)
	if !ok {
		address, _ = r["email"].(string)
	}
	sum := sha256.Sum256([]byte(address))
	statement := map[string]any{
		"address_sha256": hex.EncodeToString(sum[:]), "provider_table": table, "node": details["checked_by"],
		"control": details["control"],
		"reply":   map[string]any{"at": r["verified_at"]},
	}
	for _, name := range []string{"status", "score", "reason", "verified_at", "smtp_valid"} {
		statement[name] = r[name]
	}
	for _, name := range []string{"rule", "rule_source", "rule_date", "is_catch_all"} {
		statement[name] = details[name]
	}
	reply := statement["reply"].(map[string]any)
	for _, name := range []string{"mx_host", "smtp_code", "enhanced_code", "smtp_message", "stage", "egress_source"} {
		reply[name] = details[name]
	}
	if details["smtp_code"] == nil {
		statement["reply"] = nil // no reply decided
	}
	public := key.Public().(ed25519.PublicKey)
	whole := map[string]any{"version": int64(Version), "key_id": KeyID(public),
		"public_key": base64.StdEncoding.EncodeToString(public),
		"issued_at":  now.UTC().Format(time.RFC3339), "statement": statement}
	whole["signature"] = base64.StdEncoding.EncodeToString(ed25519.Sign(key, appendCanonical(nil, whole)))
	return appendCanonical(nil, whole), nil
}

// Receipt is a receipt that was read and is not checked yet.
type Receipt struct {
	KeyID     string
	PublicKey ed25519.PublicKey // as it says
	IssuedAt  time.Time
	Statement map[string]any

	signed    []byte
	signature []byte
}

// Parse reads a receipt, alone or as the member receipt of an answer.
func Parse(text []byte) (*Receipt, error) {
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	whole, _ := v.(map[string]any)
	if inner, ok := whole["receipt"].(map[string]any); ok {
		whole = inner
	}
	r := &Receipt{}
	var issued, public, signature string
	for _, m := range []struct {
		name string
		to   *string
	}{{"key_id", &r.KeyID}, {"public_key", &public}, {"issued_at", &issued}, {"signature", &signature}} {
		text, ok := whole[m.name].(string)
		if !ok {
			return nil, fmt.Errorf("it is not a receipt: it has no text %s", m.name)
		}
		*m.to = text
	}
	version, ok := whole["version"].(int64)
	if !ok || version != Version {
		return nil, fmt.Errorf("it is of another version than %d", Version)
	}
	r.Statement, ok = whole["statement"].(map[string]any)
	if !ok {
		return nil, errors.New("it is not a receipt: it has no statement")
	}
	if r.IssuedAt, err = time.Parse(time.RFC3339, issued); err != nil {
		return nil, fmt.Errorf("issued_at: %w", err)
	}
	if r.PublicKey, err = decodeBase64(public, ed25519.PublicKeySize); err != nil {
		return nil, fmt.Errorf("public_key: %w", err)
	}
	if r.signature, err = decodeBase64(signature, ed25519.SignatureSize); err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	delete(whole, "signature")
	r.signed = appendCanonical(nil, whole)
	return r, nil
}

func decodeBase64(text string, size int) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("it is not %d bytes in base64", size)
	}
	return b, nil
}

// Errors of Verify.
var (
	ErrSignature  = errors.New("the signature does not fit: the receipt was changed, or is not of this key")
	ErrUnknownKey = errors.New("its key is not among the given keys")
)

// Verify checks the signature. With keys, the key must be one of them; without, it is the one that the receipt names
// itself, and the caller must compare its KeyID with those that the service publishes.
func (r *Receipt) Verify(keys []ed25519.PublicKey) error {
	if r.KeyID != KeyID(r.PublicKey) || !ed25519.Verify(r.PublicKey, r.signed, r.signature) {
		return ErrSignature
	}
	if keys == nil {
		return nil
	}
	for _, k := range keys {
		if k.Equal(r.PublicKey) {
			return nil
		}
	}
	return ErrUnknownKey
}

// ParseKeys reads the answer of GET /v1/receipt-keys.
func ParseKeys(text []byte) (keys []ed25519.PublicKey, err error) {
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	whole, _ := v.(map[string]any)
	list, _ := whole["keys"].([]any)
	for _, item := range list {
		object, _ := item.(map[string]any)
		public, _ := object["public_key"].(string)
		k, err := decodeBase64(public, ed25519.PublicKeySize)
		if err != nil {
			return nil, fmt.Errorf("public_key: %w", err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no keys")
	}
	return keys, nil
}

// IsOf reports whether the statement is about a folded address.
func (r *Receipt) IsOf(folded string) bool {
	sum := sha256.Sum256([]byte(folded))
	return r.Statement["address_sha256"] == hex.EncodeToString(sum[:])
}
