package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// maxScan bounds the rows that one read looks at: if too few of them are wanted, the page is short and says where to go
// on.
const maxScan = 25_000

// Query is which rows a page has, the newest first.
type Query struct {
	Before   uint64    // the Next of the page before; 0 for the newest
	Limit    int       // rows of a page
	From, To time.Time // of the rows; From is included, To is not. The zero value is no limit.
}

// Requests returns a page of an account's requests for which wanted is true, and the Before of the next one; 0 if there
// is none.
func (h *History) Requests(account string, q Query, wanted func(*Request) bool) ([]Request, uint64, error) {
	return page(h, requests, account, q, readRequest, wanted)
}

// Verifications is Requests for verifications.
func (h *History) Verifications(account string, q Query,
	wanted func(*Verification) bool) ([]Verification, uint64, error) {
	return page(h, verifications, account, q, readVerification, wanted)
}

// ErrNotFound means that the account has no verification of such a request, or none any more.
var ErrNotFound = errors.New("the history has no such verification")

// Single returns the verification of a single call, with its proof.
func (h *History) Single(account, request string) (Verification, error) {
	if h == nil {
		return Verification{}, ErrNotFound
	}
	var found *Verification
	_, err := h.scan(verifications, account, Query{}, func(_ uint64, row []byte) (bool, error) {
		v, err := readVerification(row)
		if err != nil {
			return false, err
		}
		if v.Request == request && v.Proof {
			found = &v
		}
		return found == nil, nil
	})
	if err != nil {
		return Verification{}, err
	}
	if found == nil {
		return Verification{}, ErrNotFound
	}
	return *found, nil
}

// page reads a page of a kind.
func page[T any](h *History, k kind, account string, q Query, read func([]byte) (T, error),
	wanted func(*T) bool) (rows []T, next uint64, err error) {
	if h == nil {
		return nil, 0, nil
	}
	scanned := 0
	next, err = h.scan(k, account, q, func(_ uint64, row []byte) (bool, error) {
		scanned++
		at := time.UnixMilli(int64(binary.BigEndian.Uint64(row)))
		if !q.To.IsZero() && !at.Before(q.To) || at.Before(q.From) {
			return scanned < maxScan, nil
		}
		one, err := read(row)
		if err != nil {
			return false, err
		}
		if wanted(&one) {
			rows = append(rows, one)
		}
		return scanned < maxScan && len(rows) < q.Limit, nil
	})
	return rows, next, err
}

// scan passes the rows of an account below q.Before to visit, the newest first, until visit returns false or a block is
// older than q.From. It returns the number of the last row that it passed, or 0 if there are no more.
func (h *History) scan(k kind, account string, q Query,
	visit func(n uint64, row []byte) (bool, error)) (uint64, error) {
	h.flushForRead()
	h.dbMu.RLock()
	defer h.dbMu.RUnlock()
	o := &pebble.IterOptions{LowerBound: k.prefix(account), UpperBound: k.end(account)}
	if q.Before > 0 {
		o.UpperBound = k.key(account, q.Before)
	}
	it, err := h.db.NewIter(o)
	if err != nil {
		return 0, fmt.Errorf("history: %w", err)
	}
	defer it.Close()
	for ok := it.Last(); ok; ok = it.Prev() {
		value, err := it.ValueAndErr()
		if err != nil {
			return 0, fmt.Errorf("history: %w", err)
		}
		if !q.From.IsZero() && int64(newestOf(value)) < q.From.UnixMilli() {
			break
		}
		_, first := splitKey(it.Key())
		rows := splitBlock(value)
		for i := len(rows) - 1; i >= 0; i-- {
			n := first + uint64(i)
			if len(rows[i]) < atSize || q.Before > 0 && n >= q.Before {
				continue
			}
			more, err := visit(n, rows[i])
			if err != nil || !more {
				return n, err
			}
		}
	}
	if err := it.Error(); err != nil {
		return 0, fmt.Errorf("history: %w", err)
	}
	return 0, nil
}
