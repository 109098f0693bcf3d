package split

import (
	"probity/coordinator/chunks"
	"probity/prober/wire"
)

const (
	maxKnownRoutes = 32 << 10
	// maxBufferedRows is how many rows of a class with many routes are buffered before they are split into chunks.
	maxBufferedRows = 8 * wire.MaxRows
)

// flushChunk writes an open chunk, split into chunks of the size of its class, and adds them to the scheduler.
func (s *jobSplit) flushChunk(k openChunkKey) error {
	p := s.openChunks[k]
	delete(s.openChunks, k)
	s.openBytes -= p.Size()
	var batches []chunks.Pending
	for _, cut := range p.SplitRows(s.job.Chunks.ChunkRows(k.class)) {
		batches = append(batches, chunks.Pending{Rows: &p.Builder, Subset: cut, Class: k.class, Source: k.source, Attempt: p.attempt, Due: chunks.DueTime(k.due)})
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
