package jobfiles

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// RowsWriter writes a whole rows log: one that is made from another, and is not read before Finish has returned.
type RowsWriter struct {
	log   RowsLog
	group *group
}

// CreateRows begins a log in a new file.
func CreateRows(fs vfs.FS, path string) (*RowsWriter, error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &RowsWriter{log: RowsLog{f: &tail{f: f}}, group: newGroup()}, nil
}

// Add adds what is learnt of a row.
func (w *RowsWriter) Add(r *Row) error {
	w.group.add(r)
	return w.flush(false)
}

// AddRecord adds an answer.
func (w *RowsWriter) AddRecord(row uint32, rec *Record, names [4]string) error {
	w.group.addRecord(row, rec, names)
	return w.flush(false)
}

// AddGroup adds a group of another log, each of its names as name gives it.
func (w *RowsWriter) AddGroup(g *Group, name func(string) string) error {
	for row, rec := range g.Answers() {
		var names [4]string
		for i, ref := range rec.Refs() {
			text, err := g.Name(ref)
			if err != nil {
				return err
			}
			names[i] = name(text)
		}
		if err := w.AddRecord(row, rec, names); err != nil {
			return err
		}
	}
	return g.Deferred(func(row uint32, d Deferral) error {
		return w.Add(&Row{Number: row, Deferred: true, Deferral: d})
	})
}

// flush writes the group if it is full, or if it is the last.
func (w *RowsWriter) flush(last bool) error {
	if w.group.empty() || !last && !w.group.full() {
		return nil
	}
	err := w.log.append(w.group)
	w.group.reset()
	return err
}

// End is where the log ends, after Finish.
func (w *RowsWriter) End() LogEnd {
	return LogEnd{At: w.log.f.end, Sum: w.log.sum, number: w.log.number}
}

// Finish makes the log durable and closes the file. After an earlier error it only closes it.
func (w *RowsWriter) Finish(failed error) error {
	err := failed
	if err == nil {
		err = w.flush(true)
	}
	if err == nil {
		err = w.log.f.f.Sync()
	}
	return errors.Join(err, w.log.f.f.Close())
}
