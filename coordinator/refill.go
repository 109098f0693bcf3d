package coordinator

import (
	"time"

	"probity/coordinator/chunks"
)

const (
	// bufferWait is how long rows of many hosts are buffered though the scheduler has none of their class: a host whose rows come
	// one by one needs a connection for each.
	bufferWait = time.Second
	// bufferWaitBusy is how long rows are buffered while most rows of their class in flight are unanswered: a slow receiver must not
	// delay others of the class.
	bufferWaitBusy = 5 * time.Second
)

// backlogLevel says how much the scheduler has of a job's class.
type backlogLevel uint8

const (
	backlogLow        backlogLevel = iota // no chunk is ready, and under half of the rows in flight are unanswered: more rows are wanted
	backlogUnanswered                     // no chunk is ready, and half or more of the rows in flight are unanswered
	backlogReady                          // chunks are ready
)

// backlogLevels returns the level of a job's classes; a class that is missing is low. idle: no job has anything to send.
func (d *scheduler) backlogLevels(job *runningJob) (has map[string]backlogLevel, idle bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	has = make(map[string]backlogLevel, len(job.queues))
	for class, q := range job.queues {
		switch {
		case len(q.ready) > 0:
			has[class] = backlogReady
		case q.unanswered > 0 && 2*q.unanswered >= q.dispatchedRows:
			has[class] = backlogUnanswered
		}
	}
	return has, d.idle
}

// openChunkKey is what the rows of an open chunk have in common.
type openChunkKey struct {
	class  string
	source string // egress source that must probe the rows; empty: any
	due    int64  // Unix milliseconds; 0: at once
}

// openChunk is rows of one key that are not flushed yet.
type openChunk struct {
	chunks.Builder
	since   time.Time // when its first row came
	attempt uint8     // highest attempt of its rows
}

// refill flushes the rows that an idle scheduler can use, at most once per refillInterval.
func (s *splitter) refill() error {
	now := time.Now()
	if !s.job.wantsMore.Load() || now.Sub(s.lastRefill) < refillInterval {
		return nil
	}
	s.lastRefill = now
	if s.allRead {
		return s.flushAll()
	}
	has, idle := s.job.c.scheduler.backlogLevels(s.job)
	for k, oc := range s.openChunks {
		if !oc.isDue(has[k.class], idle, now) {
			continue
		}
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.logAnswers()
}

// isDue reports whether the chunk is better sent now than buffered further, by the backlog level of its class. While the scheduler
// has work of other jobs, rows are buffered longer: only their own job waits for them.
func (oc *openChunk) isDue(has backlogLevel, idle bool, now time.Time) bool {
	var least time.Duration
	switch {
	case has == backlogReady:
		return false
	case has == backlogUnanswered || oc.ManyHosts() && !idle:
		least = bufferWaitBusy
	case oc.ManyHosts() || !idle:
		least = bufferWait
	}
	return now.Sub(oc.since) >= least
}
