package score

import (
	"errors"
	"fmt"
	"io"
)

// CompareStatuses scores a verifier that gave statuses alone, by address: statusOf returns the status of an address,
// given as it stands in the list. Reasons, the order of rows and other cells are not compared. An address without a
// status counts as a missing row; blank ones do not count.
func CompareStatuses(truth io.Reader, statusOf func(email string) (status string, ok bool)) (Scores, error) {
	s := scorer{Scores: Scores{Confusion: map[string]map[string]int{}, Wrong: map[string]int{}}, statusOnly: true}
	if err := s.openTruth(truth); err != nil {
		return Scores{}, err
	}
	email := s.truth.find("email")
	if email < 0 {
		return Scores{}, fmt.Errorf("truth: %w", errNoEmail)
	}
	for {
		err := s.truth.next()
		if errors.Is(err, io.EOF) {
			return s.Scores, nil
		}
		if err != nil {
			return Scores{}, fmt.Errorf("truth: %w", err)
		}
		s.readAllowed()
		if len(s.allowed) == 0 || s.allowed[0].Status == "" {
			continue
		}
		s.Rows++
		status, ok := statusOf(string(cell(s.truth, email)))
		if !ok {
			s.MissingRows++
			continue
		}
		s.judge(status, "")
	}
}
