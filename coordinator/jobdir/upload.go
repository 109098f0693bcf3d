package jobdir

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// openTries is how often an upload is opened again because an erasure replaced it.
const openTries = 3

// OpenUpload opens the current upload of a job: an erasure may have replaced the one that j names.
func (d *Dirs) OpenUpload(j *store.Job) (u *jobfiles.Upload, err error) {
	for range openTries {
		u, err = jobfiles.OpenUpload(&d.Folder, j.ID, j.Upload, d.Decoder)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		now, again := d.store.Job(j.ID)
		if again != nil || now.Upload == j.Upload {
			return nil, errors.Join(err, again)
		}
		j = now
	}
	if err == nil && (u.Rows() != j.Rows || u.Duplicates() != j.Duplicates) {
		return nil, errors.Join(fmt.Errorf("%s of %d rows, %d of them duplicates; the job has %d and %d: %w", j.Upload,
			u.Rows(), u.Duplicates(), j.Rows, j.Duplicates, jobfiles.ErrDamaged), u.Close())
	}
	return u, err
}

// RemoveOrphans deletes the objects that the job's record does not name: left by an interrupted upload or erasure, or
// undeletable for an erasure. The job's lock is held.
func (d *Dirs) RemoveOrphans(id string) error {
	names, err := d.List(id)
	if err != nil {
		return jobfiles.Ignore(err, fs.ErrNotExist)
	}
	j, err := d.store.Job(id)
	if err != nil {
		return jobfiles.Ignore(err, store.ErrNotFound) // it was deleted meanwhile
	}
	var scratch []string
	if j.State.Finished() {
		scratch = append(scratch, FileChunks)
	}
	if j.Answers != nil {
		scratch = append(scratch, FileRows)
	}
	if err := d.Remove(id, scratch...); err != nil {
		return err
	}
	return d.Delete(id, slices.DeleteFunc(names, func(name string) bool { return isReferenced(j, name) })...)
}

// RemoveOrphansIfIdle removes the orphans of a job whose lock is free. Else its runner or an erasure removes them.
func (d *Dirs) RemoveOrphansIfIdle(id string) error {
	d.mu.Lock()
	if d.locks[id] != nil {
		d.mu.Unlock()
		return nil
	}
	t := &jobLock{slot: make(chan struct{}, 1), users: 1}
	t.slot <- struct{}{}
	d.locks[id] = t
	d.mu.Unlock()
	defer func() { <-t.slot; d.release(id, t) }()
	return d.RemoveOrphans(id)
}

// HasOrphans reports whether a job's folder has objects from before an erasure. Objects that the running job will name
// soon do not count.
func (d *Dirs) HasOrphans(j *store.Job) (bool, error) {
	names, err := d.List(j.ID)
	return slices.ContainsFunc(names, func(name string) bool {
		return !isReferenced(j, name) && (j.State.Finished() || strings.HasPrefix(name, KindUpload))
	}), jobfiles.Ignore(err, fs.ErrNotExist)
}

// isReferenced reports whether the job's record names an object.
func isReferenced(j *store.Job, name string) bool {
	return name == j.Upload || name == j.Result || j.Answers != nil && name == j.Answers.Name
}

// CountDuplicates counts the duplicates whose first row is answered, in constant memory.
func (d *Dirs) CountDuplicates(j *store.Job, answered jobfiles.RowSet) (done int64, err error) {
	if j.Duplicates == 0 {
		return 0, nil
	}
	u, err := d.OpenUpload(j)
	if err != nil {
		return 0, err
	}
	err = u.EachDuplicate(func(_, first uint32) error {
		if answered.Has(first) {
			done++
		}
		return nil
	})
	return done, errors.Join(err, u.Close())
}
