package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Metric is a measured value with its unit.
type Metric struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // as Prometheus would have it, shortened: rows/s, us, MB, s, ratio; "" for counts
}

// Bar is a value and its limit, e.g. "<= 90".
type Bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Want  string  `json:"want"`
	OK    bool    `json:"ok"`
}

// Report is what one scenario found.
type Report struct {
	Scenario string            `json:"scenario"`
	Seed     uint64            `json:"seed"`
	Machine  Machine           `json:"machine"`
	Metrics  map[string]Metric `json:"metrics"`
	Bars     []Bar             `json:"bars"`
	Error    string            `json:"error,omitempty"` // why it ended early

	What   string   `json:"-"` // one line for the reader of the page
	Order  []string `json:"-"` // names of metrics in the order in which they were measured
	Plots  Plots    `json:"-"`
	Remark []string `json:"-"` // sentences for the reader
}

// New makes an empty report whose JSON has every key.
func New(scenario, what string, seed uint64, machine Machine) *Report {
	return &Report{Scenario: scenario, What: what, Seed: seed, Machine: machine, Metrics: map[string]Metric{},
		Bars: []Bar{}}
}

// OK reports whether the scenario ran to its end and every bar is met.
func (r *Report) OK() bool {
	for _, b := range r.Bars {
		if !b.OK {
			return false
		}
	}
	return r.Error == ""
}

// Metric records a value. A name that is measured again keeps its place.
func (r *Report) Metric(name string, value float64, unit string) {
	if _, known := r.Metrics[name]; !known {
		r.Order = append(r.Order, name)
	}
	r.Metrics[name] = Metric{Value: value, Unit: unit}
}

// AtMost adds a bar for a metric of the report. A missing metric fails it.
func (r *Report) AtMost(name string, limit float64) { r.bar(name, "<=", limit) }

// AtLeast adds a bar as AtMost does.
func (r *Report) AtLeast(name string, limit float64) { r.bar(name, ">=", limit) }

func (r *Report) bar(name, op string, limit float64) {
	m, known := r.Metrics[name]
	ok := known && (op == "<=" && m.Value <= limit || op == ">=" && m.Value >= limit)
	r.Bars = append(r.Bars, Bar{Name: name, Value: m.Value, Want: op + " " + FormatNumber(limit), OK: ok})
}

// Note adds a sentence for the reader of the table and the page.
func (r *Report) Note(format string, args ...any) {
	r.Remark = append(r.Remark, fmt.Sprintf(format, args...))
}

// WriteJSON writes the reports as one array.
func WriteJSON(w io.Writer, reports []*Report) error {
	if reports == nil {
		reports = []*Report{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(reports)
}

// ReadJSON reads what WriteJSON wrote, now or in an older version.
func ReadJSON(r io.Reader) ([]*Report, error) {
	var reports []*Report
	if err := json.NewDecoder(r).Decode(&reports); err != nil {
		return nil, fmt.Errorf("not a report of bench --json: %w", err)
	}
	for i, rep := range reports {
		if rep == nil {
			return nil, fmt.Errorf("not a report of bench --json: element %d is null", i)
		}
	}
	return reports, nil
}

// FormatNumber writes a value with three significant digits, and whole numbers in full with grouped thousands.
func FormatNumber(v float64) string {
	if v >= 1000 || v <= -1000 || v == float64(int64(v)) {
		return groupDigits(strconv.FormatFloat(v, 'f', 0, 64))
	}
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(v, 'f', 6, 64)
	}
	return s
}

// groupDigits groups the thousands of a decimal integer.
func groupDigits(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}
