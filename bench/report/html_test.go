package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"html/template"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// wellFormed parses a picture as XML.
func wellFormed(t require.TestingT, svg template.HTML) {
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, string(svg))
	}
}

func plottedReport() *Report {
	r := sampleReport()
	r.What = `a list of <odd> & "quoted" words`
	line := Series{Name: "rows <finished>", Unit: "rows/s"}
	memory := Series{Name: "serve", Unit: "MB"}
	for i := range 1500 {
		line.Add(time.Duration(i)*time.Second, float64(i%70)*1000)
		memory.Add(time.Duration(i)*time.Second, 200+float64(i%9))
	}
	h := Histogram{Name: "cached"}
	for i := range 1000 {
		h.Add(time.Duration(i) * 10 * time.Microsecond)
	}
	r.Plots = Plots{
		Throughput: []Series{line}, Memory: []Series{memory}, Latency: []Histogram{h, h},
		Budgets: []Budget{{"google", "connections", 5, 5}, {"google", "refusals_per_hour", 10, 200},
			{"odd&one", "rcpts_per_minute", 3, 2}, {"free", "connections", 3, 0}},
		Stages: []Stage{{"upload", []Part{{"serve", time.Second}, {"sim", 0}}},
			{"running", []Part{{"serve", 3 * time.Second}, {"sim", 2 * time.Second}}}},
		Confusion: map[string]map[string]int{"VALID": {"VALID": 700, "UNKNOWN": 3}, "": {"": 5}},
	}
	return r
}

func TestPageIsSelfContained(t *testing.T) {
	old := sampleReport()
	old.Metric("rows_per_second", 90000, "rows/s")
	failed := sampleReport()
	failed.Scenario, failed.Error = "other", "it <ended>"
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, []*Report{plottedReport(), failed}, []*Report{old}, time.Unix(0, 0)))
	page := b.String()
	require.NotRegexp(t, `<th[^>]*></th>`, page, "a column without a name")
	for _, want := range []string{"every bar met", "1 not met", "Throughput over time", "Resident memory over time",
		"Latency", "CPU time by stage",
		"fullest limit", "Rows by expected", "Against the old report", "WORSE", "it &lt;ended&gt;",
		"a list of &lt;odd&gt;", "odd&amp;one", "1970-01-01"} {
		require.Contains(t, page, want)
	}
	for _, foreign := range []string{"src=", "<script", "http://", "https://", "@import", "url("} {
		require.NotContains(t, page, foreign)
	}
	require.NotContains(t, page, "ZgotmplZ", "the template's word for a value that it would not trust")
	require.Equal(t, 5, strings.Count(page, "<svg"))
}

func TestPageWithoutReports(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, nil, nil, time.Unix(0, 0)))
	require.Contains(t, b.String(), "</html>")
	require.NoError(t, WriteHTML(&b, []*Report{New("empty", "", 1, Machine{})}, nil, time.Unix(0, 0)))
}

func TestPicturesAreWellFormed(t *testing.T) {
	r := plottedReport()
	for _, svg := range []template.HTML{drawLines(r.Plots.Throughput, "a & b"), drawHistograms(r.Plots.Latency),
		drawBudgets(r.Plots.Budgets), drawStages(r.Plots.Stages)} {
		require.NotEmpty(t, svg)
		require.NotContains(t, svg, "NaN")
		wellFormed(t, svg)
	}
	require.Empty(t, drawLines(nil, ""))
	require.Empty(t, drawHistograms([]Histogram{{Name: "none"}}))
	require.Empty(t, drawBudgets([]Budget{{"free", "connections", 3, 0}}))
	require.Empty(t, drawStages([]Stage{{"idle", nil}}))
	require.Nil(t, confusionRows(nil))
}

func TestAnySeriesCanBeDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Series{Name: rapid.String().Draw(t, "name"), Unit: "MB"}
		for i, v := range rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 50).Draw(t, "values") {
			s.Add(time.Duration(i+1)*time.Second, v)
		}
		require.NotContains(t, drawLines([]Series{s}, "x"), "NaN")
	})
}

func TestAxisNumbersAreRounded(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.3: 0.4, 1: 1, 1.1: 2, 7: 8, 9: 10, 45: 60, 81: 100, 1e6: 1e6} {
		require.InEpsilon(t, want, roundUp(v), 1e-9, "%v", v)
	}
	for v, want := range map[float64]string{0: "0", 250: "250", 2500: "2500", 15000: "15k", 2500000: "2.5M"} {
		require.Equal(t, want, shortNumber(v))
	}
}

func TestConfusionRowsKeepTheUsualOrder(t *testing.T) {
	m := confusionRows(map[string]map[string]int{"UNKNOWN": {"VALID": 1, "UNKNOWN": 3}, "VALID": {"VALID": 4}})
	require.Equal(t, []string{"VALID", "UNKNOWN"}, m.Columns)
	require.Equal(t, matrixRow{"UNKNOWN", []matrixCell{{1, false, 0.25}, {3, true, 0.75}}}, m.Rows[1])
}
