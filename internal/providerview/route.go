package providerview

import "probity/engine"

// Route says where the mail of a domain goes and how it is treated. A limit of zero means none.
type Route struct {
	Domain    string         `json:"domain"`
	Fact      string         `json:"fact"`
	MX        []string       `json:"mx"`
	Key       string         `json:"key"`
	Provider  string         `json:"provider"`
	Wide      bool           `json:"wide"`
	Kind      string         `json:"kind"`
	AcceptAll bool           `json:"accept_all"`
	Probe     bool           `json:"probe"` // as the table says
	Asked     bool           `json:"asked"` // by this node, as it is configured
	WhyNot    string         `json:"not_asked_because"`
	Owner     string         `json:"owner"` // the identity that asks
	Limits    map[string]int `json:"limits"`
	Source    string         `json:"source"`
	Date      string         `json:"date"`
}

// NewRoute is the view of a route. whyNot says why a node asks no public mail server; "" if it does.
func NewRoute(domain string, r *engine.Route, whyNot string) Route {
	p := r.Provider
	v := Route{Domain: domain, Fact: r.Fact.String(), MX: r.MX, Key: r.Key, Provider: p.Name,
		Wide: p.Kind == engine.KindWide, Kind: p.Kind.String(),
		AcceptAll: p.AcceptAll, Probe: p.Probe, WhyNot: whyNot, Limits: LimitMap(p.Limits), Source: p.Source,
		Date: p.Date}
	if v.Provider == "" && r.Fact.Routable() {
		v.Provider = "other"
	}
	if v.MX == nil {
		v.MX = []string{}
	}
	switch {
	case v.LookupFailed():
		v.WhyNot = "the domain could not be looked up: DNS says " + v.Fact
	case !r.Fact.Routable():
		v.WhyNot = "DNS says " + v.Fact + ": there is no host to ask"
	case !p.Probe:
		v.WhyNot = "the provider table says probe = off"
	case p.AcceptAll:
		v.WhyNot = "it accepts anything: an answer would prove nothing"
	}
	v.Asked = v.WhyNot == ""
	return v
}

// LookupFailed reports whether the DNS gave no answer, so that nothing is known of the route.
func (r *Route) LookupFailed() bool {
	return r.Fact == engine.FactServFail.String() || r.Fact == engine.FactDNSTimeout.String()
}
