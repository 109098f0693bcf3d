package coordinator

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/dispatch"
	"probity/coordinator/why"
)

// The receivers of the tail are read from the scratch file, so they are looked at rarely, and few are shown.
const (
	tailReadEvery = time.Minute
	maxShown      = 10
)

// tailReceivers is the receivers of a job's tail as they were last read.
type tailReceivers struct {
	mu     sync.Mutex // guards all below
	readAt time.Time
	found  []why.Receiver // with rows that wait
}

// name puts names of receivers in place of the classes, and the receivers of the tail in place of the tail.
func (tr *tailReceivers) name(job *runningJob, waiting []dispatch.WaitingClass, now time.Time) []dispatch.WaitingClass {
	table := job.c.table.Load()
	named := make([]dispatch.WaitingClass, 0, len(waiting))
	for _, w := range waiting {
		if w.Class != chunks.ClassTail {
			w.Class = why.NameOf(table, w.Class)
			named = append(named, w)
			continue
		}
		left := w.Rows
		for _, r := range tr.read(job, now) {
			rows := min(r.Rows-r.Asking, left)
			if rows <= 0 || len(named) >= maxShown {
				break
			}
			left -= rows
			named = append(named, dispatch.WaitingClass{Class: r.Name, Rows: rows, Until: w.Until, ETA: w.ETA})
		}
		if left > 0 {
			w.Class, w.Rows = why.NameOthers, left
			named = append(named, w)
		}
	}
	slices.SortFunc(named, func(a, b dispatch.WaitingClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	return named[:min(len(named), maxShown)]
}

// read returns the receivers of the tail, those with the most waiting rows first. A tail that cannot be read, as when
// the job ends just now, has none.
func (tr *tailReceivers) read(job *runningJob, now time.Time) []why.Receiver {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !tr.readAt.IsZero() && now.Sub(tr.readAt) < tailReadEvery {
		return tr.found
	}
	tr.readAt, tr.found = now, nil
	counts := job.progress.Counts()
	waits, err := job.chunks.TailWaits(now, refusedShare(&counts))
	if err != nil {
		job.c.log.Debug("receivers of a job are not named: its scratch file cannot be read", "job", job.record.ID,
			"error", err)
		return nil
	}
	f := why.Facts{Waits: waits, Table: job.c.table.Load(), Sources: 1, Now: now}
	tr.found = why.Explain(&f)
	slices.SortStableFunc(tr.found, func(a, b why.Receiver) int {
		return cmp.Compare(b.Rows-b.Asking, a.Rows-a.Asking)
	})
	return tr.found
}
