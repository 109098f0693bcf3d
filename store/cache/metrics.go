package cache

import "github.com/prometheus/client_golang/prometheus"

var (
	sizeDesc   = prometheus.NewDesc("probity_cache_bytes", "Size of the result cache on disk.", nil, nil)
	shrinkDesc = prometheus.NewDesc("probity_cache_lifetime_divisor", "What lifetimes are divided by to keep the cache under its size; 1 when it has room.", nil, nil)
)

// Describe and Collect make a Cache a prometheus.Collector.
func (c *Cache) Describe(out chan<- *prometheus.Desc) {
	out <- sizeDesc
	out <- shrinkDesc
}

// Collect reads the database's own figures.
func (c *Cache) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(c.db.Metrics().DiskSpaceUsage()))
	out <- prometheus.MustNewConstMetric(shrinkDesc, prometheus.GaugeValue, float64(int64(1)<<c.shrink.Load()))
}
