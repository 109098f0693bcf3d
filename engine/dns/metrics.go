package dns

import "github.com/prometheus/client_golang/prometheus"

var (
	queriesDesc  = prometheus.NewDesc("probity_dns_queries_total", "Queries sent to resolvers.", nil, nil)
	timeoutsDesc = prometheus.NewDesc("probity_dns_timeouts_total", "Queries that were not answered in time.",
		nil, nil)
	tcpDesc              = prometheus.NewDesc("probity_dns_tcp_total", "Queries that went on over TCP.", nil, nil)
	untrustedAnswersDesc = prometheus.NewDesc("probity_dns_untrusted_answers_total",
		"NXDOMAIN answers that were not trusted: the resolver answered NXDOMAIN for the root as well.", nil, nil)
	untrustedServersDesc = prometheus.NewDesc("probity_dns_resolvers_denying",
		"Resolvers that answer NXDOMAIN for the root, and are not trusted.", nil, nil)
	silentServersDesc = prometheus.NewDesc("probity_dns_resolvers_silent",
		"Resolvers that answer no query, not even one for the root.", nil, nil)
	cachedDesc = prometheus.NewDesc("probity_dns_cached",
		"What the cache holds, by kind: routes of domains, addresses of hosts.", []string{"kind"}, nil)
)

// Describe and Collect make a Resolver a prometheus.Collector. No label has a name that was looked up.
func (r *Resolver) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{queriesDesc, timeoutsDesc, tcpDesc, untrustedAnswersDesc,
		untrustedServersDesc, silentServersDesc, cachedDesc} {
		out <- d
	}
}

// Collect reads the counters of Stats.
func (r *Resolver) Collect(out chan<- prometheus.Metric) {
	s := r.Stats()
	for d, n := range map[*prometheus.Desc]int64{queriesDesc: s.Queries, timeoutsDesc: s.Timeouts, tcpDesc: s.TCP,
		untrustedAnswersDesc: s.UntrustedAnswers} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	out <- prometheus.MustNewConstMetric(untrustedServersDesc, prometheus.GaugeValue,
		float64(len(r.UntrustedServers())))
	out <- prometheus.MustNewConstMetric(silentServersDesc, prometheus.GaugeValue, float64(r.servers.silent()))
	out <- prometheus.MustNewConstMetric(cachedDesc, prometheus.GaugeValue, float64(s.Routes), "routes")
	out <- prometheus.MustNewConstMetric(cachedDesc, prometheus.GaugeValue, float64(s.Hosts), "hosts")
}
