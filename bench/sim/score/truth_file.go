package score

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// The columns that a truth file adds to its list. Several outcomes are joined
// by "|", in the same order in both; both are empty for a blank address.
const (
	StatusColumn = "expected_status"
	ReasonColumn = "expected_reason"
)

// errNoEmail means that a list has no column named email.
var errNoEmail = errors.New("no column named email in the first line")

// WriteTruth copies a CSV list from in to out, row by row and byte by byte, and
// appends the expected outcomes of each row's address in w. The list may be
// compressed with gzip or zstd; the truth is plain.
func WriteTruth(out io.Writer, w *world.World, in io.Reader) error {
	r, err := openRecords(in)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := r.next(); err != nil {
		return fmt.Errorf("list: %w", emptyFileError(err))
	}
	email := r.find("email")
	if email < 0 {
		return errNoEmail
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	line := append(append([]byte(nil), r.body()...), ","+StatusColumn+","+ReasonColumn+"\n"...)
	for {
		if _, err := buffered.Write(line); err != nil {
			return err
		}
		err := r.next()
		if err == io.EOF {
			return buffered.Flush()
		}
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		line = append(line[:0], r.body()...)
		line = appendTruth(line, w, r.cells, email)
	}
}

// appendTruth appends the two cells of one row and the line's end.
func appendTruth(line []byte, w *world.World, cells [][]byte, email int) []byte {
	var allowed []persona.Outcome
	if email < len(cells) {
		allowed = w.Truth(string(cells[email]))
	}
	line = append(line, ',')
	for i, o := range allowed {
		line = append(appendBar(line, i), o.Status...)
	}
	line = append(line, ',')
	for i, o := range allowed {
		line = append(appendBar(line, i), o.Reason...)
	}
	return append(line, '\n')
}

func appendBar(line []byte, i int) []byte {
	if i > 0 {
		return append(line, '|')
	}
	return line
}

// readOutcomes is the inverse of appendTruth's two cells.
func readOutcomes(dst []persona.Outcome, status, reason []byte) []persona.Outcome {
	if len(status) == 0 {
		return dst
	}
	for {
		s, moreStatus, found := bytes.Cut(status, []byte("|"))
		r, moreReason, _ := bytes.Cut(reason, []byte("|"))
		dst = append(dst, persona.Outcome{Status: string(s), Reason: string(r)})
		if !found {
			return dst
		}
		status, reason = moreStatus, moreReason
	}
}

// emptyFileError replaces io.EOF at the start of a file.
func emptyFileError(err error) error {
	if err == io.EOF {
		return errors.New("empty file")
	}
	return err
}
