package resultfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/pipeline"
	"probity/store"
)

// Errors of Results and OpenStored. Damaged files of a job are jobfiles.ErrDamaged: no results are returned.
var (
	// ErrState is the error of a request that the job's state does not allow.
	ErrState = errors.New("the job's state does not allow this")
	// ErrNotReady means that the job is not finished, and Filter.Partial is not set.
	ErrNotReady = errors.New("the job is not finished")
	// ErrExpired means that the results were deleted.
	ErrExpired = errors.New("the results have expired")
)

// Limits of what is made at one time.
const (
	maxAssemblies = 8 // result files: one for each two processors, at most this many
	maxRenders    = 2 // result files converted to another format
)

// Config is what Files needs of the coordinator.
type Config struct {
	Store    *store.Store
	Files    *jobdir.Dirs
	Renderer *results.Renderer
	Stored   results.Form // format of the result file
	Log      *slog.Logger
	Damaged  *atomic.Int64 // counts results that cannot be given
	// Deadline returns when a job stops waiting for answers.
	Deadline func(*store.Job) time.Time
	// Update commits a change of a job.
	Update func(id string, how func(*store.Job) error, parts ...store.Part) (*store.Job, error)
}

// Files makes and gives the result files of jobs. Its methods may be called from any goroutine.
type Files struct {
	cfg                        Config
	assemblySlots, renderSlots chan struct{} // counting semaphores
	verified                   verifiedFiles
}

// New makes a Files for a machine with so many processors.
func New(cfg Config, processors int) *Files {
	assemblies := min(maxAssemblies, max(1, processors/2))
	return &Files{cfg: cfg, assemblySlots: make(chan struct{}, assemblies),
		renderSlots: make(chan struct{}, maxRenders)}
}

// msgDamaged is what a finished job shows of damage to its files.
const msgDamaged = "a file of the job is damaged on the server's disk: results are not given, or only as the stored file; upload the list again"

// replaced are the errors of files that may have been replaced.
var replaced = []error{jobfiles.ErrDamaged, fs.ErrNotExist}

// Results writes the results of a job in the form and with the rows that f selects. Nothing is written until the
// checksum of the stored file, or for another form all answers, were checked; after a later error w has a part of the
// results.
func (f *Files) Results(ctx context.Context, id string, filter results.Filter, w io.Writer) error {
	filter = filter.WithDefaults()
	j, err := f.readableJob(id, filter.Partial)
	if err != nil {
		return err
	}
	stored := f.cfg.Stored
	unpack := filter.Compress == results.None && stored.Compress == results.Zstd
	whole := len(filter.Status) == 0 && len(filter.Reasons) == 0 && !filter.NoInput && !filter.InputOnly
	same := filter.Format == stored.Format && filter.BOM == stored.BOM
	if j.State.Finished() && whole && same && (unpack || filter.Compress == stored.Compress) {
		return f.copyStored(ctx, id, w, unpack)
	}
	if err := pipeline.Acquire(ctx, f.renderSlots); err != nil {
		return err
	}
	defer func() { <-f.renderSlots }()
	a, err := f.openResults(j, filter)
	if err != nil {
		return err
	}
	err = f.refuseDamaged(j, a.Write(ctx, w))
	return errors.Join(err, a.Close())
}

// Find searches the results of a job, finished or not. The caller bounds how many searches run at one time.
func (f *Files) Find(ctx context.Context, id string, filter results.Filter, s results.Search) (results.Found, error) {
	j, err := f.readableJob(id, true)
	if err != nil {
		return results.Found{}, err
	}
	if int64(filter.From) > results.Span(j, filter.Status)[1] { // no file is read for it
		return results.Found{Last: j.Rows}, nil
	}
	filter.Form = results.Form{Format: results.JSONL}
	a, err := f.openResults(j, filter)
	if err != nil {
		return results.Found{}, err
	}
	found, err := a.Find(ctx, s)
	return found, errors.Join(f.refuseDamaged(j, err), a.Close())
}

// readableJob returns a job that has results, or answers so far if those are enough.
func (f *Files) readableJob(id string, partial bool) (*store.Job, error) {
	j, err := f.cfg.Store.Job(id)
	switch {
	case err != nil:
		return nil, err
	case j.State == store.JobExpired:
		return nil, ErrExpired
	case j.State == store.JobFailed:
		return nil, ErrState
	case !j.State.Finished() && !partial:
		return nil, ErrNotReady
	}
	return j, nil
}

// openResults opens the files that a job's record names. If they were replaced meanwhile, it opens the new ones.
func (f *Files) openResults(j *store.Job, filter results.Filter) (*results.Assembly, error) {
	for {
		a, err := f.openAssembly(j, filter)
		if err == nil && j.State.Finished() {
			return a, nil
		}
		now, again := f.cfg.Store.Job(j.ID)
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
			err = f.refuseDamaged(j, err)
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
func (f *Files) refuseDamaged(j *store.Job, wrong error) error {
	if errors.Is(wrong, fs.ErrNotExist) {
		wrong = fmt.Errorf("%w: %w", jobfiles.ErrDamaged, wrong)
	}
	if !errors.Is(wrong, jobfiles.ErrDamaged) || !hasResults(j) || j.Damage == msgDamaged {
		return wrong
	}
	f.cfg.Damaged.Add(1)
	f.cfg.Log.Error("the results of a job cannot be given", "job", j.ID, "error", wrong)
	_, err := f.cfg.Update(j.ID, func(j *store.Job) error {
		j.Damage = msgDamaged
		return nil
	})
	return errors.Join(wrong, err)
}

// RemakeAndCommit makes the result file of a finished job again, and its answers file if it has none. Counts and charge
// must not change. The job's lock is held.
func (f *Files) RemakeAndCommit(ctx context.Context, j *store.Job) (*store.Job, error) {
	now := *j
	if err := f.Remake(ctx, &now); err != nil {
		return nil, errors.Join(err, f.cfg.Files.RemoveOrphans(j.ID))
	}
	next, err := f.cfg.Update(j.ID, func(j *store.Job) error {
		j.SetFiles(&now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, f.cfg.Files.RemoveOrphans(j.ID)
}

// Remake makes the files of RemakeAndCommit and sets them in j, without a commit.
func (f *Files) Remake(ctx context.Context, j *store.Job) error {
	made, err := f.Make(ctx, j)
	if err == nil && (!maps.Equal(made.Counts(), j.Counts) || !maps.Equal(made.Reasons(), j.Reasons) ||
		made.Charged != j.Charged) {
		err = fmt.Errorf("the answers do not match the counts of the job: %w", jobfiles.ErrDamaged)
	}
	if err != nil {
		return err
	}
	made.SetOn(j)
	return nil
}

// OpenStored opens the result file of a finished job and checks it: a damaged or missing file is made again from the
// answers. The returned record belongs to the file and has its length. The caller closes the file.
func (f *Files) OpenStored(ctx context.Context, id string) (vfs.File, *store.Job, error) {
	j, err := f.cfg.Store.Job(id)
	if err != nil {
		return nil, nil, err
	}
	file, err := f.openStored(ctx, j)
	if err == nil || ctx.Err() != nil {
		return file, j, err
	}
	unlock, err := f.cfg.Files.Lock(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	if j, err = f.cfg.Store.Job(id); err != nil {
		return nil, nil, err
	}
	if !hasResults(j) {
		return nil, nil, ErrExpired
	}
	if file, err = f.openStored(ctx, j); err == nil { // it was replaced meanwhile
		return file, j, nil
	}
	f.cfg.Damaged.Add(1)
	f.cfg.Log.Error("the result file of a job is made again from its answers", "job", id, "error", err)
	now, err := f.RemakeAndCommit(ctx, j)
	if err != nil {
		return nil, nil, f.refuseDamaged(j, err)
	}
	file, err = f.openStored(ctx, now)
	return file, now, err
}

// openStored opens the result file that j names and verifies its checksum.
func (f *Files) openStored(ctx context.Context, j *store.Job) (vfs.File, error) {
	file, err := f.cfg.Files.Open(j.ID, j.Result)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	version := fileVersion{j.ResultSHA, info.Size(), info.ModTime()}
	if f.verified.has(version, time.Now()) {
		return file, nil
	}
	if err := verifyStored(ctx, j, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.verified.add(version, time.Now())
	return file, nil
}

// verifyStored compares a result file with the checksum in the job's record.
func verifyStored(ctx context.Context, j *store.Job, f vfs.File) error {
	sum := sha256.New()
	_, err := io.CopyBuffer(sum, pipeline.ContextReader{Context: ctx,
		Reader: io.NewSectionReader(f, 0, j.ResultBytes+1)}, make([]byte, 256<<10))
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != j.ResultSHA {
		err = fmt.Errorf("the result file is not as it was written: %w", jobfiles.ErrDamaged)
	}
	return err
}

// fileVersion is a result file as it was at one time.
type fileVersion struct {
	sum     string
	size    int64
	changed time.Time
}

// verifiedFiles remembers for a short time which result files were verified, so that a file that is fetched in many
// ranges is not verified for each.
type verifiedFiles struct {
	mu sync.Mutex
	at map[fileVersion]time.Time
}

const (
	verifiedFor = 10 * time.Second
	maxVerified = 64
)

func (vf *verifiedFiles) has(version fileVersion, now time.Time) bool {
	vf.mu.Lock()
	defer vf.mu.Unlock()
	at, ok := vf.at[version]
	return ok && now.Sub(at) < verifiedFor
}

func (vf *verifiedFiles) add(version fileVersion, now time.Time) {
	vf.mu.Lock()
	defer vf.mu.Unlock()
	if vf.at == nil || len(vf.at) >= maxVerified {
		vf.at = map[fileVersion]time.Time{}
	}
	vf.at[version] = now
}

// clear forgets all files.
func (vf *verifiedFiles) clear() {
	vf.mu.Lock()
	defer vf.mu.Unlock()
	clear(vf.at)
}

// copyStored writes the stored file, decompressed if unpack. Damage that shows before the first byte was written is
// mended.
func (f *Files) copyStored(ctx context.Context, id string, w io.Writer, unpack bool) error {
	for again := false; ; again = true {
		sent := byteCount(0)
		err := f.tryStored(ctx, id, io.MultiWriter(w, &sent), unpack)
		if again || sent > 0 || ctx.Err() != nil || !errors.Is(err, jobfiles.ErrDamaged) {
			return err
		}
		f.verified.clear()
	}
}

func (f *Files) tryStored(ctx context.Context, id string, w io.Writer, unpack bool) error {
	file, j, err := f.OpenStored(ctx, id)
	if err != nil {
		return err
	}
	defer file.Close()
	src := pipeline.ContextReader{Context: ctx, Reader: io.NewSectionReader(file, 0, j.ResultBytes)}
	if unpack {
		return decompressTo(w, src)
	}
	n, err := io.CopyBuffer(w, src, make([]byte, 256<<10))
	if err == nil && n < j.ResultBytes {
		err = fmt.Errorf("the result file ends after %d of %d bytes: %w", n, j.ResultBytes, jobfiles.ErrDamaged)
	}
	return err
}

// hasResults reports whether a job in this state has results.
func hasResults(j *store.Job) bool {
	return j.State == store.JobCompleted || j.State == store.JobCancelled
}

func (f *Files) openAssembly(j *store.Job, filter results.Filter) (*results.Assembly, error) {
	upload, err := f.cfg.Files.OpenUpload(j)
	if err != nil {
		return nil, err
	}
	if j.Damage == msgDamaged { // what broke off one rendering is an error of the next before its first byte
		if err := upload.Check(); err != nil {
			return nil, errors.Join(err, upload.Close())
		}
	}
	answers, err := f.cfg.Files.OpenAnswers(j)
	if err != nil {
		return nil, errors.Join(err, upload.Close())
	}
	return f.cfg.Renderer.Open(j, upload, answers, filter)
}
