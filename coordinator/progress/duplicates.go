package progress

import (
	"sync"
	"time"
)

// RecountEvery is the maximum age of a displayed count of duplicates. A count reads eight bytes per duplicate.
const RecountEvery = 2 * time.Second

// Duplicates is how many duplicates of a running job have the verdict of their first row. It is only displayed: if
// counting fails, the last count stays and the job goes on.
type Duplicates struct {
	mu     sync.Mutex // guards all below, and is held during a count: concurrent callers wait for that count
	at     time.Time  // of the last try
	done   int64
	failed bool // the last try failed
}

// Done returns how many are done, and counts again if the last count is older than oldest. Of failures in a row the
// first is returned.
func (d *Duplicates) Done(now time.Time, oldest time.Duration, count func() (int64, error)) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && now.Sub(d.at) < oldest {
		return d.done, nil
	}
	n, err := count()
	failedBefore := d.failed
	d.at, d.failed = now, err != nil
	if err == nil {
		d.done = n
		return n, nil
	}
	if failedBefore {
		err = nil
	}
	return d.done, err
}
