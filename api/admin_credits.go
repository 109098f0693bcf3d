package api

import (
	"errors"
	"strconv"

	"probity/api/httpd"
	"probity/api/record"
	"probity/store"
)

// maxNote bounds the note of an admin at an audit event, in bytes.
const maxNote = 200

func getCreditsOf(c *call) error {
	u, err := userOfQuery(c)
	if err != nil {
		return err
	}
	return sendCredits(c, u.ID)
}

func grantCredits(c *call) error {
	d := c.Document()
	if !d.Has("amount") {
		return httpd.Refuse(httpd.Unacceptable, "amount is missing: send it as a whole number.")
	}
	amount, err := d.Number("amount", 0, -store.MaxCredits, store.MaxCredits)
	if err != nil {
		return err
	}
	if amount == 0 {
		return httpd.Refuse(httpd.Unacceptable, "amount is 0: give how many credits to grant, or a negative number to take some back.")
	}
	note, err := d.ShownText("note", maxNote)
	if err != nil {
		return err
	}
	id, err := d.ShownText("grant_id", 100)
	if err != nil {
		return err
	}
	u, err := userOf(c, d)
	if err != nil {
		return err
	}
	credits, err := c.srv.deps.Store.GrantCredits(u.ID,
		store.CreditGrant{ID: id, Credits: amount, By: actor(c), Note: note}, c.srv.now())
	if short, ok := errors.AsType[*store.ErrInsufficientCredits](err); ok {
		return httpd.Refuse(httpd.PaymentRequired, "The account has %s: at most that many can be taken back.",
			plural(short.Balance, "credit"))
	}
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, creditsJSON(credits))
}

// entryJSON is a line of a ledger.
type entryJSON struct {
	Number   uint64      `json:"number"`
	Kind     store.Kind  `json:"kind"`
	Credits  int64       `json:"credits"`
	Amount   int64       `json:"amount"`
	Cause    string      `json:"cause"`
	At       record.Time `json:"at"`
	Balance  int64       `json:"balance"`
	Reserved int64       `json:"reserved"`
	Key      string      `json:"key_id,omitempty"` // of a single call with a key
}

func getLedger(c *call) error {
	u, err := userOfQuery(c)
	if err != nil {
		return err
	}
	return sendLedger(c, u.ID)
}

// sendLedger serves a page of an account's ledger, newest first.
func sendLedger(c *call, account string) error {
	limit, err := c.QueryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	before, err := c.QueryNumber("cursor", 0, 1, 1<<62)
	if err != nil {
		return err
	}
	found, err := c.srv.deps.Store.Ledger(account, uint64(before), int(limit))
	if err != nil {
		return err
	}
	entries, next := []entryJSON{}, ""
	for _, e := range found {
		cause, key := e.CutKey()
		entries = append(entries, entryJSON{e.Number, e.Kind, e.Credits, e.Amount, cause, record.Time(e.At), e.Balance,
			e.Reserved, key})
		next = strconv.FormatUint(e.Number, 10)
	}
	if len(found) < int(limit) || next == "1" {
		next = ""
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"entries": entries, "next_cursor": record.TextOrNil(next)})
}
