package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Print writes a report as a table for a person.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", r.Scenario, r.What)
	for _, name := range r.names() {
		m := r.Metrics[name]
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  %30s %14s %s", name, FormatNumber(m.Value), m.Unit), " "))
	}
	for _, b := range r.Bars {
		fmt.Fprintf(w, "  %s %s %s, is %s\n", barMark(b.OK), b.Name, b.Want, FormatNumber(b.Value))
	}
	for _, s := range r.Remark {
		fmt.Fprintf(w, "  note: %s\n", s)
	}
	if r.Error != "" {
		fmt.Fprintf(w, "  ended before its time: %s\n", r.Error)
	}
	_, err := fmt.Fprintln(w)
	return err
}

func barMark(ok bool) string {
	if ok {
		return "  ok"
	}
	return "FAIL"
}

// names lists the metrics in the order in which they were measured, or by name when the report was read from a file.
func (r *Report) names() []string {
	if len(r.Order) == len(r.Metrics) {
		return r.Order
	}
	return slices.Sorted(maps.Keys(r.Metrics))
}
