package cache

import "github.com/prometheus/client_golang/prometheus"

var (
	sizeDesc     = prometheus.NewDesc("probity_cache_bytes", "Size of the result cache on disk.", nil, nil)
	setAsideDesc = prometheus.NewDesc("probity_cache_set_aside_timestamp_seconds",
		"When a damaged result cache was last set aside and replaced; 0 for never.", nil, nil)
	shrinkDesc = prometheus.NewDesc("probity_cache_lifetime_divisor",
		"What lifetimes are divided by to keep the cache under its size; 1 when it has room.", nil, nil)
)

// Describe and Collect make a Cache a prometheus.Collector.
func (c *Cache) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

// Collect implements prometheus.Collector.
func (c *Cache) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(c.size()))
	out <- prometheus.MustNewConstMetric(shrinkDesc, prometheus.GaugeValue, float64(int64(1)<<c.shrink.Load()))
	setAsideAt := 0.0
	if at := c.setAsideAt.Load(); at != nil {
		setAsideAt = float64(at.Unix())
	}
	out <- prometheus.MustNewConstMetric(setAsideDesc, prometheus.GaugeValue, setAsideAt)
}
