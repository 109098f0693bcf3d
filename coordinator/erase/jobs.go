package erase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/klauspost/compress/zstd"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/internal/wholefile"
	"probity/store"
)

// An erasure removes one address from the files of all jobs, finished or not. In an upload it becomes erasedText: in
// the e-mail cell of each row of that address, and wherever else the address stands by itself. A row without an answer
// is UNKNOWN/smtp_not_checked. The result file is made again, with another checksum.
//
//  1. In an unfinished job the row is answered in the log. If the log has a name to erase, the log is rewritten.
//  2. A new upload, and a new answers file and result of a finished job, are written next to the old ones and synced.
//  3. One commit names the new files. The old ones are deleted; after a crash the next start deletes them.
//
// A download in progress reads the old file to its end. A list that is still being uploaded is not searched.

// erasedText replaces an erased address.
const erasedText = "<erased>"

// Jobs is the jobs of a coordinator, and what it does for an erasure.
type Jobs struct {
	Store   *store.Store
	Files   *jobdir.Dirs
	Encoder *zstd.Encoder
	Workers int
	Slot    chan struct{}               // held by an erasure, or by a backup
	Suggest func(engine.Address) string // what the lists suggest in place of an address; empty: nothing

	// Interrupt makes the runner of a job stop, as for a pause but without a change of state, and takes the job's lock.
	Interrupt func(ctx context.Context, id string) (unlock func(), err error)
	// RemoveOrphans deletes the files of a locked job that its record does not name. Only a lost store is an error.
	RemoveOrphans func(id string) error
	// Remake makes the result file of a locked job again and sets it in the record, without a commit.
	Remake func(context.Context, *store.Job) error
}

// Erase erases an address, given in folded form, in the files of the given jobs, or of all if none are given. found is
// called for each job that contains it, with the number of rows, before that job is changed. A job that cannot be read
// does not stop the others: left are the jobs that are not done, with the errors.
func (js *Jobs) Erase(ctx context.Context, folded string, jobs []string,
	found func(job string, rows int64) error) (left []string, err error) {
	a, err := engine.Parse(folded)
	if err != nil {
		return nil, fmt.Errorf("address to erase: %w", err)
	}
	if err := pipeline.Acquire(ctx, js.Slot); err != nil {
		return jobs, err
	}
	defer func() { <-js.Slot }()
	if len(jobs) == 0 {
		for _, withFiles := range [...]store.JobStage{store.StageReady, store.StageUnfinished, store.StageKept} {
			err := js.Store.JobsIn(withFiles, func(id string) error {
				jobs = append(jobs, id)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	var errs []error
	done := 0 // so many jobs, also those that are left
	fill := pipeline.Indexes(ctx, len(jobs), func(s *searchedJob, i int) { s.id = jobs[i] })
	work := func(s *searchedJob) error {
		s.err = pipeline.Contain(func() error { return js.search(ctx, s, a) })
		return nil
	}
	take := func(s *searchedJob) error {
		err := s.err
		if err == nil && s.found != nil {
			err = s.found.erase(ctx, s.id, found)
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		done++
		if err != nil {
			left = append(left, s.id)
			errs = append(errs, fmt.Errorf("job %s: %w", s.id, err))
		}
		return nil
	}
	err = pipeline.Run(new(pipeline.Pool[searchedJob]), js.Workers, fill, work, take)
	return append(left, jobs[done:]...), errors.Join(append(errs, err)...)
}

// searchedJob is a job, and what was found in it.
type searchedJob struct {
	id    string
	found *erasure // nil: there is nothing to erase
	err   error
	r     frameReader
}

// search searches one job. It only reads the job and does not interrupt it.
func (js *Jobs) search(ctx context.Context, s *searchedJob, a engine.Address) error {
	s.found = nil
	j, err := js.Store.Job(s.id)
	if err != nil {
		return jobfiles.Ignore(err, store.ErrNotFound) // it was deleted meanwhile
	}
	e := &erasure{Jobs: js, folded: a.Folded(), suggestions: map[string]bool{}}
	if j.State != store.JobFailed {
		err := e.search(ctx, j, &s.r)
		if now, again := js.Store.Job(s.id); again == nil && now.Answers != nil && j.Answers == nil {
			return js.search(ctx, s, a) // it finished meanwhile: its log may have been gone
		}
		if errors.Is(err, fs.ErrNotExist) {
			if now, again := js.Store.Job(s.id); again != nil || now.State == store.JobExpired {
				err = again
			}
		}
		if err != nil || !e.inUpload && !e.inNames && !e.leftFiles {
			return jobfiles.Ignore(err, store.ErrNotFound)
		}
	}
	s.found = e
	return nil
}

// erase erases the address from the job in which it was found.
func (e *erasure) erase(ctx context.Context, id string, found func(string, int64) error) error {
	unlock, err := e.Interrupt(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	j, err := e.Store.Job(id)
	switch {
	case err != nil:
		return jobfiles.Ignore(err, store.ErrNotFound)
	case j.State == store.JobExpired:
		return nil
	case j.State == store.JobFailed: // its files have no use, and may be damaged
		left, err := e.Files.FS.List(e.Files.Path(id))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, name := range left {
			err = errors.Join(err, e.Files.Remove(id, name))
		}
		return errors.Join(err, wholefile.SyncDir(e.Files.FS, e.Files.Path(id)))
	}
	if e.inUpload || e.inNames { // not only files left by another erasure
		if err := found(id, e.rows); err != nil {
			return err
		}
	}
	return e.rewrite(ctx, j)
}
