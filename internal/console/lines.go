package console

import (
	"bufio"
	"encoding/json"
	"io"
)

// LineWriter writes JSON lines without HTML escapes.
type LineWriter struct {
	*bufio.Writer
	enc *json.Encoder
}

// NewLineWriter makes a writer of lines to w. Flush writes what is buffered.
func NewLineWriter(w io.Writer) *LineWriter {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return &LineWriter{Writer: b, enc: enc}
}

// Encode writes v as a line.
func (w *LineWriter) Encode(v any) error { return w.enc.Encode(v) }
