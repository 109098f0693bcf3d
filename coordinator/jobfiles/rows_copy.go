package jobfiles

import "io"

// RowsWriter writes a whole rows log from another one. The log is not read before all of it is durable.
type RowsWriter struct {
	w     io.Writer
	end   LogEnd
	group *group
	buf   []byte
}

// NewRowsWriter starts a log. After Finish, the caller makes w durable.
func NewRowsWriter(w io.Writer) *RowsWriter { return &RowsWriter{w: w, group: newGroup()} }

// Add adds a row.
func (w *RowsWriter) Add(r *Row) error {
	w.group.add(r)
	return w.flush(false)
}

// AddRecord adds an answer.
func (w *RowsWriter) AddRecord(row uint32, rec *Record, names [4]string) error {
	w.group.addRecord(row, rec, names)
	return w.flush(false)
}

// AddGroup adds a group of another log, with each of its names replaced by name.
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

// flush writes the group if it is full or the last. Earlier groups count as durable: none is read before all are.
func (w *RowsWriter) flush(last bool) error {
	if w.group.empty() || !last && !w.group.full() {
		return nil
	}
	if w.end.At > maxLogBytes {
		return errLogFull
	}
	w.buf, w.end.Sum = w.group.appendTo(w.buf[:0], w.end.number+1, w.end.Sum, w.end.number)
	w.end.number++
	w.end.At += int64(len(w.buf))
	w.group.reset()
	_, err := w.w.Write(w.buf)
	return err
}

// Finish writes the rest, and returns where the log ends.
func (w *RowsWriter) Finish() (LogEnd, error) {
	err := w.flush(true)
	return w.end, err
}
