package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
)

// lineWriter writes JSON lines without HTML escapes.
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

// counted is a number with its noun: 1 job, 2 jobs.
func counted[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}
