package resultfile

import (
	"errors"
	"fmt"
	"io/fs"

	"probity/coordinator/jobfiles"
	"probity/store"
)

// Check reads the files that the record of a job names and returns jobfiles.ErrDamaged for the first that is missing or
// not as it was written. A job that gives no results any more, or whose record tells of damage, needs no files. The log
// of an unfinished job may be missing or damaged: its rows are asked again. So may a result file, which is made again
// from the answers.
func (f *Files) Check(j *store.Job) error {
	if j.Damage != "" || j.State == store.JobFailed || j.State == store.JobExpired {
		return nil
	}
	upload, err := f.cfg.Files.OpenUpload(j)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the upload is missing: %w", jobfiles.ErrDamaged)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(upload.Check(), upload.Close()); err != nil {
		return err
	}
	return f.cfg.Files.ReadAnswers(j, func(*jobfiles.Group) error { return nil })
}
