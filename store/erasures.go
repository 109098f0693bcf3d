package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Erasure is a person's request to be forgotten and its progress: the receipt. While it is open it has the address, so
// that it can continue after a crash; once it is done it has only the hash.
type Erasure struct {
	ID        string    `json:"id"` // ids of later requests are greater
	Hash      string    `json:"hash"`
	Address   string    `json:"address,omitempty"` // in the engine's folded form; only while it is open
	Requested time.Time `json:"asked"`
	LastTry   time.Time `json:"tried,omitzero"`
	Done      time.Time `json:"done,omitzero"`

	JobsDone bool `json:"jobs_done,omitempty"`
	// jobs with the address, and their rows with it; only while it is open
	Jobs     map[string]int64 `json:"jobs,omitempty"`
	JobsLeft []string         `json:"jobs_left,omitempty"`
	JobCount int64            `json:"job_count"`
	Rows     int64            `json:"rows"`
	Answers  int64            `json:"answers"`
	Reports  int64            `json:"reports,omitempty"` // records of what became of messages
	Caches   []ErasedCache    `json:"caches,omitempty"`
	Fault    string           `json:"fault,omitempty"` // why the last try did not finish
}

// ErasedCache is the cache of one node.
type ErasedCache struct {
	Node     string    `json:"node"`
	Verdicts int64     `json:"verdicts"`
	Done     time.Time `json:"done,omitzero"`
	Until    time.Time `json:"until,omitzero"` // if it was not reached: its entries have expired by then
}

// Open reports whether e is not done yet.
func (e *Erasure) Open() bool { return e.Done.IsZero() }

// The bounds of erasures.
const (
	MaxErasures = 10_000               // open at one time
	receiptTTL  = 400 * 24 * time.Hour // of those that are done
)

// ErrErasuresFull refuses a request beyond the bound.
var ErrErasuresFull = fmt.Errorf("%d erasures are not finished and no more can wait: bring the nodes back that they wait for", MaxErasures)

// RequestErasure stores a request, with its audit event, which does not name the address. If the address has an open
// request, it returns that one.
func (p *Privacy) RequestErasure(folded, by string, now time.Time) (e Erasure, err error) {
	hash := hashSecret(folded)
	e = Erasure{Hash: hex.EncodeToString(hash[:]), Address: folded, Requested: now.UTC()}
	e.ID = fmt.Sprintf("%016x%s", now.UnixNano(), newID("")[:8])
	insert := func(b *pebble.Batch) error {
		if id, err := get(b, key(tableOpenErasure, e.Hash)); err == nil {
			e, err = readJSON[Erasure](b, key(tableErasure, string(id)))
			if err != nil || e.Address != "" {
				return err
			}
			// it is being finished, and may have missed what came since
			e.Address, e.JobsDone, e.Caches = folded, false, nil
			return setJSON(b, key(tableErasure, e.ID), e)
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		open, err := count(b, []byte{tableOpenErasure})
		if err != nil {
			return err
		}
		if open >= MaxErasures {
			return ErrErasuresFull
		}
		return errors.Join(b.Set(key(tableOpenErasure, e.Hash), []byte(e.ID), nil),
			setJSON(b, key(tableErasure, e.ID), e))
	}
	err = p.Commit("", insert, AuditEvent{At: now, By: by, Action: "erase", Target: "an address"}.write)
	return e, err
}

// SaveErasure stores the progress of an open erasure.
func (p *Privacy) SaveErasure(e *Erasure) error {
	return p.Commit("", func(b *pebble.Batch) error { return setJSON(b, key(tableErasure, e.ID), e) })
}

// FinishErasure makes an erasure that has reached everything else a receipt, without the address and the names of jobs.
// It is done once no file of the store has the address: not the log, nor the older versions of records. After an error
// it is open and has no address; it is finished by calling this again.
func (p *Privacy) FinishErasure(ctx context.Context, e *Erasure) error {
	e.Address = ""
	e.Jobs = nil
	e.JobsLeft = nil
	e.Fault = ""
	if err := p.SaveErasure(e); err != nil {
		return err
	}
	if err := p.removeOldValues(ctx); err != nil {
		return err
	}
	done := *e
	done.Done = time.Now().UTC()
	err := p.Commit("", func(b *pebble.Batch) error {
		return errors.Join(b.Delete(key(tableOpenErasure, e.Hash), nil), setJSON(b, key(tableErasure, e.ID), &done))
	})
	if err == nil {
		*e = done
	}
	return err
}

// removeOldValues removes what the records with addresses were before, from all files of the store.
func (p *Privacy) removeOldValues(ctx context.Context) error {
	if err := p.Full(); err != nil {
		return err
	}
	defer panicAsLost()
	return p.fs.RemoveOldValues(ctx, p.db, p.dir, tableErasure, tableAnswer, TableSingle)
}

// Erasure returns an erasure by id, or ErrNotFound.
func (p *Privacy) Erasure(id string) (Erasure, error) {
	return readJSON[Erasure](p.db, key(tableErasure, id))
}

// OpenErasures returns the ids of the open erasures.
func (p *Privacy) OpenErasures() (ids []string, err error) {
	err = scan(p.db, []byte{tableOpenErasure}, nil,
		func(_, v []byte) error { ids = append(ids, string(v)); return nil })
	return ids, err
}

// erasureIDLen is the length of the id of an erasure in hex digits: its time and four random bytes.
const erasureIDLen = 24

// Erasures lists erasures, newest first, from below an id (empty: from the newest), at most limit and MaxPage of them.
func (p *Privacy) Erasures(below string, limit int) ([]Erasure, error) {
	upper := prefixEnd([]byte{tableErasure})
	if below != "" {
		if _, err := hex.DecodeString(below); err != nil || len(below) != erasureIDLen {
			return nil, fmt.Errorf("%w: %q", ErrBadCursor, below)
		}
		upper = key(tableErasure, below)
	}
	return newestJSON(p.db, []byte{tableErasure}, upper, limit, func([]byte, *Erasure) {})
}

// SweepErasures deletes receipts that are over 400 days old, and returns their number.
func (p *Privacy) SweepErasures(now time.Time) (n int, err error) {
	return p.sweep([]byte{tableErasure}, func(k, v []byte) (*deletion, error) {
		var e Erasure
		if err := decodeJSON(k, v, &e); err != nil {
			return nil, err
		}
		if now.Sub(e.Requested) < receiptTTL {
			return nil, errStop
		}
		if e.Open() {
			return nil, nil
		}
		return &deletion{}, nil
	})
}
