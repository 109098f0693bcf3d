package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// CallbackState is the state of a job's callback.
type CallbackState string

// The states. Only a pending callback has a next attempt.
const (
	CallbackPending   CallbackState = "pending"
	CallbackDelivered CallbackState = "delivered" // a 2xx
	CallbackStopped   CallbackState = "stopped"   // the receiver answered 410
	CallbackFailed    CallbackState = "failed"    // the schedule is used up
)

// Callback is the schedule of one job's notification.
type Callback struct {
	Job      string        `json:"job"`
	Account  string        `json:"account"`
	Made     time.Time     `json:"made"` // when it was scheduled first
	State    CallbackState `json:"state"`
	Attempts int           `json:"attempts"` // made so far, in all rounds
	Tries    int           `json:"tries"`    // in this round: a manual re-send starts a new one
	Next     time.Time     `json:"next,omitzero"`
	Link     bool          `json:"link,omitempty"`   // further attempts have no results in the body
	Single   bool          `json:"single,omitempty"` // of a single call, whose request id Job is
}

// Attempt is one line of a callback's log.
type Attempt struct {
	Number    int           `json:"number"` // 1, 2, 3, ...: recording a number again has no effect
	At        time.Time     `json:"at"`
	Duration  time.Duration `json:"duration"`
	Status    int           `json:"status,omitempty"` // of the response, 0 if there was none
	Error     string        `json:"error,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"` // of the body that were sent
	Link      bool          `json:"link,omitempty"`
	Truncated bool          `json:"cut,omitempty"`    // the connection was lost before the whole body was sent
	Answer    string        `json:"answer,omitempty"` // the beginning of the receiver's answer, without addresses
}

// Outcome is what an attempt means for the schedule.
type Outcome struct {
	State  CallbackState // CallbackPending: failed, try again if the schedule has a next time
	Link   bool          // further attempts have no results in the body
	Jitter float64       // 0 to 1: the part of a fifth of the delay that is added to it
}

// MaxAttempts bounds the log of one callback: older lines are dropped.
const MaxAttempts = 50

// ErrNoCallback means that the job has no callback.
var ErrNoCallback = errors.New("the job has no callback")

// callbackDelays are the delays after the first try and after each further one but the last.
var callbackDelays = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour,
}

// ScheduleCallback is the part of a job's end that makes its callback due at once. A repetition has no effect.
func ScheduleCallback(account, job string, now time.Time) Part {
	return Callback{Job: job, Account: account}.schedule(now)
}

// ScheduleSingle is ScheduleCallback for a single call that has its verdict.
func ScheduleSingle(account, request string, now time.Time) Part {
	return Callback{Job: request, Account: account, Single: true}.schedule(now)
}

func (c Callback) schedule(now time.Time) Part {
	c.State, c.Made, c.Next = CallbackPending, now.UTC(), now.UTC()
	return func(b *pebble.Batch) error {
		if err := checkName("job", c.Job); err != nil {
			return err
		}
		if _, err := readCallback(b, c.Job); !errors.Is(err, ErrNoCallback) {
			return err
		}
		return c.write(b)
	}
}

func readCallback(r pebble.Reader, job string) (Callback, error) {
	c, err := readJSON[Callback](r, key(tableCallback, job))
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("job %s: %w", job, ErrNoCallback)
	}
	return c, err
}

// write stores the callback, its key among those of the account and, if it is pending, its key in the order of due
// times.
func (c Callback) write(b *pebble.Batch) error {
	err := errors.Join(setJSON(b, key(tableCallback, c.Job), c), b.Set(c.listKey(), nil, nil))
	if c.State == CallbackPending {
		err = errors.Join(err, b.Set(dueKey(c), nil, nil))
	}
	return err
}

func (c Callback) listKey() []byte {
	return append(numberedKey(TableCallbacks, c.Account, ^uint64(c.Made.UnixNano())), c.Job...)
}

func dueKey(c Callback) []byte {
	return append(appendUint64([]byte{tableCallbackDue}, uint64(c.Next.UnixNano())), c.Job...)
}

// Callback returns a job's callback, or ErrNoCallback.
func (j *Jobs) Callback(job string) (Callback, error) { return readCallback(j.db, job) }

// DueCursor is a position in the order of due times; the zero value is its start.
type DueCursor struct{ key string }

// DueCallbacks lists the callbacks that are due at now after a cursor, the longest due first, at most limit and MaxPage
// of them, and the next cursor, which is zero if there are no more. Callbacks that are being attempted are listed too:
// the caller knows them, and after a crash the attempt is repeated.
func (j *Jobs) DueCallbacks(now time.Time, from DueCursor, limit int) (due []Callback, next DueCursor, err error) {
	var start []byte
	if from.key != "" {
		start = []byte(from.key + "\x00") // the key after it
	}
	var last string
	err = scan(j.db, []byte{tableCallbackDue}, start, func(k, _ []byte) error {
		if len(k) < 9 || time.Unix(0, int64(binary.BigEndian.Uint64(k[1:]))).After(now) {
			return errStop
		}
		if len(due) == pageSize(limit) {
			next.key = last
			return errStop
		}
		last = string(k)
		c, err := readCallback(j.db, string(k[9:]))
		if errors.Is(err, ErrNoCallback) {
			return nil // deleted between the two reads
		}
		due = append(due, c)
		return err
	})
	return due, next, err
}

// RecordAttempt logs an attempt and updates the schedule, in one commit. The attempt's number must be Attempts+1 of the
// callback before it; a smaller one was recorded already and has no effect.
func (j *Jobs) RecordAttempt(job string, a Attempt, o Outcome, now time.Time) (Callback, error) {
	return j.changeCallback(job, func(b *pebble.Batch, c *Callback) error {
		if a.Number <= c.Attempts {
			return nil
		}
		if a.Number != c.Attempts+1 {
			return fmt.Errorf("callback attempt %d of job %s after %d", a.Number, job, c.Attempts)
		}
		a.At, a.Error = a.At.UTC(), a.Error[:min(len(a.Error), maxNote)]
		if err := setJSON(b, numberedKey(tableAttempt, job, uint64(a.Number)), a); err != nil {
			return err
		}
		if a.Number > MaxAttempts {
			if err := b.Delete(numberedKey(tableAttempt, job, uint64(a.Number-MaxAttempts)), nil); err != nil {
				return err
			}
		}
		c.Attempts++
		c.Tries++
		c.Link = c.Link || o.Link
		c.State, c.Next = o.State, time.Time{}
		switch {
		case o.State != CallbackPending:
		case c.Tries > len(callbackDelays):
			c.State = CallbackFailed
		default:
			d := callbackDelays[c.Tries-1]
			c.Next = now.Add(d + time.Duration(float64(d)/5*min(max(o.Jitter, 0), 1))).UTC()
		}
		return nil
	})
}

// ResendCallback makes a job's callback due again in any state, with a new round of tries.
func (j *Jobs) ResendCallback(job string, now time.Time) (Callback, error) {
	return j.changeCallback(job, func(_ *pebble.Batch, c *Callback) error {
		c.State, c.Tries, c.Next = CallbackPending, 0, now.UTC()
		return nil
	})
}

// changeCallback reads a callback, calls change, and writes it, if it has changed, with its new place in the order of
// due times.
func (j *Jobs) changeCallback(job string, change func(*pebble.Batch, *Callback) error) (c Callback, err error) {
	at, err := readCallback(j.db, job)
	if err != nil {
		return c, err
	}
	err = j.Commit(at.Account, func(b *pebble.Batch) error {
		if c, err = readCallback(b, job); err != nil {
			return err
		}
		was := c
		if err := change(b, &c); err != nil || c == was {
			return err
		}
		if was.State == CallbackPending {
			if err := b.Delete(dueKey(was), nil); err != nil {
				return err
			}
		}
		return c.write(b)
	})
	return c, err
}

// CallbackLog lists the logged attempts, oldest first.
func (j *Jobs) CallbackLog(job string) ([]Attempt, error) {
	return listJSON[Attempt](j.db, keyPrefix(tableAttempt, job))
}

// DropCallback is the part of a job's deletion that deletes its callback and the log.
func DropCallback(job string) Part {
	return func(b *pebble.Batch) error {
		c, err := readCallback(b, job)
		if errors.Is(err, ErrNoCallback) {
			return nil
		}
		if err != nil {
			return err
		}
		logPrefix := keyPrefix(tableAttempt, job)
		return errors.Join(b.Delete(dueKey(c), nil), b.Delete(c.listKey(), nil), b.Delete(key(tableCallback, job), nil),
			b.DeleteRange(logPrefix, prefixEnd(logPrefix), nil))
	}
}
