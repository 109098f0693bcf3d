package jobfiles

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	maxPendingBytes = 8 << 20   // bytes that wait for a sync; above that, Add waits
	flushBytes      = 256 << 10 // bytes at which a sync starts at once
	// FlushAfter is how long rows wait for others before they are synced together.
	FlushAfter = 50 * time.Millisecond
)

// maxLogBytes bounds a log: a global reference to a name is its offset divided by eight, in 32 bits.
const maxLogBytes = 31 << 30

var errLogFull = errors.New("the log of the job's rows is over 31 GiB")

// RowsLog is the log of a running job, open for appending. One goroutine writes; rows that are added meanwhile share
// its next sync.
type RowsLog struct {
	f       vfs.File
	writer  groupWriter
	durable uint64 // number of the last group that is durable
	after   func() time.Duration

	mu         sync.Mutex // guards all below; never held over I/O
	written    sync.Cond
	current    *group
	fullGroups []*group  // full ones, before current
	pending    int       // bytes not yet durable
	since      time.Time // when the oldest pending row was added
	wrote      bool
	running    bool
	closing    bool
	err        error

	wake chan struct{}
	done chan struct{}
}

// groups holds groups for reuse by the logs of all jobs.
var groups = sync.Pool{New: func() any { return newGroup() }}

// OpenRows reads the log, calls visit with each group, and prepares to append after the last whole one. after says how
// long a row may wait for its sync; nil means FlushAfter. Rows are written only after Start.
func OpenRows(fs vfs.FS, path string, after func() time.Duration, visit func(*Group) error) (*RowsLog, LogEnd, error) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, LogEnd{}, err
	}
	end, err := ReadRows(f, visit)
	if err == nil {
		err = f.SyncData() // groups that were read count as durable
	}
	if err != nil {
		return nil, end, errors.Join(err, f.Close())
	}
	if after == nil {
		after = func() time.Duration { return FlushAfter }
	}
	l := &RowsLog{
		f: f, writer: groupWriter{w: io.NewOffsetWriter(f, end.At), end: end}, durable: end.number, after: after,
		current: groups.Get().(*group),
		wake:    make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.written.L = &l.mu
	return l, end, nil
}

// Start starts the goroutine that writes; Close ends it.
func (l *RowsLog) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = true
	go func() {
		defer close(l.done)
		for more := true; more; {
			var batch []*group
			batch, more = l.nextBatch()
			if len(batch) > 0 && !l.write(batch) {
				return // after a failed sync the file's state is unknown
			}
		}
	}()
}

// nextBatch waits until a sync is due, and takes the pending groups.
func (l *RowsLog) nextBatch() (batch []*group, more bool) {
	for {
		l.mu.Lock()
		waited, after := time.Since(l.since), l.after()
		if l.closing || l.pending > 0 && (l.pending >= flushBytes || waited >= after) {
			batch, l.fullGroups = l.fullGroups, nil
			if !l.current.empty() {
				batch = append(batch, l.current)
				l.current = groups.Get().(*group)
			}
			more = !l.closing
			l.mu.Unlock()
			return batch, more
		}
		var due <-chan time.Time // never, while no row waits
		if l.pending > 0 {
			due = time.After(after - waited)
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-due:
		}
	}
}

// write makes groups durable, records the result, and wakes the callers that wait.
func (l *RowsLog) write(batch []*group) bool {
	var err error
	size := 0
	for _, g := range batch {
		if err == nil {
			err = l.writer.write(g, l.durable)
		}
		size += g.size()
		g.reset()
		groups.Put(g)
	}
	if err == nil {
		err = l.f.SyncData()
	}
	if err == nil {
		l.durable = l.writer.end.number
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending -= size
	l.err = err
	l.wrote = l.wrote || err == nil
	l.written.Broadcast()
	return err == nil
}

// Wrote reports that rows were made durable since the log was opened.
func (l *RowsLog) Wrote() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote
}

// Add adds rows. It waits while over 8 MiB wait for their sync. Its error is that of an earlier write: the log takes no
// more rows.
func (l *RowsLog) Add(rows []Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.pending > maxPendingBytes && l.err == nil {
		l.written.Wait()
	}
	if l.err != nil {
		return l.err
	}
	was := l.pending
	if was == 0 {
		l.since = time.Now()
	}
	for i := range rows {
		if l.current.full() {
			l.fullGroups = append(l.fullGroups, l.current)
			l.current = groups.Get().(*group)
		}
		before := l.current.size()
		l.current.add(&rows[i])
		l.pending += l.current.size() - before
	}
	if was == 0 || was < flushBytes && l.pending >= flushBytes {
		l.signal()
	}
	return nil
}

func (l *RowsLog) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close writes the pending rows, if Start was called, and closes the file.
func (l *RowsLog) Close() error {
	l.mu.Lock()
	l.closing = true
	running := l.running
	l.mu.Unlock()
	if running {
		l.signal()
		<-l.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.f.Close())
}
