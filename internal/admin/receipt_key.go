package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"probity/internal/console"
)

type receiptKeyCmd struct {
	Create receiptKeyCreateCmd `cmd:"" help:"Sign receipts with a new key from now on; the former keys still verify theirs."`
}

type receiptKeyCreateCmd struct{ targetFlags }

// Run prints the keys as GET /v1/receipt-keys answers them, the new one first. receipt verify takes them as --keys.
func (c *receiptKeyCreateCmd) Run(ctx context.Context, con *console.IO) error {
	var keys json.RawMessage
	if err := c.call(ctx, con, http.MethodPost, "receipt-keys", nil, &keys); err != nil {
		return err
	}
	_, err := fmt.Fprintf(con.Out, "%s\n", keys)
	return err
}
