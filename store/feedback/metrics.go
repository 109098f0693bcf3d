package feedback

import (
	"github.com/prometheus/client_golang/prometheus"

	"probity/engine/outcome"
)

var (
	reportsDesc = prometheus.NewDesc("probity_feedback_reports_total",
		"Reports of customers about what became of messages, by what became of the report.",
		[]string{"result"}, nil)
	waitingDesc = prometheus.NewDesc("probity_feedback_waiting",
		"Reports that are not matched with a verdict yet.", nil, nil)
	outcomesDesc = prometheus.NewDesc("probity_feedback_outcomes",
		"Outcomes of verdicts, by receiver, status and what became of the message.",
		[]string{"receiver", "status", "outcome"}, nil)
)

// Describe and Collect make a Book a prometheus.Collector. Receivers are those of the provider table, so their number
// is bounded.
func (b *Book) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(b, out) }

// Collect implements prometheus.Collector.
func (b *Book) Collect(out chan<- prometheus.Metric) {
	for e, name := range eventNames {
		out <- prometheus.MustNewConstMetric(reportsDesc, prometheus.CounterValue, float64(b.events[e].Load()), name)
	}
	b.mu.RLock()
	rows, waiting := b.all.Rows(), int64(0)
	for _, n := range b.waiting {
		waiting += n
	}
	b.mu.RUnlock()
	out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(waiting))
	type label struct{ receiver, status string }
	sums := map[label]*outcome.Counts{}
	for _, r := range rows {
		of := label{r.Receiver, r.Status.String()}
		if sums[of] == nil {
			sums[of] = new(outcome.Counts)
		}
		for kind, n := range r.Counts {
			sums[of][kind] += n
		}
	}
	for of, counts := range sums {
		for kind, n := range counts {
			out <- prometheus.MustNewConstMetric(outcomesDesc, prometheus.GaugeValue, float64(n),
				of.receiver, of.status, outcome.Kind(kind).String())
		}
	}
}
