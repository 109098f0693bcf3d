package main

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"strings"

	"probity/engine"
	"probity/internal/console"
	"probity/internal/receipt"
)

// receiptCmd is about signed verdicts.
type receiptCmd struct {
	Verify receiptVerifyCmd `cmd:"" help:"Check a signed verdict without a server."`
}

// receiptVerifyCmd checks a receipt.
type receiptVerifyCmd struct {
	File  string `arg:"" help:"The receipt, or the answer that has it."`
	Keys  string `help:"The answer of GET /v1/receipt-keys: the receipt must be signed by one of these keys. Without it, compare the key's id with those there." placeholder:"FILE"`
	Email string `help:"Check that the receipt is about this address." placeholder:"ADDRESS"`
}

// Run prints what the receipt says, and fails if it is not as it was signed.
func (c receiptVerifyCmd) Run(con *console.IO) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	r, err := receipt.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	var keys []ed25519.PublicKey
	if c.Keys != "" {
		text, err := os.ReadFile(c.Keys)
		if err != nil {
			return err
		}
		keys, err = receipt.ParseKeys(text)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Keys, err)
		}
	}
	if err := r.Verify(keys); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.Email != "" {
		a, err := engine.ParseTrimmed(c.Email)
		folded := c.Email // of an address that does not parse the text itself was hashed
		if err == nil {
			folded = a.Folded()
		}
		if !r.IsOf(folded) {
			return fmt.Errorf("%s: it is about another address than %s", c.File, c.Email)
		}
	}
	said := []string{fmt.Sprint(r.Statement["status"])}
	if reason, ok := r.Statement["reason"].(string); ok {
		said = append(said, reason)
	}
	fmt.Fprintf(con.Out, "%s, verified at %v, signed at %s by key %s\n", strings.Join(said, " "),
		r.Statement["verified_at"],
		r.IssuedAt.UTC().Format("2006-01-02T15:04:05Z"), r.KeyID)
	if keys == nil {
		fmt.Fprintln(con.Err, "the signature fits the key that the receipt names; GET /v1/receipt-keys says whether it is the service's, or --keys")
	}
	return nil
}
