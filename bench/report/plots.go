package report

import "time"

// Plots is the data of the page's plots. Every part may be empty.
type Plots struct {
	Throughput []Series
	Memory     []Series
	Latency    []Histogram
	Budgets    []Budget
	Stages     []Stage
	Confusion  map[string]map[string]int // rows by expected and given status
}

// Series is one line over time.
type Series struct {
	Name, Unit string
	Seconds    []float64
	Values     []float64
}

// Add appends a value.
func (s *Series) Add(at time.Duration, v float64) {
	s.Seconds = append(s.Seconds, at.Seconds())
	s.Values = append(s.Values, v)
}

// Stage is a part of the work, with the CPU time of each process in it.
type Stage struct {
	Name  string
	Parts []Part
}

// Part is one process's share.
type Part struct {
	Process string
	CPU     time.Duration
}

// Budget is the highest use of one limit of one receiver.
type Budget struct {
	Persona, Kind string
	Seen, Limit   int
}

// latencyBuckets is how many buckets a Histogram has: bucketsPerDoubling for each of 32 doublings from minLatency.
const (
	latencyBuckets     = 32 * bucketsPerDoubling
	minLatency         = time.Microsecond
	bucketsPerDoubling = 32
)

// Histogram counts durations in buckets whose bounds grow by the 32nd root of two. The zero value is empty. Not safe
// for concurrent use: each sender has its own, merged at the end.
type Histogram struct {
	Name   string
	Counts [latencyBuckets]int
	Total  int
	Max    time.Duration
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	h.Counts[bucketOf(d)]++
	h.Total++
	h.Max = max(h.Max, d)
}

// Merge adds the counts of another.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Counts {
		h.Counts[i] += n
	}
	h.Total += o.Total
	h.Max = max(h.Max, o.Max)
}

// Quantile is an upper bound of the q-quantile, at most 2.2 % too high; 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := q * float64(h.Total)
	sum := 0
	for i, n := range h.Counts {
		sum += n
		if n > 0 && float64(sum) >= want {
			return min(bucketEnd(i), h.Max)
		}
	}
	return h.Max
}
