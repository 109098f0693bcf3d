package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Kind is the kind of a ledger entry.
type Kind string

// The kinds. A reservation moves credits from the balance to reserved; a charge spends reserved credits; a release
// moves the rest of a reservation back to the balance. The reservation of a single call is entered together with its
// settlement.
const (
	Grant   Kind = "grant"
	Reserve Kind = "reserve"
	Charge  Kind = "charge"
	Release Kind = "release"
)

// Entry is one line of an account's append-only ledger.
type Entry struct {
	Number   uint64    `json:"number"` // 1, 2, 3, ... in an account
	ID       string    `json:"id"`     // derived from the cause, unique in the account: a repeated entry has no effect
	Kind     Kind      `json:"kind"`
	Credits  int64     `json:"credits"` // of the entry; negative only in a grant that takes credits back
	Amount   int64     `json:"amount"`  // change of the balance, which is the sum of these
	Cause    string    `json:"cause"`   // "job <id>", "single <request>" (and /<key>: see CutKey), or the grant's note
	At       time.Time `json:"at"`
	Balance  int64     `json:"balance"`  // after the entry
	Reserved int64     `json:"reserved"` // after the entry
}

// keySeparator separates a request and the API key that it came with.
const keySeparator = '/'

// WithKey is the reference of a single call that came with an API key, so that its entries name the key.
func WithKey(request, key string) string {
	if key == "" {
		return request
	}
	return request + string(keySeparator) + key
}

// CutKey splits the cause of a single call's entry into the cause and the id of the API key, which is empty if there
// was none.
func (e *Entry) CutKey() (cause, key string) {
	if !strings.HasPrefix(e.Cause, singleCause) {
		return e.Cause, ""
	}
	cause, key, _ = strings.Cut(e.Cause, string(keySeparator))
	return cause, key
}

// Credits is the state of an account's ledger. Reserved belongs to unfinished jobs. The part of Balance that single
// calls have reserved (see ReservedBySingles) cannot be spent on anything else.
type Credits struct {
	Balance  int64
	Reserved int64
}

// MaxCredits bounds a balance and every entry, far from the overflow of an int64.
const MaxCredits = int64(1e15)

// ErrInsufficientCredits refuses an entry that the balance, less what single calls have reserved, does not cover.
type ErrInsufficientCredits struct {
	Balance int64
	Needed  int64
}

func (e *ErrInsufficientCredits) Error() string {
	return fmt.Sprintf("insufficient credits: %d needed, the balance is %d", e.Needed, e.Balance)
}

// The other refusals of the ledger.
var (
	// ErrLedgerConflict: an entry with that id exists and differs.
	ErrLedgerConflict = errors.New("the ledger already has this entry with other credits")
	// ErrOverspent: a settlement of more than was reserved.
	ErrOverspent = errors.New("more used than was reserved")
	// ErrCreditsRange: an amount beyond MaxCredits, or negative where that is not allowed.
	ErrCreditsRange = errors.New("credits out of range")
)

// appendEntry appends an entry to the account's ledger and updates its balance, in the batch. If the entry exists
// already, it does nothing and fresh is false.
func appendEntry(b *pebble.Batch, account string, e Entry) (fresh bool, err error) {
	if err := checkName("account", account); err != nil {
		return false, err
	}
	if e.Credits > MaxCredits || e.Credits < -MaxCredits || (e.Credits < 0 && e.Kind != Grant) {
		return false, ErrCreditsRange
	}
	if old, err := entryByID(b, account, e.ID); err == nil {
		return false, checkSameEntry(old, e)
	} else if !errors.Is(err, ErrNotFound) {
		return false, err
	}
	have, last, err := readBalance(b, account)
	if err != nil {
		return false, err
	}
	now, amount := have.apply(e.Kind, e.Credits)
	if now.Balance < 0 {
		return false, &ErrInsufficientCredits{Balance: have.Balance, Needed: -amount}
	}
	if now.Reserved < 0 {
		return false, ErrOverspent
	}
	if now.Balance > MaxCredits {
		return false, ErrCreditsRange
	}
	e.Number = last + 1
	e.Amount = amount
	e.Balance = now.Balance
	e.Reserved = now.Reserved
	e.At = e.At.UTC()
	return true, writeRecord(b, account, &record{Entry: e})
}

// apply returns the credits after an entry, and the change of the balance.
func (c Credits) apply(kind Kind, n int64) (now Credits, amount int64) {
	switch kind {
	case Grant:
		return Credits{c.Balance + n, c.Reserved}, n
	case Reserve:
		return Credits{c.Balance - n, c.Reserved + n}, -n
	case Charge:
		return Credits{c.Balance, c.Reserved - n}, 0
	case Release:
		return Credits{c.Balance + n, c.Reserved - n}, n
	}
	panic("BUG: ledger entry of kind " + string(kind))
}

func checkSameEntry(old, e Entry) error {
	if old.Kind != e.Kind || old.Credits != e.Credits {
		return fmt.Errorf("%s: %w", e.ID, ErrLedgerConflict)
	}
	return nil
}

// writeRecord adds a record, its id and the balance after it to the batch.
func writeRecord(b *pebble.Batch, account string, r *record) error {
	v, err := r.appendTo(nil)
	if err != nil {
		return err
	}
	number := appendUint64(nil, r.Number)
	balance := append(appendUint64(appendUint64(nil, uint64(r.Balance)), uint64(r.Reserved)), number...)
	return errors.Join(b.Set(numberedKey(tableLedger, account, r.Number), v, nil),
		b.Set(subKey(tableCause, account, r.lookupID()), number, nil), b.Set(key(tableBalance, account), balance, nil))
}

// entryByID returns the entry of an id. The id of a single call's settlement is its cause.
func entryByID(r pebble.Reader, account, id string) (Entry, error) {
	number, err := getUint64(r, subKey(tableCause, account, id), "the number of ledger entry "+id)
	if err != nil {
		return Entry{}, err
	}
	if number == 0 {
		return Entry{}, ErrNotFound
	}
	v, err := get(r, numberedKey(tableLedger, account, number))
	if err != nil {
		return Entry{}, err
	}
	rec, err := readRecord(v)
	return rec.Entry, err
}

// balanceSize is balance, reserved and the number of the last entry, eight bytes each.
const balanceSize = 24

// readBalance returns the account's credits and the number of its last entry; both are zero for an account without a
// ledger.
func readBalance(r pebble.Reader, account string) (c Credits, last uint64, err error) {
	v, err := get(r, key(tableBalance, account))
	if errors.Is(err, ErrNotFound) {
		return Credits{}, 0, nil
	}
	if err != nil {
		return Credits{}, 0, err
	}
	if len(v) != balanceSize {
		return Credits{}, 0, fmt.Errorf("balance of %s has %d bytes, want %d", account, len(v), balanceSize)
	}
	c.Balance = int64(binary.BigEndian.Uint64(v))
	c.Reserved = int64(binary.BigEndian.Uint64(v[8:]))
	return c, binary.BigEndian.Uint64(v[16:]), nil
}
