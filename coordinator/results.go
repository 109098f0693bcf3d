package coordinator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/pipeline"
	"probity/store"
)

// ErrNotReady means that the job is not finished, and Filter.Partial is not set.
var ErrNotReady = errors.New("the job is not finished")

// ErrExpired means that the results were deleted.
var ErrExpired = errors.New("the results have expired")

// ErrDamaged means that files of the job are damaged: no results are returned.
var ErrDamaged = jobfiles.ErrDamaged

// replaced are the errors of files that may have been replaced.
var replaced = []error{jobfiles.ErrDamaged, fs.ErrNotExist}

// Results writes the results of a job in the form and with the rows that f selects. Nothing is written until all answers were
// checked; after a later error w has a part of the results.
func (c *Coordinator) Results(ctx context.Context, id string, f results.Filter, w io.Writer) error {
	f = f.WithDefaults()
	j, err := c.Job(id)
	switch {
	case err != nil:
		return err
	case j.State == store.JobExpired:
		return ErrExpired
	case j.State == store.JobFailed:
		return ErrState
	case !j.State.Finished() && !f.Partial:
		return ErrNotReady
	}
	stored := c.cfg.Stored
	unpack := f.Compress == results.None && stored.Compress == results.Zstd
	if j.State.Finished() && len(f.Status) == 0 && !f.NoInput && f.Format == stored.Format && (unpack || f.Compress == stored.Compress) {
		return c.copyStored(ctx, id, w, unpack)
	}
	if err := pipeline.Acquire(ctx, c.renderSlots); err != nil {
		return err
	}
	defer func() { <-c.renderSlots }()
	a, err := c.openResults(ctx, j, f)
	if err != nil {
		return err
	}
	err = c.refuseDamaged(j, a.Write(ctx, w))
	return errors.Join(err, a.Close())
}

// openResults opens the files that a job's record names. If they were replaced meanwhile, it opens the new ones.
func (c *Coordinator) openResults(ctx context.Context, j *store.Job, f results.Filter) (*results.Assembly, error) {
	for {
		if hasResults(j) && j.Answers == nil {
			var err error
			if j, err = c.makeOldAnswers(ctx, j.ID); err != nil {
				return nil, err
			}
		}
		a, err := c.openAssembly(j, f)
		if err == nil && j.State.Finished() {
			return a, nil
		}
		now, again := c.Job(j.ID)
		switch {
		case again != nil:
			err = errors.Join(err, again)
		case now.State.Finished() && !j.State.Finished(), answersName(now) != answersName(j):
			if a != nil {
				err = a.Close()
			}
			if err = jobfiles.Ignore(err, replaced...); err == nil {
				j = now
				continue
			}
		case now.State == store.JobExpired && errors.Is(err, fs.ErrNotExist):
			err = ErrExpired
		default:
			err = c.refuseDamaged(j, err)
		}
		if err != nil && a != nil {
			err = errors.Join(err, a.Close())
		}
		return a, err
	}
}

func answersName(j *store.Job) string {
	if j.Answers == nil {
		return ""
	}
	return j.Answers.Name
}

// refuseDamaged returns the error. If files of a finished job are damaged or missing, it also records that in the job.
func (c *Coordinator) refuseDamaged(j *store.Job, wrong error) error {
	if errors.Is(wrong, fs.ErrNotExist) {
		wrong = fmt.Errorf("%w: %w", jobfiles.ErrDamaged, wrong)
	}
	if !errors.Is(wrong, jobfiles.ErrDamaged) || !hasResults(j) || j.Damage == msgResultsDamaged {
		return wrong
	}
	c.metrics.damaged.Add(1)
	c.log.Error("the results of a job cannot be given", "job", j.ID, "error", wrong)
	return errors.Join(wrong, c.setDamage(j.ID, msgResultsDamaged))
}

// makeOldAnswers makes the answers file of a job that an older version finished. Its totals must match the job's record.
func (c *Coordinator) makeOldAnswers(ctx context.Context, id string) (*store.Job, error) {
	unlock, err := c.files.Lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	j, err := c.Job(id)
	if err != nil || !hasResults(j) || j.Answers != nil {
		return j, err
	}
	now, err := c.remakeResults(ctx, j)
	return now, c.refuseDamaged(j, err)
}

// remakeResults makes the result file of a finished job again, and its answers file if it has none. Counts and charge must not
// change. The job's lock is held.
func (c *Coordinator) remakeResults(ctx context.Context, j *store.Job) (*store.Job, error) {
	now := *j
	if err := c.remake(ctx, &now); err != nil {
		return nil, errors.Join(err, c.files.RemoveOrphans(j.ID))
	}
	next, err := c.updateJob(j.ID, func(j *store.Job) error {
		j.Answers, j.Result, j.ResultSHA, j.ResultBytes = now.Answers, now.Result, now.ResultSHA, now.ResultBytes
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, c.files.RemoveOrphans(j.ID)
}

// remake makes the files of remakeResults and sets them in j, without a commit.
func (c *Coordinator) remake(ctx context.Context, j *store.Job) error {
	if err := pipeline.Acquire(ctx, c.assemblySlots); err != nil {
		return err
	}
	defer func() { <-c.assemblySlots }()
	made, err := c.makeResults(ctx, j)
	if err == nil && (!maps.Equal(made.Counts(), j.Counts) || !maps.Equal(made.Reasons(), j.Reasons) || made.Charged != j.Charged) {
		err = fmt.Errorf("the answers do not match the counts of the job: %w", jobfiles.ErrDamaged)
	}
	if err != nil {
		return err
	}
	made.setOn(j)
	return nil
}

// StoredForm returns the form of the file that OpenStored opens.
func (c *Coordinator) StoredForm() results.Form { return c.cfg.Stored }

// OpenStored opens the result file of a finished job and checks it: a damaged or missing file is made again from the answers. The
// returned record belongs to the file and has its length. The caller closes the file.
func (c *Coordinator) OpenStored(ctx context.Context, id string) (vfs.File, *store.Job, error) {
	j, err := c.Job(id)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.openStored(ctx, j)
	if err == nil || jobfiles.Ignore(err, replaced...) != nil {
		return f, j, err
	}
	unlock, err := c.files.Lock(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if j, err = c.Job(id); err != nil {
		return nil, nil, err
	}
	if !hasResults(j) {
		return nil, nil, ErrExpired
	}
	if f, err = c.openStored(ctx, j); err == nil { // it was replaced meanwhile
		return f, j, nil
	}
	c.log.Error("the result file of a job is made again from its answers", "job", id, "error", err)
	now, err := c.remakeResults(ctx, j)
	if err != nil {
		return nil, nil, c.refuseDamaged(j, err)
	}
	f, err = c.openStored(ctx, now)
	return f, now, err
}

// openStored opens the result file that j names and verifies its checksum.
func (c *Coordinator) openStored(ctx context.Context, j *store.Job) (vfs.File, error) {
	f, err := c.files.Open(j.ID, cmp.Or(j.Result, jobdir.OldFileResults))
	if err != nil || c.verifiedFiles.has(j.ResultSHA, time.Now()) {
		return f, err
	}
	sum := sha256.New()
	_, err = io.CopyBuffer(sum, pipeline.ContextReader{Context: ctx, Reader: io.NewSectionReader(f, 0, j.ResultBytes+1)}, make([]byte, 256<<10))
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != j.ResultSHA {
		err = fmt.Errorf("the result file is not as it was written: %w", jobfiles.ErrDamaged)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.verifiedFiles.add(j.ResultSHA, time.Now())
	return f, nil
}

// verifiedFiles remembers for a short time which result files were verified, by checksum, so that a file that is fetched in many
// ranges is not verified for each.
type verifiedFiles struct {
	mu sync.Mutex
	at map[string]time.Time
}

const (
	verifiedFor = 10 * time.Second
	maxVerified = 64
)

func (vf *verifiedFiles) has(sum string, now time.Time) bool {
	vf.mu.Lock()
	defer vf.mu.Unlock()
	at, ok := vf.at[sum]
	return ok && now.Sub(at) < verifiedFor
}

func (vf *verifiedFiles) add(sum string, now time.Time) {
	vf.mu.Lock()
	defer vf.mu.Unlock()
	if vf.at == nil || len(vf.at) >= maxVerified {
		vf.at = map[string]time.Time{}
	}
	vf.at[sum] = now
}

// copyStored writes the stored file, decompressed if unpack.
func (c *Coordinator) copyStored(ctx context.Context, id string, w io.Writer, unpack bool) error {
	f, j, err := c.OpenStored(ctx, id)
	if err != nil {
		return err
	}
	defer f.Close()
	src := io.Reader(pipeline.ContextReader{Context: ctx, Reader: io.NewSectionReader(f, 0, j.ResultBytes)})
	if unpack {
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return err
		}
		defer z.Close()
		src = z
	}
	_, err = io.CopyBuffer(w, src, make([]byte, 256<<10))
	return err
}

// hasResults reports whether a job in this state has results.
func hasResults(j *store.Job) bool {
	return j.State == store.JobCompleted || j.State == store.JobCancelled
}

func (c *Coordinator) openAssembly(j *store.Job, f results.Filter) (*results.Assembly, error) {
	upload, err := c.files.OpenUpload(j)
	if err != nil {
		return nil, err
	}
	answers, err := c.files.OpenAnswers(j)
	if err != nil {
		return nil, errors.Join(err, upload.Close())
	}
	return c.renderer.Open(j, upload, answers, f)
}
