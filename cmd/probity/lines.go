package main

import (
	"bufio"
	"encoding/json"
	"io"
)

// lineWriter writes JSON lines, unescaped beyond need.
type lineWriter struct {
	*bufio.Writer
	enc *json.Encoder
}

func newLineWriter(w io.Writer) *lineWriter {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return &lineWriter{Writer: b, enc: enc}
}

func (w *lineWriter) encode(v any) error { return w.enc.Encode(v) }
