package feedback

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/engine"
	"probity/engine/outcome"
	"probity/store/feedback"
)

// MaxBody is how long a request may be, in bytes, and maxReports how many reports it may have.
const (
	MaxBody    = 2 << 20
	maxReports = 20_000
)

// members are those of a report, and the columns of a file.
var members = []string{"email", "address_sha256", "outcome", "at", "bounce_text"}

// maxAhead is how far the clock of a sender may be ahead of ours.
const maxAhead = time.Hour

// reader reads reports.
type reader struct {
	book  *feedback.Book
	table *engine.Table
	now   time.Time
}

// one reads a report; member returns a member of it, empty if it was not sent.
func (r *reader) one(member func(name string) (string, error)) (report feedback.Report, err error) {
	texts := make(map[string]string, len(members))
	for _, name := range members {
		if texts[name], err = member(name); err != nil {
			return report, err
		}
	}
	email, sum := texts["email"], texts["address_sha256"]
	switch {
	case (email == "") == (sum == ""):
		return report, refuse("email is missing: send it, or address_sha256 as a receipt has it, not both.")
	case sum == "":
		report.Hash = r.book.HashOf(email)
	default:
		hash, ok := r.book.HashOfReceipt(sum)
		if !ok {
			return report, refuse("address_sha256 must be 64 hexadecimal digits, as a receipt has them.")
		}
		report.Hash = hash
	}
	_, domain, _ := strings.Cut(email, "@")
	kind, ok := outcome.Conclude(r.table, texts["outcome"], texts["bounce_text"], domain)
	if !ok {
		return report, refuse("outcome must be one of %s.", strings.Join(outcome.Reports, ", "))
	}
	report.Kind = kind
	at, err := time.Parse(time.RFC3339, texts["at"])
	if err != nil {
		return report, refuse("at must be a time such as 2026-03-01T12:00:00Z.")
	}
	if at.Before(time.Unix(0, 0)) || at.After(r.now.Add(maxAhead)) {
		return report, refuse("at must be a time before now.")
	}
	report.At = at.UTC().Truncate(time.Second)
	return report, nil
}

func refuse(format string, args ...any) *httpd.Refusal {
	return httpd.Refuse(httpd.Unacceptable, format, args...)
}

// json reads the reports of a JSON body.
func (r *reader) json(d *httpd.Document) (reports []feedback.Report, err error) {
	return reports, d.Objects("reports", maxReports, func(object *httpd.Document) error {
		report, err := r.one(func(name string) (string, error) {
			text, _, err := object.Text(name)
			return text, err
		})
		reports = append(reports, report)
		return err
	})
}

// csv reads the reports of a CSV body, whose first line names the columns.
func (r *reader) csv(text []byte) (reports []feedback.Report, err error) {
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	in.ReuseRecord = true
	first, err := in.Read()
	if err != nil {
		return nil, refuseCSV(err)
	}
	names := slices.Clone(first)
	for i, name := range names {
		if !slices.Contains(members, name) || slices.Contains(names[:i], name) {
			return nil, refuse("line 1: %q is not a column, or is there twice: name each of these at most once: %s.",
				shorten(name), strings.Join(members, ", "))
		}
	}
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, refuseCSV(err)
		}
		report, err := r.one(func(name string) (string, error) {
			if i := slices.Index(names, name); i >= 0 {
				return cells[i], nil
			}
			return "", nil
		})
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, refuse("line %d: %s", line, err)
		}
		reports = append(reports, report)
		if len(reports) > maxReports {
			break
		}
	}
	if len(reports) == 0 || len(reports) > maxReports {
		return nil, refuse("The file must have 1 to %d reports.", maxReports)
	}
	return reports, nil
}

func refuseCSV(err error) error {
	if errors.Is(err, io.EOF) {
		return refuse("The body is empty: send CSV whose first line has the columns %s.", strings.Join(members, ", "))
	}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return refuse("line %d: %s: quote cells that contain quotes, commas or line breaks, "+
			"and give each line as many cells as the first.", parse.Line, parse.Err)
	}
	return fmt.Errorf("feedback: %w", err)
}

// maxShown bounds a name that a refusal repeats, in bytes.
const maxShown = 40

func shorten(s string) string { return s[:min(len(s), maxShown)] }
