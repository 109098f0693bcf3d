package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func sampleReport() *Report {
	r := New("verify", "a list", 7, Machine{OS: "linux", Arch: "amd64", CPU: "a processor", Cores: 2, MemoryMB: 16000,
		Go: "go1.26"})
	r.Metric("rows", 1000, "")
	r.Metric("rows_per_second", 45000, "rows/s")
	r.Metric("peak_memory", 312.5, "MB")
	r.Metric("false_valid", 0, "")
	r.AtLeast("rows_per_second", 40000)
	r.AtMost("peak_memory", 400)
	return r
}

func TestReportJSONHasTheSpecifiedKeys(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, []*Report{sampleReport()}))
	var all []map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &all))
	require.Len(t, all, 1)
	require.Equal(t, "verify", all[0]["scenario"])
	require.InDelta(t, 7, all[0]["seed"], 0)
	require.Contains(t, all[0], "machine")
	require.Equal(t, map[string]any{"value": 45000.0, "unit": "rows/s"},
		all[0]["metrics"].(map[string]any)["rows_per_second"])
	require.Equal(t, map[string]any{"name": "peak_memory", "value": 312.5, "want": "<= 400", "ok": true},
		all[0]["bars"].([]any)[1])
	require.Len(t, all[0], 5, "and no others")

	repeated, err := ReadJSON(&b)
	require.NoError(t, err)
	require.Equal(t, sampleReport().Metrics, repeated[0].Metrics)
	require.True(t, repeated[0].OK())
}

func TestReadJSONRejectsOtherFiles(t *testing.T) {
	for _, text := range []string{"", "{}", "[null]", "verify", `[{"seed":-1}]`} {
		_, err := ReadJSON(strings.NewReader(text))
		require.ErrorContains(t, err, "not a report", text)
	}
}

func TestEmptyReportsAreAnArray(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteJSON(&b, nil))
	require.Equal(t, "[]\n", b.String())
}

func TestUnmetBarsFailTheReport(t *testing.T) {
	r := sampleReport()
	require.True(t, r.OK())
	r.AtLeast("rows_per_second", 45000.5)
	require.False(t, r.OK())
	r = sampleReport()
	r.AtMost("unmeasured", 1)
	require.False(t, r.OK(), "what could not be measured fails")
	r = sampleReport()
	r.Error = "the server ended"
	require.False(t, r.OK())
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", -1: "-1", 12: "12", 999: "999", 1000: "1,000",
		1234567.8: "1,234,568", 0.25: "0.25",
		-1234: "-1,234", 3.14159: "3.14", 99.96: "100", 0.00001: "0.000010"} {
		require.Equal(t, want, FormatNumber(v), "%v", v)
	}
}

func TestPrintShowsMetricsAndBars(t *testing.T) {
	r := sampleReport()
	r.AtLeast("rows_per_second", 50_000)
	r.Note("a %s", "note")
	var b bytes.Buffer
	require.NoError(t, r.Print(&b))
	for _, want := range []string{"verify: a list", "45,000 rows/s", "ok rows_per_second >= 40,000, is 45,000",
		"FAIL rows_per_second >= 50,000", "note: a note"} {
		require.Contains(t, b.String(), want)
	}
}

func TestCompareKnowsWhichDirectionIsBetter(t *testing.T) {
	old, now := sampleReport(), sampleReport()
	now.Metric("rows_per_second", 30000, "rows/s")
	now.Metric("peak_memory", 200, "MB")
	now.Metric("false_valid", 2, "")
	now.Metric("floor_recipients_per_second", 1, "rcpt/s")
	trends := map[string]Trend{}
	for _, c := range Compare([]*Report{old}, []*Report{now, New("other", "", 1, Machine{})}) {
		trends[c.Name] = c.Trend
	}
	require.Equal(t, map[string]Trend{"rows": Same, "rows_per_second": Worse, "peak_memory": Better,
		"false_valid": Worse}, trends)
}

// Metrics measured next to verify and serve are judged in the same way.
func TestCompareJudgesPrefixedMetrics(t *testing.T) {
	for name, want := range map[string]int{"resolver_ratio_to_floor": 1, "conversation_ratio_to_floor": 1,
		"resolver_cpu_ratio_to_floor": -1,
		"resolver_not_settled":        -1, "conversation_not_judged": -1, "resolver_asked_again_needlessly": -1,
		"resolver_other_questions": 0} {
		require.Equal(t, want, direction(name, ""), name)
	}
}

func TestSmallChangesAreIgnored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := rapid.Float64Range(0.001, 1e9).Draw(t, "was")
		share := rapid.Float64Range(-0.0999, 0.0999).Draw(t, "share")
		require.Equal(t, Same, trend("rows_per_second", Metric{was, "rows/s"}, Metric{was * (1 + share), "rows/s"}))
		require.Equal(t, Better, trend("rows_per_second", Metric{was, "rows/s"}, Metric{was * 1.2, "rows/s"}))
		require.Equal(t, Worse, trend("cpu_per_row", Metric{was, "us"}, Metric{was * 1.2, "us"}))
		require.Equal(t, Same, trend("floor_cpu_per_recipient", Metric{was, "us"}, Metric{was * 5, "us"}))
	})
}

func TestComparisonWarnsOfDifferentRuns(t *testing.T) {
	old, now := sampleReport(), sampleReport()
	old.Machine.Cores = 8
	var b bytes.Buffer
	require.NoError(t, PrintComparison(&b, []*Report{old}, []*Report{now}))
	require.Contains(t, b.String(), "warning: verify ran on another machine then")
	require.Contains(t, b.String(), "rows_per_second")
	old = sampleReport()
	old.Seed = 8
	require.Contains(t, comparisonWarnings([]*Report{old}, []*Report{now})[0], "seed 8")
	old = sampleReport()
	old.Metric("rows", 5, "")
	require.Contains(t, comparisonWarnings([]*Report{old}, []*Report{now})[0], "5 rows")
	require.Contains(t, comparisonWarnings(nil, []*Report{now})[0], "not in the old report")
	require.Empty(t, comparisonWarnings([]*Report{sampleReport()}, []*Report{now}))
}

func TestHistogram(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Quantile(0.5))
	for i := range 100 {
		h.Add(time.Duration(i+1) * time.Millisecond)
	}
	require.InEpsilon(t, 50*time.Millisecond, h.Quantile(0.5), 0.023)
	require.GreaterOrEqual(t, h.Quantile(0.5), 50*time.Millisecond, "it is an upper bound")
	require.Equal(t, 100*time.Millisecond, h.Quantile(1))
	var both Histogram
	both.Merge(&h)
	both.Merge(&h)
	require.Equal(t, 200, both.Total)
	require.Equal(t, h.Quantile(0.99), both.Quantile(0.99))
}

func TestDurationsAreWithinTheirBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "d"))
		n := bucketOf(d)
		require.LessOrEqual(t, d, bucketEnd(n))
		if n > 0 {
			require.Greater(t, d, bucketEnd(n-1))
		}
	})
	require.Equal(t, latencyBuckets-1, bucketOf(1<<62))
}
