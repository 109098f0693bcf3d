package coordinator

import (
	"errors"
	"sync"
	"time"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// recountEvery is the maximum age of a running job's count of finished duplicates. A count reads eight bytes per duplicate.
const recountEvery = 2 * time.Second

// duplicateCount is how many duplicates of a running job have the verdict of their first row. It is only displayed: if counting
// fails, the last count stays and the job goes on.
type duplicateCount struct {
	mu     sync.Mutex // guards all below, and is held while the file is read: concurrent callers wait for that count
	at     time.Time  // of the last try
	done   int64
	failed bool // the last try failed, and that is logged
}

// doneDuplicates counts again if the last count is old.
func (job *runningJob) doneDuplicates(now time.Time, oldest time.Duration) int64 {
	if job.record.Duplicates == 0 {
		return 0
	}
	d := &job.duplicates
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && now.Sub(d.at) < oldest {
		return d.done
	}
	n, err := job.c.countDuplicates(job.record, job.answered)
	if err == nil {
		d.done = n
	} else if !d.failed {
		job.c.logUncounted(job.record.ID, err)
	}
	d.at, d.failed = now, err != nil
	return d.done
}

func (c *Coordinator) logUncounted(job string, err error) {
	c.log.Error("duplicates that are done cannot be counted: the job shows the last count", "job", job, "error", err)
}

// countDuplicates counts the duplicates whose first row is answered, in constant memory.
func (c *Coordinator) countDuplicates(j *store.Job, answered jobfiles.RowSet) (done int64, err error) {
	if j.Duplicates == 0 {
		return 0, nil
	}
	u, err := c.files.OpenUpload(j)
	if err != nil {
		return 0, err
	}
	err = u.EachDuplicate(func(_, first uint32) error {
		if answered.Has(first) {
			done++
		}
		return nil
	})
	return done, errors.Join(err, u.Close())
}
