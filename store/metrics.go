package store

import "github.com/prometheus/client_golang/prometheus"

var (
	sizeDesc = prometheus.NewDesc("probity_store_bytes", "Size of the state store on disk.", nil, nil)
	walDesc  = prometheus.NewDesc("probity_store_wal_bytes_total",
		"Bytes written to the store's write-ahead log since it was opened.", nil, nil)
	compactDesc = prometheus.NewDesc("probity_store_compactions_total", "Compactions of the store since it was opened.",
		nil, nil)
)

// Describe and Collect make a Store a prometheus.Collector.
func (d *DB) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(d, out)
}

// Collect implements prometheus.Collector.
func (d *DB) Collect(out chan<- prometheus.Metric) {
	if d.Full() != nil {
		return // the database may hold its lock while it waits for room
	}
	m := d.db.Metrics()
	out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(m.DiskSpaceUsage()))
	out <- prometheus.MustNewConstMetric(walDesc, prometheus.CounterValue, float64(m.WAL.BytesWritten))
	out <- prometheus.MustNewConstMetric(compactDesc, prometheus.CounterValue, float64(m.Compact.Count))
}
