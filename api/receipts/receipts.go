package receipts

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"time"

	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/receipt"
	"probity/store"
)

// ErrNoVerdict is returned for a row that is not there, or has no address.
var ErrNoVerdict = errors.New("the row has no verdict: name a row of the list that has an address")

func sign(s *store.Store, result []byte, table *engine.Table, now time.Time) ([]byte, error) {
	keys, err := s.ReceiptKeys(now)
	if err != nil {
		return nil, err
	}
	hash := table.Hash()
	return receipt.Sign(keys[len(keys)-1].Private(), result, hex.EncodeToString(hash[:]), now)
}

// Add adds the receipt of a single verification to its answer.
func Add(s *store.Store, answer []byte, a results.Single, now time.Time) ([]byte, error) {
	a.Details = true
	signed, err := sign(s, a.AppendJSON(nil, now), a.Table, now)
	if err != nil {
		return nil, err
	}
	answer = append(answer[:len(answer)-1], `,"receipt":`...)
	return append(append(answer, signed...), '}'), nil
}

// OfRow is the receipt of a row of a finished job, counted from 1.
func OfRow(ctx context.Context, s *store.Store, c *coordinator.Coordinator, job string, row int64, now time.Time) ([]byte, error) {
	var line bytes.Buffer
	f := results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true, Row: uint32(row)}
	if err := c.Results(ctx, job, f, &line); err != nil {
		return nil, err
	}
	if line.Len() == 0 || bytes.Contains(line.Bytes(), []byte(`,"status":null,`)) {
		return nil, ErrNoVerdict
	}
	return sign(s, line.Bytes(), c.Table(), now)
}

// Show is how the API shows keys, the newest first.
func Show(keys []store.ReceiptKey) map[string]any {
	shown := make([]any, len(keys))
	for i := range keys {
		public := keys[i].Public()
		shown[len(keys)-1-i] = map[string]any{"key_id": receipt.KeyID(public), "public_key": base64.StdEncoding.EncodeToString(public),
			"created_at": keys[i].CreatedAt, "signs": i == len(keys)-1}
	}
	return map[string]any{"keys": shown}
}
