package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Change is one metric of a scenario, before and now.
type Change struct {
	Scenario, Name string
	Unit           string
	Old, New       float64
	Trend          Trend
}

// Trend is what a change means.
type Trend int

// The trends. Same is a change of at most notableChange, or of a metric that is neither good nor bad.
const (
	Same Trend = iota
	Better
	Worse
)

func (t Trend) String() string { return [...]string{"", "better", "WORSE"}[t] }

// notableChange is the relative change above which a metric is better or worse: runs differ by less by chance.
const notableChange = 0.10

// Compare lists the metrics that both sets have, in the order of now.
func Compare(old, now []*Report) (changes []Change) {
	before := map[string]*Report{}
	for _, r := range old {
		before[r.Scenario] = r
	}
	for _, r := range now {
		o := before[r.Scenario]
		if o == nil {
			continue
		}
		for _, name := range r.names() {
			was, both := o.Metrics[name]
			is := r.Metrics[name]
			if both && was.Unit == is.Unit {
				changes = append(changes, Change{Scenario: r.Scenario, Name: name, Unit: is.Unit, Old: was.Value,
					New: is.Value, Trend: trend(name, was, is)})
			}
		}
	}
	return changes
}

// trend judges a change by the metric's direction.
func trend(name string, was, is Metric) Trend {
	good := direction(name, is.Unit)
	if good == 0 || math.Abs(is.Value-was.Value) <= notableChange*math.Abs(was.Value) {
		return Same
	}
	if (is.Value > was.Value) == (good > 0) {
		return Better
	}
	return Worse
}

// errorMetrics are prefixes of the metrics that should be 0.
var errorMetrics = []string{"false_", "unexpected_", "wrong_", "missing_", "extra_", "order_", "changed_", "excesses",
	"asked_again", "not_settled", "not_judged"}

// direction is +1 if a higher value is better, -1 if a lower one is, and 0 for neither. A baseline is a property of the
// machine, not of our code.
func direction(name, unit string) int {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "resolver_"), "conversation_")
	switch {
	case strings.HasPrefix(name, "floor_"), strings.HasPrefix(name, "internet_"), strings.HasSuffix(name, "size"):
		return 0
	case strings.HasSuffix(unit, "/s"), strings.HasPrefix(name, "ratio_to_"), name == "speed_growth",
		name == "recipients_per_connection":
		return 1
	case unit == "us", unit == "ms", unit == "s", unit == "MB", name == "cpu_ratio_to_floor", name == "memory_growth",
		name == "ten_jobs_to_whole":
		return -1
	}
	for _, w := range errorMetrics {
		if strings.HasPrefix(name, w) {
			return -1
		}
	}
	if strings.HasSuffix(name, "_errors") {
		return -1
	}
	return 0
}

// PrintComparison writes the changes as a table, with a warning where the two are not comparable.
func PrintComparison(w io.Writer, old, now []*Report) error {
	for _, warning := range comparisonWarnings(old, now) {
		fmt.Fprintln(w, "warning:", warning)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "scenario\tmetric\tthen\tnow\tchange\t\t")
	for _, c := range Compare(old, now) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t %s\t\n", c.Scenario, c.Name, FormatNumber(c.Old), FormatNumber(c.New),
			percent(c.Old, c.New), c.Trend)
	}
	return table.Flush()
}

func percent(old, now float64) string {
	if old == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(now/old-1))
}

// comparisonWarnings lists the differences of the two runs other than our code.
func comparisonWarnings(old, now []*Report) (why []string) {
	before := map[string]*Report{}
	for _, r := range old {
		before[r.Scenario] = r
	}
	for _, r := range now {
		o := before[r.Scenario]
		switch {
		case o == nil:
			why = append(why, r.Scenario+" is not in the old report")
		case o.Machine.CPU != r.Machine.CPU || o.Machine.Cores != r.Machine.Cores:
			why = append(why, fmt.Sprintf("%s ran on another machine then: %s, %d cores", r.Scenario, o.Machine.CPU,
				o.Machine.Cores))
		case o.Seed != r.Seed:
			why = append(why, fmt.Sprintf("%s ran with seed %d then", r.Scenario, o.Seed))
		case o.Metrics["rows"].Value != r.Metrics["rows"].Value:
			why = append(why, fmt.Sprintf("%s ran with %s rows then", r.Scenario,
				FormatNumber(o.Metrics["rows"].Value)))
		}
	}
	return why
}
