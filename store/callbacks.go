package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// CallbackState is how far the callback of a job has come.
type CallbackState string

// The states. Only a pending one has a next attempt.
const (
	CallbackPending   CallbackState = "pending"
	CallbackDelivered CallbackState = "delivered" // a 2xx
	CallbackStopped   CallbackState = "stopped"   // the receiver said 410
	CallbackFailed    CallbackState = "failed"    // the schedule is used up
)

// Callback is the schedule of one job's notification.
type Callback struct {
	Job      string        `json:"job"`
	Account  string        `json:"account"`
	State    CallbackState `json:"state"`
	Attempts int           `json:"attempts"` // made so far, in all rounds
	Tries    int           `json:"tries"`    // of this round: a re-send by hand begins a new one
	Next     time.Time     `json:"next,omitzero"`
	Link     bool          `json:"link,omitempty"` // from now on without the results in the body
}

// Attempt is one line of a callback's log.
type Attempt struct {
	Number    int           `json:"number"` // 1, 2, 3, ...: recording a number again does nothing
	At        time.Time     `json:"at"`
	Duration  time.Duration `json:"duration"`
	Status    int           `json:"status,omitempty"` // of the response, 0 if there was none
	Error     string        `json:"error,omitempty"`
	Bytes     int64         `json:"bytes,omitempty"` // of the body that were sent
	Link      bool          `json:"link,omitempty"`
	Truncated bool          `json:"cut,omitempty"` // the connection was lost before the whole body was taken
}

// Outcome is what an attempt means for the schedule.
type Outcome struct {
	State  CallbackState // CallbackPending: failed, try again if the schedule has a next time
	Link   bool          // the next attempts leave the results out
	Jitter float64       // 0 to 1: how much of a fifth of the delay is added to it
}

// MaxAttempts bounds the log of one callback: older lines are dropped.
const MaxAttempts = 50

// ErrNoCallback: the job has no callback.
var ErrNoCallback = errors.New("the job has no callback")

// callbackDelays are the waits after the first attempt and after each retry but the last.
var callbackDelays = [...]time.Duration{
	5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// CallbackDelay is the wait after the given number of tries (1 or more), and whether there is a next try at all.
func CallbackDelay(tries int, jitter float64) (time.Duration, bool) {
	if tries < 1 || tries > len(callbackDelays) {
		return 0, false
	}
	d := callbackDelays[tries-1]
	return d + time.Duration(float64(d)/5*min(max(jitter, 0), 1)), true
}

// ScheduleCallback is the part of a job's end that makes its callback due at once. Doing it again changes nothing.
func ScheduleCallback(account, job string, now time.Time) Part {
	return func(b *pebble.Batch) error {
		if err := checkName("job", job); err != nil {
			return err
		}
		if _, err := readCallback(b, job); !errors.Is(err, ErrNoCallback) {
			return err
		}
		return Callback{Job: job, Account: account, State: CallbackPending, Next: now.UTC()}.write(b)
	}
}

func readCallback(r pebble.Reader, job string) (Callback, error) {
	var c Callback
	err := getJSON(r, key(tableCallback, job), &c)
	if errors.Is(err, ErrNotFound) {
		return c, fmt.Errorf("job %s: %w", job, ErrNoCallback)
	}
	return c, err
}

// write stores the callback, and its place in the order of what is due if it is pending.
func (c Callback) write(b *pebble.Batch) error {
	if c.State == CallbackPending {
		if err := b.Set(dueKey(c), nil, nil); err != nil {
			return err
		}
	}
	return setJSON(b, key(tableCallback, c.Job), c)
}

func dueKey(c Callback) []byte {
	k := binary.BigEndian.AppendUint64([]byte{tableCallbackDue}, uint64(c.Next.UnixNano()))
	return append(k, c.Job...)
}

// Callback is the schedule of a job's callback, or ErrNoCallback.
func (s *Store) Callback(job string) (Callback, error) { return readCallback(s.db, job) }

// DueCursor is a place in the order of what is due; the zero value is its beginning.
type DueCursor struct{ key string }

// DueCallbacks lists what is due at now behind a mark, the longest due first, at most limit and MaxPage, and where to go
// on: at the beginning again once there is no more. What is being attempted is still listed: the caller knows what it has
// under way, and after a crash the attempt is made again.
func (s *Store) DueCallbacks(now time.Time, from DueCursor, limit int) (due []Callback, next DueCursor, err error) {
	var start []byte
	if from.key != "" {
		start = []byte(from.key + "\x00") // the key after it
	}
	var last string
	err = scan(s.db, []byte{tableCallbackDue}, start, func(k, _ []byte) error {
		if at, ok := dueTime(k); !ok || at.After(now) {
			return errStop
		}
		if len(due) == pageSize(limit) {
			next.key = last
			return errStop
		}
		last = string(k)
		c, err := readCallback(s.db, string(k[9:]))
		if errors.Is(err, ErrNoCallback) {
			return nil // dropped between the two reads
		}
		due = append(due, c)
		return err
	})
	return due, next, err
}

// NextCallback is when the next callback is due; ok is false when none is scheduled.
func (s *Store) NextCallback() (at time.Time, ok bool, err error) {
	err = scan(s.db, []byte{tableCallbackDue}, nil, func(k, _ []byte) error {
		at, ok = dueTime(k)
		return errStop
	})
	return at, ok, err
}

func dueTime(k []byte) (time.Time, bool) {
	if len(k) < 9 {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(k[1:]))).UTC(), true
}

// RecordAttempt logs an attempt and moves the schedule, in one commit. The attempt's number must be Attempts+1 of the
// callback as it was attempted; a smaller one was recorded before and does nothing.
func (s *Store) RecordAttempt(job string, a Attempt, o Outcome, now time.Time) (c Callback, err error) {
	err = s.changeCallback(job, func(b *pebble.Batch, was *Callback) error {
		if a.Number <= was.Attempts {
			c = *was
			return errNoChange
		}
		if a.Number != was.Attempts+1 {
			return fmt.Errorf("callback attempt %d of job %s after %d", a.Number, job, was.Attempts)
		}
		a.At = a.At.UTC()
		if err := logAttempt(b, job, a); err != nil {
			return err
		}
		*was = was.afterAttempt(o, now)
		c = *was
		return nil
	})
	return c, err
}

// afterAttempt is the schedule after an attempt.
func (c Callback) afterAttempt(o Outcome, now time.Time) Callback {
	c.Attempts++
	c.Tries++
	c.Link = c.Link || o.Link
	c.State, c.Next = o.State, time.Time{}
	if o.State != CallbackPending {
		return c
	}
	delay, again := CallbackDelay(c.Tries, o.Jitter)
	if !again {
		c.State = CallbackFailed
		return c
	}
	c.Next = now.Add(delay).UTC()
	return c
}

func logAttempt(b *pebble.Batch, job string, a Attempt) error {
	if len(a.Error) > maxNote {
		a.Error = a.Error[:maxNote]
	}
	if err := setJSON(b, numberedKey(tableAttempt, job, uint64(a.Number)), a); err != nil {
		return err
	}
	if a.Number <= MaxAttempts {
		return nil
	}
	return b.Delete(numberedKey(tableAttempt, job, uint64(a.Number-MaxAttempts)), nil)
}

// ResendCallback makes a job's callback due again, whatever became of it, with the whole schedule before it.
func (s *Store) ResendCallback(job string, now time.Time) (c Callback, err error) {
	err = s.changeCallback(job, func(_ *pebble.Batch, was *Callback) error {
		was.State, was.Tries, was.Next = CallbackPending, 0, now.UTC()
		c = *was
		return nil
	})
	return c, err
}

// errNoChange ends a change that has nothing to write.
var errNoChange = errors.New("no change")

// changeCallback reads a callback, lets change alter it, and moves it in the order of what is due.
func (s *Store) changeCallback(job string, change func(*pebble.Batch, *Callback) error) error {
	at, err := readCallback(s.db, job)
	if err != nil {
		return err
	}
	err = s.Commit(at.Account, func(b *pebble.Batch) error {
		c, err := readCallback(b, job)
		if err != nil {
			return err
		}
		was := c
		if err := change(b, &c); err != nil {
			return err
		}
		if was.State == CallbackPending {
			if err := b.Delete(dueKey(was), nil); err != nil {
				return err
			}
		}
		return c.write(b)
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}

// CallbackLog lists the attempts that are kept, oldest first.
func (s *Store) CallbackLog(job string) ([]Attempt, error) {
	var log []Attempt
	err := scan(s.db, keyPrefix(tableAttempt, job), nil, func(_, v []byte) error {
		var a Attempt
		err := json.Unmarshal(v, &a)
		log = append(log, a)
		return err
	})
	return log, err
}

// DropCallback is the part of a job's deletion that takes its callback and its log with it.
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
		return errors.Join(b.Delete(dueKey(c), nil), b.Delete(key(tableCallback, job), nil), b.DeleteRange(logPrefix, prefixEnd(logPrefix), nil))
	}
}
