package coordinator

import (
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/results"
	"probity/store"
)

// Results writes the results of a job in the form and with the rows that f selects. Nothing is written until all
// answers were checked; after a later error w has a part of the results.
func (c *Coordinator) Results(ctx context.Context, id string, f results.Filter, w io.Writer) error {
	return c.resultFiles.Results(ctx, id, f, w)
}

// Find searches the results of a job, finished or not.
func (c *Coordinator) Find(ctx context.Context, id string, f results.Filter, s results.Search) (results.Found, error) {
	return c.resultFiles.Find(ctx, id, f, s)
}

// StoredForm returns the form of the file that OpenStored opens.
func (c *Coordinator) StoredForm() results.Form { return c.cfg.Stored }

// OpenStored opens the result file of a finished job and checks it: a damaged or missing file is made again from the
// answers. The returned record belongs to the file and has its length. The caller closes the file.
func (c *Coordinator) OpenStored(ctx context.Context, id string) (vfs.File, *store.Job, error) {
	return c.resultFiles.OpenStored(ctx, id)
}

// CheckFiles reads the files of a job and returns ErrDamaged for the first that is missing or not as it was written.
func (c *Coordinator) CheckFiles(j *store.Job) error {
	return c.resultFiles.Check(j)
}

// WriteResults writes the results of a finished job for a callback, one JSON object a line. Calls for one job must not
// overlap.
func (c *Coordinator) WriteResults(ctx context.Context, job string, w io.Writer) error {
	return c.resultFiles.WriteResults(ctx, job, w)
}

// DropResults deletes what WriteResults keeps between attempts; it can be made again.
func (c *Coordinator) DropResults(job string) error { return c.resultFiles.DropResults(job) }
