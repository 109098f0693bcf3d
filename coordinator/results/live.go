package results

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"probity/coordinator/jobfiles"
	"probity/prober/wire/press"
	"probity/store"
)

// liveIndex says where in the log of a running job the answers of its rows are. A search reads once what the log has,
// in parts, and then only what was added. It takes five bytes a row and four a group of the log, in memory only.
type liveIndex struct {
	end    jobfiles.LogEnd
	places []logPlace // by row
	final  jobfiles.RowSet
	groups []uint32 // offsets of the groups with answers divided by eight, from the lowest
}

// logPlace is the offset of an answer in the log, little-endian; zero if there is none.
type logPlace [5]byte

func newLiveIndex(rows int64) *liveIndex {
	return &liveIndex{places: make([]logPlace, rows), final: jobfiles.NewRowSet(rows)}
}

var errTimeOver = errors.New("the time of the search is over")

// catchUp reads the groups of the log that it has not read, until a time, but one at least. It reports whether it has
// read all. A log that was replaced is read anew.
func (l *liveIndex) catchUp(j *store.Job, f io.ReaderAt, ends time.Time) (bool, error) {
	same, err := l.end.EndsIn(f)
	if err != nil {
		return false, err
	}
	if !same {
		*l = *newLiveIndex(j.Rows)
	}
	first := true
	l.end, err = jobfiles.ReadRowsFrom(&readAhead{f: f}, l.end, func(g *jobfiles.Group) error {
		if !first && !time.Now().Before(ends) {
			return errTimeOver
		}
		first = false
		return l.add(j, g)
	})
	if errors.Is(err, errTimeOver) {
		return false, nil
	}
	return err == nil, err
}

// add adds the answers of a group: the first final one of a row counts, else the newest.
func (l *liveIndex) add(j *store.Job, g *jobfiles.Group) error {
	i := 0
	for row, rec := range g.Answers() {
		if err := CheckRecord(j, row, rec); err != nil {
			return err
		}
		if !l.final.Has(row) {
			l.places[row] = newLogPlace(g.AnswerAt(i))
		}
		if rec.Kind() == jobfiles.Final {
			l.final.Add(row)
		}
		i++
	}
	if i > 0 {
		l.groups = append(l.groups, uint32(g.At/jobfiles.Align))
	}
	return nil
}

// record reads the answer of a row, whose names are numbers of the whole log; none if the row has no answer.
func (l *liveIndex) record(f io.ReaderAt, row uint32) (rec jobfiles.Record, err error) {
	at := l.places[row].offset()
	if at == 0 {
		return rec, nil
	}
	found, rec, err := jobfiles.ReadAnswer(f, at)
	if err == nil && found != row {
		err = fmt.Errorf("rows log: answer at %d is of row %d, not of %d: %w", at, found, row, jobfiles.ErrDamaged)
	}
	if err != nil {
		return rec, err
	}
	next, _ := slices.BinarySearch(l.groups, uint32(at/jobfiles.Align))
	return *globalRefs(&jobfiles.Group{At: int64(l.groups[next-1]) * jobfiles.Align}, &rec), nil
}

// loadLive reads the records of the window of a running job: those of the first rows for duplicates.
func (a *Assembly) loadLive() error {
	w := &a.window
	for i, first := range w.firstOf {
		press.Yield(i)
		row := w.start + uint32(i)
		if first != 0 {
			row = first - 1
		}
		var err error
		if w.records[i], err = a.live.record(a.savedAnswers, row); err != nil {
			return err
		}
	}
	return nil
}

func newLogPlace(at int64) (p logPlace) {
	for i := range p {
		p[i] = byte(at >> (8 * i))
	}
	return p
}

func (p logPlace) offset() (at int64) {
	for i, b := range p {
		at |= int64(b) << (8 * i)
	}
	return at
}

// Bounds of the indexes in memory that no search has at the moment.
const (
	maxLiveRows    = 10_000_000 // of all of them: two of the longest jobs
	maxLiveIndexes = 64
)

// liveIndexes are the indexes of running jobs that no search has at the moment. The zero value has none.
type liveIndexes struct {
	mu   sync.Mutex
	kept []keptIndex // guarded by mu; one a job, the last used one last
}

type keptIndex struct {
	job   string
	index *liveIndex
}

// take removes and returns the index of a job, or a new one.
func (l *liveIndexes) take(j *store.Job) *liveIndex {
	l.mu.Lock()
	defer l.mu.Unlock()
	index := l.remove(j.ID)
	if index == nil {
		index = newLiveIndex(j.Rows)
	}
	return index
}

// put keeps the index of a job, or that of another search of it which has read more. If there are too many, those go
// that were not used for the longest time.
func (l *liveIndexes) put(job string, index *liveIndex) {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := l.remove(job)
	if other != nil && other.end.At > index.end.At {
		index = other
	}
	l.kept = append(l.kept, keptIndex{job: job, index: index})
	rows := 0
	for i, k := range slices.Backward(l.kept) {
		rows += len(k.index.places)
		if rows > maxLiveRows || len(l.kept)-i > maxLiveIndexes {
			l.kept = slices.Delete(l.kept, 0, i+1)
			return
		}
	}
}

// drop forgets the index of a job.
func (l *liveIndexes) drop(job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(job)
}

// remove removes and returns the index of a job, nil if there is none. The lock is held.
func (l *liveIndexes) remove(job string) *liveIndex {
	i := slices.IndexFunc(l.kept, func(k keptIndex) bool { return k.job == job })
	if i < 0 {
		return nil
	}
	index := l.kept[i].index
	l.kept = slices.Delete(l.kept, i, i+1)
	return index
}

// DropLive forgets what searches keep of a running job. It must be called after the end of the job is committed: a
// search that is under way then keeps nothing, as Config.Running says.
func (r *Renderer) DropLive(job string) { r.live.drop(job) }

// LiveIndexes returns how many running jobs there are of which searches keep something.
func (r *Renderer) LiveIndexes() int {
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	return len(r.live.kept)
}

const readAheadBytes = 256 << 10

// readAhead reads a file forwards in large parts: the groups of a slow job are small.
type readAhead struct {
	f    io.ReaderAt
	part []byte
	at   int64 // of part in the file
}

// ReadAt reads from the part that is in memory, or from the file.
func (r *readAhead) ReadAt(b []byte, at int64) (int, error) {
	if len(b) > readAheadBytes {
		return r.f.ReadAt(b, at)
	}
	if at < r.at || at+int64(len(b)) > r.at+int64(len(r.part)) {
		part := slices.Grow(r.part[:0], readAheadBytes)[:readAheadBytes]
		n, err := r.f.ReadAt(part, at)
		r.part, r.at = part[:n], at
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	n := copy(b, r.part[at-r.at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
