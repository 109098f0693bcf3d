package score

import (
	"bytes"
	"fmt"
	"io"

	"probity/bench/sim/persona"
)

// Scores is the comparison of a result file with the truth. All figures are rows,
// except ChangedCells.
type Scores struct {
	Rows int `json:"rows"` // of the truth file
	// FalseValid: VALID, but no allowed outcome is. FalseInvalid likewise.
	FalseValid   int `json:"false_valid"`
	FalseInvalid int `json:"false_invalid"`
	// UnexpectedUnknown: UNKNOWN, but no allowed outcome is.
	UnexpectedUnknown int `json:"unexpected_unknown"`
	// WrongReason: the status is allowed, but not with this reason.
	WrongReason int `json:"wrong_reason"`
	// WrongStatus: a status that is not allowed, the three above included.
	WrongStatus int `json:"wrong_status"`
	// MissingRows are in the truth but not in the result; ExtraRows the reverse.
	MissingRows int `json:"missing_rows"`
	ExtraRows   int `json:"extra_rows"`
	// OrderErrors: rows in the place of another row. Their verdicts and cells are
	// not compared.
	OrderErrors int `json:"order_errors"`
	// ChangedCells of the input that the result does not repeat.
	ChangedCells int `json:"changed_cells"`
	// Confusion counts rows by expected and given status. An allowed status counts
	// as the expected one; that of a blank address is "".
	Confusion map[string]map[string]int `json:"confusion"`
	// Wrong counts rows with a wrong status or reason by "expected -> given".
	Wrong map[string]int `json:"wrong,omitempty"`
}

// Compare joins a truth file and a result file (each plain, gzip or zstd) by the
// order of rows. Memory does not grow with rows. An error means that a file could
// not be read; errors of a readable result are in the Scores.
func Compare(truth, result io.Reader) (Scores, error) {
	s := scorer{Scores: Scores{Confusion: map[string]map[string]int{}, Wrong: map[string]int{}}}
	if err := s.open(truth, result); err != nil {
		return Scores{}, err
	}
	for {
		more, err := s.row()
		if err != nil {
			return Scores{}, err
		}
		if !more {
			return s.Scores, nil
		}
	}
}

// scorer reads both files row by row.
type scorer struct {
	Scores
	truth, result       *records
	statusOnly          bool // the verifier gave no reasons
	status, reason      int  // columns of the result
	allowed             []persona.Outcome
	truthEnd, resultEnd bool
}

// open reads both headers and finds the columns.
func (s *scorer) open(truth, result io.Reader) (err error) {
	if err := s.openTruth(truth); err != nil {
		return err
	}
	if s.result, err = openHeader("result", result); err != nil {
		return err
	}
	if s.status, err = s.resultColumn("verify_status"); err != nil {
		return err
	}
	if s.reason, err = s.resultColumn("verify_reason"); err != nil {
		return err
	}
	s.ChangedCells += s.changed()
	return nil
}

// openTruth reads the header of the truth.
func (s *scorer) openTruth(truth io.Reader) (err error) {
	if s.truth, err = openHeader("truth", truth); err != nil {
		return err
	}
	n := len(s.truth.cells)
	if s.truth.find(StatusColumn) != n-2 || s.truth.find(ReasonColumn) != n-1 {
		return fmt.Errorf("truth: its last columns are not %s and %s; give the CSV file that sim truth printed",
			StatusColumn, ReasonColumn)
	}
	return nil
}

func openHeader(what string, in io.Reader) (*records, error) {
	r, err := openRecords(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := r.next(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, emptyFileError(err))
	}
	return r, nil
}

// resultColumn finds a column that the verifier added. Its name ends in _2 if the
// input has one of that name.
func (s *scorer) resultColumn(name string) (int, error) {
	if at := s.result.find(name + "_2"); at >= 0 {
		return at, nil
	}
	if at := s.result.find(name); at >= 0 {
		return at, nil
	}
	return 0, fmt.Errorf("result: no column named %s; give a CSV file that verify wrote", name)
}

// row scores the next row; more is false when both files have ended.
func (s *scorer) row() (more bool, err error) {
	if s.truthEnd, err = advance("truth", s.truth, s.truthEnd); err != nil {
		return false, err
	}
	if s.resultEnd, err = advance("result", s.result, s.resultEnd); err != nil {
		return false, err
	}
	switch {
	case s.truthEnd && s.resultEnd:
		return false, nil
	case s.truthEnd:
		s.ExtraRows++
	case s.resultEnd:
		s.Rows++
		s.MissingRows++
	default:
		s.Rows++
		s.compare()
	}
	return true, nil
}

func advance(what string, r *records, ended bool) (bool, error) {
	if ended {
		return true, nil
	}
	err := r.next()
	if err == io.EOF {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return false, nil
}

// compare scores one row that both files have.
func (s *scorer) compare() {
	changed := s.changed()
	if changed*2 > s.filled() {
		s.OrderErrors++
		return
	}
	s.ChangedCells += changed
	s.readAllowed()
	s.judge(string(cell(s.result, s.status)), string(cell(s.result, s.reason)))
}

// readAllowed reads the allowed outcomes of the row of the truth.
func (s *scorer) readAllowed() {
	s.allowed = readOutcomes(s.allowed[:0], cell(s.truth, len(s.truth.cells)-2), cell(s.truth, len(s.truth.cells)-1))
}

// changed counts the input cells that differ.
func (s *scorer) changed() int {
	n := 0
	for i := range len(s.truth.cells) - 2 {
		if !bytes.Equal(s.truth.cells[i], cell(s.result, i)) {
			n++
		}
	}
	return n
}

// filled counts the input cells that are not empty.
func (s *scorer) filled() int {
	n := 0
	for i := range len(s.truth.cells) - 2 {
		if len(s.truth.cells[i]) > 0 {
			n++
		}
	}
	return n
}

// cell returns column i of the row; empty if the row has no such column.
func cell(r *records, i int) []byte {
	if i < 0 || i >= len(r.cells) {
		return nil
	}
	return r.cells[i]
}

// judge compares one verdict with the allowed outcomes.
func (s *scorer) judge(status, reason string) {
	expected, exact := s.match(status, reason)
	row := s.Confusion[expected.Status]
	if row == nil {
		row = map[string]int{}
		s.Confusion[expected.Status] = row
	}
	row[status]++
	if exact {
		return
	}
	s.Wrong[expected.Status+" "+expected.Reason+" -> "+status+" "+reason]++
	if expected.Status == status {
		s.WrongReason++
		return
	}
	s.WrongStatus++
	switch status {
	case persona.StatusValid:
		s.FalseValid++
	case persona.StatusInvalid:
		s.FalseInvalid++
	case persona.StatusUnknown:
		s.UnexpectedUnknown++
	}
}

// match finds the allowed outcome nearest to the verdict: the same one, else one
// of the same status, else the first.
func (s *scorer) match(status, reason string) (nearest persona.Outcome, exact bool) {
	var similar *persona.Outcome
	for i, o := range s.allowed {
		if o.Status == status && (s.statusOnly || o.Reason == reason) {
			return o, true
		}
		if similar == nil && o.Status == status {
			similar = &s.allowed[i]
		}
	}
	switch {
	case similar != nil:
		return *similar, false
	case len(s.allowed) == 0:
		return persona.Outcome{}, status == ""
	}
	return s.allowed[0], false
}
