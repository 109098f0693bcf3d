package deliveries

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/store"
)

// ErrNone means that the results of a job are not delivered to a bucket.
var ErrNone = errors.New("the results of the job are not delivered to a bucket")

// The records. A key begins with store.TableDelivery and a kind.
//
//	kind           key after it                     value
const (
	kindRecord = 'r' // job id                       Delivery as JSON
	kindDue    = 'd' // unix nanoseconds, job id     empty
)

const duePrefix = 2 + 8 // before the job id in a key of kindDue

func recordKey(job string) []byte { return append([]byte{store.TableDelivery, kindRecord}, job...) }

func dueKey(d *Delivery) []byte {
	k := binary.BigEndian.AppendUint64([]byte{store.TableDelivery, kindDue}, uint64(d.Next.UnixNano()))
	return append(k, d.Job...)
}

func read(r pebble.Reader, job string) (d Delivery, err error) {
	v, closer, err := r.Get(recordKey(job))
	if errors.Is(err, pebble.ErrNotFound) {
		return d, ErrNone
	}
	if err != nil {
		return d, fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	if err := json.Unmarshal(v, &d); err != nil {
		return d, errors.Join(fmt.Errorf("delivery of job %s: %w", job, err), closer.Close())
	}
	return d, closer.Close()
}

// replace writes a delivery that was as it is in was.
func replace(b *pebble.Batch, was, now *Delivery) error {
	v, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if !was.Next.IsZero() {
		err = b.Delete(dueKey(was), nil)
	}
	if !now.Next.IsZero() {
		err = errors.Join(err, b.Set(dueKey(now), nil, nil))
	}
	return errors.Join(err, b.Set(recordKey(now.Job), v, nil))
}

// Accept is the part of a job's acceptance that has its results delivered to a URL.
func Accept(j *store.Job, url string) store.Part {
	d := Delivery{Job: j.ID, Account: j.Account, URL: url, State: Pending}
	return func(b *pebble.Batch) error { return replace(b, &d, &d) }
}

// JobEnded is the part of a job's end that makes its delivery due, if it has one. It is idempotent.
func JobEnded(j *store.Job) store.Part {
	return func(b *pebble.Batch) error {
		was, err := read(b, j.ID)
		if errors.Is(err, ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		at := j.FinishedAt
		if at.IsZero() {
			at = time.Now()
		}
		now := was
		if j.State == store.JobFailed {
			now.Abandon("the job failed and has no results", at)
		} else {
			now.Begin(at)
		}
		return replace(b, &was, &now)
	}
}

// JobExpired is the part of a job's expiry that ends its delivery if the job was not started. It is idempotent.
func JobExpired(job string) store.Part {
	return func(b *pebble.Batch) error {
		was, err := read(b, job)
		if errors.Is(err, ErrNone) || err == nil && !was.Next.IsZero() {
			return nil // one that is due ends with its next attempt
		}
		if err != nil {
			return err
		}
		now := was
		now.Abandon("the job was not started", time.Now())
		return replace(b, &was, &now)
	}
}

// JobDeleted is the part of a job's deletion that deletes its delivery, if it has one.
func JobDeleted(job string) store.Part {
	return func(b *pebble.Batch) error {
		was, err := read(b, job)
		if errors.Is(err, ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		if !was.Next.IsZero() {
			err = b.Delete(dueKey(&was), nil)
		}
		return errors.Join(err, b.Delete(recordKey(job), nil))
	}
}

// Of returns the delivery of a job, or ErrNone.
func Of(db *store.DB, job string) (Delivery, error) { return read(db.Reader(), job) }

// Update changes a delivery in a commit of its own, and returns the changed one. It returns ErrNone if there is none.
func Update(db *store.DB, job string, change func(*Delivery)) (now Delivery, err error) {
	at, err := Of(db, job)
	if err != nil {
		return now, err
	}
	err = db.Commit(at.Account, func(b *pebble.Batch) error {
		was, err := read(b, job)
		if err != nil {
			return err
		}
		now = was
		change(&now)
		return replace(b, &was, &now)
	})
	return now, err
}

// Drop deletes a delivery, if there is one.
func Drop(db *store.DB, job string) error {
	at, err := Of(db, job)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return db.Commit(at.Account, JobDeleted(job))
}

// Cursor is a position in the order of due times; the zero value is its start.
type Cursor struct{ key string }

// Due returns the jobs whose deliveries are due at now after a cursor, the longest due first and at most limit, and the
// next cursor, which is zero if there are no more.
func Due(db *store.DB, now time.Time, from Cursor, limit int) (jobs []string, next Cursor, err error) {
	latest := binary.BigEndian.AppendUint64([]byte{store.TableDelivery, kindDue}, uint64(now.UnixNano())+1)
	start := []byte{store.TableDelivery, kindDue}
	if from.key != "" {
		start = []byte(from.key + "\x00") // the key after it
	}
	last := ""
	err = scan(db, start, latest, func(k []byte) bool {
		if len(jobs) == limit {
			next.key = last
			return false
		}
		last = string(k)
		jobs = append(jobs, last[duePrefix:])
		return true
	})
	return jobs, next, err
}

// Sweep drops the deliveries of jobs that were deleted, and returns their number.
func Sweep(db *store.Store) (n int, err error) {
	var all []string
	err = scan(db.DB, []byte{store.TableDelivery, kindRecord}, []byte{store.TableDelivery, kindRecord + 1},
		func(k []byte) bool {
			all = append(all, string(k[2:]))
			return true
		})
	for _, job := range all {
		if err != nil {
			break
		}
		_, found := db.Job(job)
		switch {
		case errors.Is(found, store.ErrNotFound):
			err = Drop(db.DB, job)
			n++
		case found != nil:
			err = found
		}
	}
	return n, err
}

// scan calls visit with the keys from start to below end, until it returns false.
func scan(db *store.DB, start, end []byte, visit func(k []byte) bool) error {
	it, err := db.Reader().NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if !visit(it.Key()) {
			break
		}
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	return nil
}
