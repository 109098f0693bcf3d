package record

import (
	"probity/coordinator"
	"probity/engine"
)

// Domain is a domain as the API shows it.
type Domain struct {
	Domain     string   `json:"domain"`
	DNS        string   `json:"dns"`
	Exists     bool     `json:"domain_exists"`
	MX         []string `json:"mx_records"`
	Provider   string   `json:"smtp_provider"`
	AcceptsAll bool     `json:"accepts_all"`
	CatchAll   *bool    `json:"is_catch_all"`
	Disposable bool     `json:"is_disposable"`
	Free       bool     `json:"is_free_email"`
	Probing    bool     `json:"probing"`
}

// NewDomain makes the record of a domain; suppressed: its receiver asked not to be probed.
func NewDomain(d *coordinator.Domain, suppressed bool) *Domain {
	p := d.Route.Provider
	r := &Domain{
		Domain: d.Name, DNS: d.Route.Fact.String(), Exists: d.Route.Fact != engine.FactNoDomain, MX: d.Route.MX,
		Disposable: d.Flags.Has(engine.FlagDisposable), Free: d.Flags.Has(engine.FlagFree),
	}
	if r.MX == nil {
		r.MX = []string{}
	}
	if d.Route.Fact.Routable() {
		r.Provider, r.AcceptsAll, r.Probing = p.Name, p.AcceptAll, p.Probe && !suppressed
		if r.Provider == "" {
			r.Provider = "other"
		}
	}
	if d.CatchAll != engine.NotKnown {
		r.CatchAll = new(d.CatchAll == engine.Yes)
	}
	return r
}
