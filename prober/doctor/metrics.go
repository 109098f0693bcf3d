package doctor

import "github.com/prometheus/client_golang/prometheus"

// descriptions of the gauges; immutable.
var (
	findingsDesc = prometheus.NewDesc("probity_doctor_findings", "Findings of the last self-audit by check and level.",
		[]string{"check", "level"}, nil)
	atDesc = prometheus.NewDesc("probity_doctor_last_audit_timestamp_seconds",
		"When the last self-audit began, Unix time.", nil, nil)
	tookDesc = prometheus.NewDesc("probity_doctor_last_audit_duration_seconds",
		"How long the last self-audit took.", nil, nil)
)

// Describe implements prometheus.Collector.
func (d *Doctor) Describe(to chan<- *prometheus.Desc) {
	to <- findingsDesc
	to <- atDesc
	to <- tookDesc
}

// Collect implements prometheus.Collector: all figures are of one report. Before the first there are none.
func (d *Doctor) Collect(to chan<- prometheus.Metric) {
	r := d.Latest()
	if r == nil {
		return
	}
	counts := map[string]*[len(severityNames)]int{}
	for _, f := range r.Findings {
		if counts[f.Check] == nil {
			counts[f.Check] = new([len(severityNames)]int)
		}
		counts[f.Check][f.Severity]++
	}
	for check, bySeverity := range counts {
		for severity, n := range bySeverity {
			to <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n), check,
				Severity(severity).String())
		}
	}
	to <- prometheus.MustNewConstMetric(atDesc, prometheus.GaugeValue, float64(r.At.UnixNano())/1e9)
	to <- prometheus.MustNewConstMetric(tookDesc, prometheus.GaugeValue, r.Took.Seconds())
}
