package split

import (
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/dispatch"
	"probity/prober/wire"
)

const (
	maxKnownRoutes = 32 << 10
	// bufferWait is how long rows of many hosts are buffered though the scheduler has none of their class: a host whose
	// rows come one by one needs a connection for each. So are few rows where there are many sources.
	bufferWait = time.Second
	// bufferWaitBusy is how long rows are buffered while most rows of their class in flight are unanswered: a slow
	// receiver must not delay others of the class. So are few rows of many hosts where there are many sources.
	bufferWaitBusy = 5 * time.Second
)

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

// isDue reports whether the chunk is better sent now than buffered further, by the backlog of its class and how many
// rows make a full chunk of it: more than wire.MaxRows where there are many sources. While the scheduler has work of
// other jobs, rows are buffered longer: only their own job waits for them.
func (oc *openChunk) isDue(has dispatch.Backlog, idle bool, full int, now time.Time) bool {
	reasons := 0 // to wait
	for _, reason := range []bool{oc.ManyHosts(), full > wire.MaxRows && oc.Len() < full, !idle} {
		if reason {
			reasons++
		}
	}
	switch {
	case has == dispatch.BacklogReady:
		return false
	case has == dispatch.BacklogUnanswered || reasons > 1:
		return now.Sub(oc.since) >= bufferWaitBusy
	case reasons > 0:
		return now.Sub(oc.since) >= bufferWait
	}
	return true
}

// flushChunk writes an open chunk, split into chunks of the size of its class, and adds them to the scheduler.
func (s *jobSplit) flushChunk(k openChunkKey) error {
	p := s.openChunks[k]
	delete(s.openChunks, k)
	s.openBytes -= p.Size()
	var batches []chunks.Pending
	for _, cut := range p.SplitRows(s.job.Chunks.ChunkRows(k.class)) {
		batches = append(batches, chunks.Pending{Rows: &p.Builder, Subset: cut, Class: k.class, Source: k.source,
			Attempt: p.attempt, Due: chunks.DueTime(k.due)})
	}
	made, err := s.job.File.Write(batches)
	if err != nil {
		return err
	}
	s.job.Chunks.Add(made)
	return nil
}

func (s *jobSplit) flushAll() error {
	for k := range s.openChunks {
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.logAnswers()
}
