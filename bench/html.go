package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

// page is the template of the report: one file with its style and its plots in it, that needs nothing from anywhere.
//
//go:embed page.html
var page string

// WriteHTML writes the reports as one self-contained page. old may be nil; when it is not, the page compares.
func WriteHTML(w io.Writer, reports, old []*Report, made time.Time) error {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"number": anyNumber, "shade": func(share float64) float64 { return 12 + 50*share }, "percent": percent, "names": (*Report).names,
		"lines": drawLines, "histograms": drawHistograms, "budgets": drawBudgets, "stages": drawStages, "confusion": confusionRows,
		"changes": func(r *Report) []Change { return Compare(old, []*Report{r}) },
		"failed":  countFailed,
	}).Parse(page)
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
		view.Warnings = incomparable(old, reports)
	}
	if err := tmpl.Execute(w, view); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// anyNumber writes a value of the template.
func anyNumber(v any) (string, error) {
	switch v := v.(type) {
	case float64:
		return number(v), nil
	case int:
		return number(float64(v)), nil
	}
	return "", fmt.Errorf("%T is no number", v)
}

// countFailed counts the bars that do not hold, and an early end as one.
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
			row.Cells = append(row.Cells, matrixCell{Count: n, Right: expected == given, Share: ratio(float64(n), float64(total))})
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
