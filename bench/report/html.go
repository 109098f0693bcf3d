package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// pageTemplate is the template of the report: one file with style and plots, without external resources.
//
//go:embed page.html
var pageTemplate string

// WriteHTML writes the reports as one self-contained page. If old is not nil, the page compares the two.
func WriteHTML(w io.Writer, reports, old []*Report, made time.Time) error {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"number": formatAny, "shade": func(share float64) float64 { return 12 + 40*share }, "percent": percent,
		"names": (*Report).names,
		"lines": drawLines, "histograms": drawHistograms, "budgets": drawBudgets, "stages": drawStages,
		"confusion": confusionRows,
		"changes":   func(r *Report) []Change { return notableChanges(old, r) },
		"failed":    countFailed, "words": humanName, "tiles": (*Report).tiles, "telling": relevantBars,
		"zeros": zeroBars,
	}).Parse(pageTemplate)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	view := struct {
		Reports  []*Report
		Machine  Machine
		Made     string
		Compared bool
		Warnings []string
	}{Reports: reports, Made: made.UTC().Format("2006-01-02 15:04 UTC"), Compared: old != nil}
	if len(reports) > 0 {
		view.Machine = reports[0].Machine
	}
	if old != nil {
		view.Warnings = comparisonWarnings(old, reports)
	}
	if err := tmpl.Execute(w, view); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// formatAny writes a value of the template.
func formatAny(v any) (string, error) {
	switch v := v.(type) {
	case float64:
		return FormatNumber(v), nil
	case int:
		return FormatNumber(float64(v)), nil
	}
	return "", fmt.Errorf("%T is not a number", v)
}

// countFailed counts the bars that are not met, and an early end as one.
func countFailed(r *Report) (n int) {
	for _, b := range r.Bars {
		if !b.OK {
			n++
		}
	}
	if r.Error != "" {
		n++
	}
	return n
}

// notableChanges are the changes that the page shows; the table of the command line has all.
func notableChanges(old []*Report, r *Report) []Change {
	return slices.DeleteFunc(Compare(old, []*Report{r}), func(c Change) bool { return c.Trend == Same })
}

// humanName is the name of a metric with spaces.
func humanName(name string) string { return strings.ReplaceAll(name, "_", " ") }

// tile is one of the main figures of a report.
type tile struct {
	Name string
	Metric
}

// tiles returns the main figures that a report has.
func (r *Report) tiles() (all []tile) {
	for _, name := range []string{"rows", "seconds", "rows_per_second", "questions_per_second", "cached_per_second",
		"cpu_per_row", "peak_memory", "ratio_to_floor"} {
		if m, ok := r.Metrics[name]; ok {
			all = append(all, tile{name, m})
		}
	}
	return all
}

// isZero reports whether b says that something never happens, and is met; it needs no line of its own.
func isZero(b Bar) bool { return b.OK && b.Value == 0 && b.Want == "<= 0" }

// relevantBars are the bars that get a line each.
func relevantBars(bars []Bar) []Bar {
	return slices.DeleteFunc(slices.Clone(bars), isZero)
}

// zeroBars names the other bars.
func zeroBars(bars []Bar) string {
	var names []string
	for _, b := range bars {
		if isZero(b) {
			names = append(names, humanName(b.Name))
		}
	}
	return strings.Join(names, ", ")
}

// matrix is a confusion matrix for the page.
type matrix struct {
	Columns []string
	Rows    []matrixRow
}

type matrixRow struct {
	Expected string
	Cells    []matrixCell
}

type matrixCell struct {
	Count int
	Right bool    // given as expected
	Share float64 // of the row, for the shade
}

// confusionRows arranges the counts by expected and given status, statuses in their usual order.
func confusionRows(confusion map[string]map[string]int) *matrix {
	if len(confusion) == 0 {
		return nil
	}
	m := &matrix{Columns: statusesIn(confusion)}
	for _, expected := range m.Columns {
		row := matrixRow{Expected: expected}
		total := 0
		for _, n := range confusion[expected] {
			total += n
		}
		for _, given := range m.Columns {
			n := confusion[expected][given]
			row.Cells = append(row.Cells, matrixCell{Count: n, Right: expected == given,
				Share: share(float64(n), float64(total))})
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// statusesIn lists the statuses that occur on either side.
func statusesIn(confusion map[string]map[string]int) (all []string) {
	seen := map[string]bool{}
	for expected, row := range confusion {
		seen[expected] = true
		for given := range row {
			seen[given] = true
		}
	}
	for _, s := range []string{"VALID", "RISKY", "INVALID", "UNKNOWN", ""} {
		if seen[s] {
			all = append(all, s)
		}
	}
	return all
}
