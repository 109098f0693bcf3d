package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Billing is the credits of accounts: their ledgers, and the reservations and settlements of single calls.
type Billing struct{ *DB }

// MaxPage is the greatest number of items in one listing.
const MaxPage = 1000

func pageSize(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Credits returns the account's credits; zero for an account without a ledger.
func (b *Billing) Credits(account string) (Credits, error) {
	c, _, err := readBalance(b.db, account)
	return c, err
}

// Ledger lists the account's entries with numbers below before (0: from the last), newest first, at most limit and
// MaxPage of them.
func (b *Billing) Ledger(account string, before uint64, limit int) ([]Entry, error) {
	prefix := keyPrefix(tableLedger, account)
	upper := prefixEnd(prefix)
	// each key has the entries since the key before it: the first with this number or a greater one has the newest
	// entry
	if before > 0 {
		err := scan(b.db, prefix, numberedKey(tableLedger, account, before-1), func(k, _ []byte) error {
			upper = append(bytes.Clone(k), 0)
			return errStop
		})
		if err != nil {
			return nil, err
		}
	}
	var entries []Entry
	err := walkBack(b.db, prefix, upper, func(_, v []byte) error {
		r, err := readRecord(v)
		if err != nil {
			return fmt.Errorf("ledger of %s: %w", account, err)
		}
		for _, e := range slices.Backward(r.entries(nil)) {
			if before > 0 && e.Number >= before {
				continue
			}
			entries = append(entries, e)
			if len(entries) == pageSize(limit) {
				return errStop
			}
		}
		return nil
	})
	return entries, err
}

// CreditGrant is credits that an admin gives to an account or, if negative, takes back; the balance must cover them.
type CreditGrant struct {
	ID       string // idempotency key: a second grant with the same id has no effect; empty: a new grant
	Credits  int64
	By, Note string // who did it, and why
}

// GrantCredits adds a grant to the account's balance, with an audit event.
func (b *Billing) GrantCredits(account string, g CreditGrant, now time.Time) (Credits, error) {
	if g.ID == "" {
		g.ID = newID("g_")
	}
	event := AuditEvent{At: now, By: g.By, Action: "grant", Target: account,
		Note: fmt.Sprintf("%+d %s", g.Credits, g.Note)}
	err := b.Commit(account, grantPart(account, g.ID, g.Credits, g.Note, now), event.write)
	if err != nil {
		return Credits{}, err
	}
	return b.Credits(account)
}

func grantPart(account, id string, credits int64, note string, now time.Time) Part {
	return func(b *pebble.Batch) error {
		if err := checkName("grant id", id); err != nil {
			return err
		}
		if _, err := readUser(b, account); err != nil {
			return fmt.Errorf("account %s: %w", account, err)
		}
		_, err := appendEntry(b, account, Entry{ID: "grant " + id, Kind: Grant, Credits: credits, Cause: note, At: now})
		return err
	}
}

// CheckLedger verifies the account's ledger and returns what is wrong, if anything: the balance must be the sum of the
// entries and not negative after any of them, and reserved must be the sum of the open reservations.
func (b *Billing) CheckLedger(account string) error {
	view := b.db.NewSnapshot()
	defer view.Close()
	var sum Credits
	var count uint64
	err := scan(view, keyPrefix(tableLedger, account), nil, func(_, v []byte) error {
		r, err := readRecord(v)
		if err != nil {
			return err
		}
		for _, e := range r.entries(nil) {
			count++
			if sum, err = sum.checked(e, count); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", account, err)
	}
	have, last, err := readBalance(view, account)
	if err != nil {
		return err
	}
	if have != sum || last != count {
		return fmt.Errorf("ledger of %s: the balance says %+v after %d entries, they sum to %+v after %d", account,
			have, last, sum, count)
	}
	var open int64
	err = scan(view, keyPrefix(tableReserve, account), nil, func(_, v []byte) error {
		n, err := decodeUint64(v, "a reservation")
		open += int64(n)
		return err
	})
	if err == nil && open != sum.Reserved {
		err = fmt.Errorf("ledger of %s: %d reserved, but the open reservations hold %d", account, sum.Reserved, open)
	}
	return err
}

// checked returns the credits after entry number count, and verifies that the entry has the same.
func (c Credits) checked(e Entry, count uint64) (Credits, error) {
	now, amount := c.apply(e.Kind, e.Credits)
	if e.Number != count || e.Amount != amount || e.Balance != now.Balance || e.Reserved != now.Reserved {
		return now, fmt.Errorf("entry %d does not add up: %+v, want %+v", count, e, now)
	}
	if now.Balance < 0 || now.Reserved < 0 {
		return now, fmt.Errorf("entry %d leaves %+v", count, now)
	}
	return now, nil
}

// splitKeyName splits a key into the name that keyPrefix put after the table, and the bytes after the zero byte.
func splitKeyName(k []byte) (name string, rest []byte) {
	head, rest, _ := bytes.Cut(k[1:], []byte{0})
	return string(head), rest
}

// newID is a new identifier with 96 random bits.
func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}
