package jobdir

import (
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// FolderName is the name of the folder of all jobs.
const FolderName = "jobs"

// The files of a job's folder that are not objects.
const (
	FileChunks   = "chunks" // scratch
	FileRows     = "rows"
	FileCallback = "callback" // rows of a callback's body
	FileSpill    = "spill"    // scratch while an upload is counted
)

// The kinds of a job's objects.
const (
	KindUpload = "upload"
	// a rows log with each row once, in row order; the job's record has its length, row count and last checksum
	KindAnswers = "answers"
	KindResult  = "result"
)

// Dirs are the folders of the jobs of a store.
type Dirs struct {
	jobfiles.Folder
	store   *store.Store
	Decoder *zstd.Decoder // of the frames of uploads

	mu    sync.Mutex // guards locks and their users
	locks map[string]*jobLock
}

// New makes the Dirs of a data folder. Uploads are decompressed by as many goroutines at one time as there are workers.
func New(s *store.Store, fs vfs.FS, dataDir string, workers int) *Dirs {
	// All uploads share a decoder: it keeps the last frame of each worker in memory.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return &Dirs{Folder: jobfiles.Folder{FS: fs, Dir: fs.PathJoin(dataDir, FolderName)}, store: s, Decoder: d,
		locks: map[string]*jobLock{}}
}

// jobLock is held while the files of a job are changed: by its runner for a step, by an erasure, or by its expiry.
type jobLock struct {
	slot  chan struct{}
	users int // holder and waiters; guarded by Dirs.mu
}

// Lock locks a job; unlock unlocks it.
func (d *Dirs) Lock(ctx context.Context, id string) (unlock func(), err error) {
	d.mu.Lock()
	t := d.locks[id]
	if t == nil {
		t = &jobLock{slot: make(chan struct{}, 1)}
		d.locks[id] = t
	}
	t.users++
	d.mu.Unlock()
	select {
	case t.slot <- struct{}{}:
		return func() { <-t.slot; d.release(id, t) }, nil
	case <-ctx.Done():
		d.release(id, t)
		return nil, ctx.Err()
	}
}

func (d *Dirs) release(id string, t *jobLock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.users--
	if t.users == 0 {
		delete(d.locks, id)
	}
}
