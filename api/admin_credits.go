package api

import (
	"strconv"

	"probity/store"
)

// maxNote bounds the words that an admin leaves with an act.
const maxNote = 200

func (x *exchange) getCreditsOf() error {
	u, err := x.userOfQuery()
	if err != nil {
		return err
	}
	return x.sendCredits(u.ID)
}

func (x *exchange) grantCredits() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	if d.get("amount") == nil {
		return refuse(unacceptable, "amount is missing: send it as a whole number.")
	}
	amount, err := d.number("amount", 0, -store.MaxCredits, store.MaxCredits)
	if err != nil {
		return err
	}
	note, err := d.shortText("note", maxNote)
	if err != nil {
		return err
	}
	id, err := d.shortText("grant_id", 100)
	if err != nil {
		return err
	}
	u, err := x.userOf(d)
	if err != nil {
		return err
	}
	c, err := x.srv.rooms.Store.GrantCredits(u.ID, store.Gift{ID: id, Credits: amount, By: x.by(), Note: note}, x.srv.now())
	if err != nil {
		return err
	}
	return x.send(statusOK, creditsJSON(c))
}

// entryJSON is a line of a ledger.
type entryJSON struct {
	Number   uint64     `json:"number"`
	Kind     store.Kind `json:"kind"`
	Credits  int64      `json:"credits"`
	Amount   int64      `json:"amount"`
	Cause    string     `json:"cause"`
	At       stamp      `json:"at"`
	Balance  int64      `json:"balance"`
	Reserved int64      `json:"reserved"`
	Key      string     `json:"key_id,omitempty"` // of a single, where it came with one
}

func (x *exchange) getLedger() error {
	u, err := x.userOfQuery()
	if err != nil {
		return err
	}
	return x.sendLedger(u.ID)
}

// sendLedger serves a page of an account's ledger, newest first.
func (x *exchange) sendLedger(account string) error {
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	before, err := x.queryNumber("cursor", 0, 1, 1<<62)
	if err != nil {
		return err
	}
	found, err := x.srv.rooms.Store.Ledger(account, uint64(before), int(limit))
	if err != nil {
		return err
	}
	entries, next := []entryJSON{}, ""
	for _, e := range found {
		cause, key := e.CutKey()
		entries = append(entries, entryJSON{e.Number, e.Kind, e.Credits, e.Amount, cause, stamp(e.At), e.Balance, e.Reserved, key})
		next = strconv.FormatUint(e.Number, 10)
	}
	if len(found) < int(limit) || next == "1" {
		next = ""
	}
	return x.sendAs(statusOK, map[string]any{"entries": entries, "next_cursor": textOrNil(next)})
}
