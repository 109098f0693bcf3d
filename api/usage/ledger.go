package usage

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"probity/store"
)

// WriteLedger writes the whole ledger of an account as CSV, newest first, until ctx ends.
func WriteLedger(ctx context.Context, w io.Writer, state State, account string) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"number", "at", "kind", "credits", "amount", "cause", "balance", "reserved",
		"key_id"}); err != nil {
		return err
	}
	var before uint64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := state.Ledger(account, before, store.MaxPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			before = e.Number
			cause, key := e.CutKey()
			if err := out.Write([]string{strconv.FormatUint(e.Number, 10), e.At.UTC().Format(time.RFC3339),
				string(e.Kind), strconv.FormatInt(e.Credits, 10),
				strconv.FormatInt(e.Amount, 10), plainCell(cause), strconv.FormatInt(e.Balance, 10),
				strconv.FormatInt(e.Reserved, 10), key}); err != nil {
				return err
			}
		}
		out.Flush()
		if err := out.Error(); err != nil || len(entries) < store.MaxPage {
			return err
		}
	}
}

// plainCell is a text as a cell. One that a spreadsheet would read as a formula is prefixed, as in result files.
func plainCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
