package coordinator

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/dispatch"
	"probity/coordinator/fleet"
	"probity/coordinator/why"
	"probity/prober/wire"
)

const (
	outlookLife  = time.Minute            // an outlook reads the scratch file, and asks the nodes
	viewPatience = 500 * time.Millisecond // a node that answers later is left out: somebody waits for the job's record
	maxShown     = 10                     // receivers

	// The rows that are read to tell their routes and domains apart: for an outlook, and for Why.
	maxOutlookRead = 1 << 15
	maxWhyRead     = 1 << 18
)

// outlook is the receivers of a job with open rows, and when they are expected to be done, as last computed.
type outlook struct {
	mu        sync.Mutex // guards all below
	at        time.Time
	receivers []why.Receiver
}

// read returns the receivers. A job whose scratch file cannot be read, as when it ends just now, has none.
func (o *outlook) read(job *runningJob, now time.Time) []why.Receiver {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.at.IsZero() && now.Sub(o.at) < outlookLife {
		return o.receivers
	}
	ctx, cancel := context.WithTimeout(context.Background(), viewPatience)
	defer cancel()
	queues := job.c.queueViews.read(ctx, job.c.cfg.Prober, now)
	receivers, err := job.explain(queues, maxOutlookRead, now)
	if err != nil {
		job.c.log.Debug("receivers of a job are not named: its scratch file cannot be read", "job", job.record.ID,
			"error", err)
	}
	slices.SortStableFunc(receivers, func(a, b why.Receiver) int {
		return cmp.Compare(b.Rows-b.Asking, a.Rows-a.Asking)
	})
	o.at, o.receivers = now, receivers
	return receivers
}

// queueViews is the ready queues of all nodes as last seen: many jobs may wait for them.
type queueViews struct {
	mu     sync.Mutex // guards all below
	at     time.Time
	queues []fleet.ReadyQueueReport
}

func (v *queueViews) read(ctx context.Context, of wire.Prober, now time.Time) []fleet.ReadyQueueReport {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at.IsZero() || now.Sub(v.at) >= outlookLife {
		v.queues, _ = readyQueues(ctx, of)
		v.at = now
	}
	return v.queues
}

// windowsEnd returns when all receivers are expected to be done; zero if that is not known of one that has a thousandth
// of the rows that are left.
func windowsEnd(receivers []why.Receiver, left int64) (end time.Time) {
	for i := range receivers {
		r := &receivers[i]
		switch {
		case r.Name == why.NameDNS, r.Rows*dispatch.FewOfAll < left:
		case r.DoneBy.IsZero():
			return time.Time{}
		case r.DoneBy.After(end):
			end = r.DoneBy
		}
	}
	return end
}

// named puts names of receivers in place of the classes, and the receivers of the tail in place of the tail.
func named(waiting []dispatch.WaitingClass, job *runningJob, receivers []why.Receiver,
	now time.Time) []dispatch.WaitingClass {
	table := job.c.table.Load()
	all := make([]dispatch.WaitingClass, 0, len(waiting))
	for _, w := range waiting {
		if w.Class != chunks.ClassTail {
			w.Class = why.NameOf(table, w.Class)
			if i := slices.IndexFunc(receivers, func(r why.Receiver) bool { return r.Name == w.Class }); i >= 0 &&
				!w.Until.IsZero() {
				w.ETA = max(0, receivers[i].DoneBy.Sub(now))
			}
			all = append(all, w)
			continue
		}
		left := w.Rows
		for i := range receivers {
			r := &receivers[i]
			rows := min(r.Rows-r.Asking, left)
			if rows <= 0 || !r.Tail || len(all) >= maxShown {
				continue
			}
			left -= rows
			all = append(all, dispatch.WaitingClass{Class: r.Name, Rows: rows, Until: w.Until,
				ETA: max(0, r.DoneBy.Sub(now))})
		}
		if left > 0 {
			w.Class, w.Rows = why.NameOthers, left
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b dispatch.WaitingClass) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Class, b.Class))
	})
	return all[:min(len(all), maxShown)]
}
