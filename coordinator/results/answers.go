package results

import (
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

// ReadAnswers calls visit with each whole group of a job's answers and returns where they end. If the answers of a
// finished job differ from its record, the error is jobfiles.ErrDamaged.
func ReadAnswers(j *store.Job, f vfs.File, visit func(*jobfiles.Group) error) (end jobfiles.LogEnd, err error) {
	if f == nil {
		return end, nil
	}
	rows := int64(0)
	log := io.ReaderAt(f)
	if j.Answers != nil {
		log = io.NewSectionReader(f, 0, j.Answers.Bytes) // a set of addresses follows
	}
	end, err = jobfiles.ReadRows(log, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if err := CheckRecord(j, row, rec); err != nil {
				return err
			}
			rows++
		}
		return visit(g)
	})
	if a := j.Answers; err == nil && a != nil && (end.Damaged > 0 || end.At != a.Bytes || end.Sum != a.Sum ||
		rows != a.Rows) {
		err = fmt.Errorf("the answers file %s is not as it was written: %w", a.Name, jobfiles.ErrDamaged)
	}
	return end, err
}

// CheckRecord checks a record of the log against its job.
func CheckRecord(j *store.Job, row uint32, rec *jobfiles.Record) error {
	if int64(row) >= j.Rows || int(rec.Reason()) >= engine.Reasons {
		return fmt.Errorf("rows log: row %d of %d, reason %d: %w", row, j.Rows, rec.Reason(), jobfiles.ErrDamaged)
	}
	return nil
}

// AnswersWriter writes the answers file of a job. The caller ends it with Finish or Abort.
type AnswersWriter struct {
	*jobfiles.Pending
	Rows  *jobfiles.RowsWriter
	File  store.AnswersFile // what the record of the job says of the file
	names nameReader
}

// add adds the record of a row, whose names are numbers of the whole file that it was read from.
func (w *AnswersWriter) add(row uint32, rec *jobfiles.Record) error {
	w.File.Rows++
	return w.Rows.CopyRecord(row, rec, &w.names)
}

// Finish adds the set of suggested addresses and makes the file durable. The caller must name it in the job's record.
func (w *AnswersWriter) Finish() error {
	end, err := w.Rows.Finish()
	if err != nil {
		return err
	}
	w.File.Bytes, w.File.Sum = end.At, end.Sum
	if err := w.Rows.WriteAddresses(); err != nil {
		return err
	}
	return w.Commit()
}
