package coordinator

import "time"

const (
	// bufferWait is how long rows of many hosts are gathered though the scheduler has none of their class: a host whose rows come
	// one by one takes as many connections.
	bufferWait = time.Second
	// bufferWaitBusy is how long rows are gathered while most of their class that are under way are not answered: a receiver that
	// answers slowly must not keep others of the class waiting.
	bufferWaitBusy = 5 * time.Second
)

// backlogLevel is what the scheduler has of a class of a job.
type backlogLevel uint8

const (
	backlogLow        backlogLevel = iota // nothing, or less than half of what is under way: the next rows are wanted
	backlogUnanswered                     // half of what is under way, or more, is not answered
	backlogReady                          // chunks that wait
)

// backlogLevels is what the scheduler has of a job's classes; none of those that are not named. It is idle when it has nothing of any job.
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
	source string // the egress source that must ask; empty for any
	due    int64  // milliseconds since 1970; 0: at once
}

// dueTime is when the rows are due.
func (k *openChunkKey) dueTime() time.Time {
	if k.due == 0 {
		return time.Time{}
	}
	return time.UnixMilli(k.due).UTC()
}

// openChunk is an open chunk.
type openChunk struct {
	chunkBuilder
	since   time.Time // its first row
	attempt uint8     // the most of any of its rows
}

// refill flushes what an idle scheduler can use, if the last time is not just now.
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
	for k, g := range s.openChunks {
		if !g.isDue(has[k.class], idle, now) {
			continue
		}
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.commitBuffers()
}

// isDue reports rows that are better sent now than gathered further, given what the scheduler has of their class. While it has work of
// other jobs they may be gathered for longer: only their own job waits for them.
func (g *openChunk) isDue(has backlogLevel, idle bool, now time.Time) bool {
	var least time.Duration
	switch {
	case has == backlogReady:
		return false
	case has == backlogUnanswered || g.manyHosts() && !idle:
		least = bufferWaitBusy
	case g.manyHosts() || !idle:
		least = bufferWait
	}
	return now.Sub(g.since) >= least
}
