package dns

import "github.com/prometheus/client_golang/prometheus"

var (
	queriesDesc          = prometheus.NewDesc("probity_dns_queries_total", "Queries sent to resolvers.", nil, nil)
	timeoutsDesc         = prometheus.NewDesc("probity_dns_timeouts_total", "Queries that were not answered in time.", nil, nil)
	tcpDesc              = prometheus.NewDesc("probity_dns_tcp_total", "Queries that went on over TCP.", nil, nil)
	untrustedAnswersDesc = prometheus.NewDesc("probity_dns_disbelieved_total", "Denials of names that were not believed: their resolver denied the root as well.", nil, nil)
	untrustedServersDesc = prometheus.NewDesc("probity_dns_resolvers_denying", "Resolvers that deny the root, and are not believed.", nil, nil)
	cachedDesc           = prometheus.NewDesc("probity_dns_cached", "What the cache holds, by kind: routes of domains, addresses of hosts.", []string{"kind"}, nil)
)

// Describe and Collect make a Resolver a prometheus.Collector. No label bears a name that was asked for.
func (r *Resolver) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{queriesDesc, timeoutsDesc, tcpDesc, untrustedAnswersDesc, untrustedServersDesc, cachedDesc} {
		out <- d
	}
}

// Collect reads the counters of Stats.
func (r *Resolver) Collect(out chan<- prometheus.Metric) {
	s := r.Stats()
	for d, n := range map[*prometheus.Desc]int64{queriesDesc: s.Queries, timeoutsDesc: s.Timeouts, tcpDesc: s.TCP, untrustedAnswersDesc: s.UntrustedAnswers} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	out <- prometheus.MustNewConstMetric(untrustedServersDesc, prometheus.GaugeValue, float64(len(r.UntrustedServers())))
	out <- prometheus.MustNewConstMetric(cachedDesc, prometheus.GaugeValue, float64(s.Routes), "routes")
	out <- prometheus.MustNewConstMetric(cachedDesc, prometheus.GaugeValue, float64(s.Hosts), "hosts")
}
