package jsonlines

import "bytes"

// Writer hands lines on. It is an io.Writer.
type Writer struct {
	Line func(line []byte) error // line is valid until it returns

	rest []byte // of a line whose end is not written yet
}

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	n := len(b)
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			w.rest = append(w.rest, b...)
			return n, nil
		}
		line := b[:end]
		if len(w.rest) > 0 {
			w.rest = append(w.rest, line...)
			line = w.rest
		}
		if err := w.Line(line); err != nil {
			return 0, err
		}
		w.rest = w.rest[:0]
		b = b[end+1:]
	}
}
