package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
	"probity/prober"
	"probity/prober/doctor"
	"probity/prober/wire"
)

// report returns what probity cluster shows.
func (n *Node) report() fleet.ClusterReport {
	if n.fleet != nil {
		return n.fleet.Report()
	}
	self := selfReport(n.version, audited(n.Prober.Status(), n.audit), n.Prober, &n.rowRate)
	self.Name, self.Since = console.HostName(), n.startedAt
	return fleet.ClusterReport{Coordinator: console.HostName(), Nodes: []fleet.NodeReport{self}}
}

// reportWithQuarantines is report, with the quarantines that the nodes tell when they are asked.
func (n *Node) reportWithQuarantines(ctx context.Context) fleet.ClusterReport {
	r := n.report()
	queues, _ := n.nodeViews().ReadyQueues(ctx) // the report says which nodes are away
	r.SetQuarantines(queues)
	return r
}

// nodeViews returns what operators can see of the nodes and do with them.
func (n *Node) nodeViews() fleet.Views {
	if n.fleet != nil {
		return n.fleet
	}
	return fleet.LocalViews{Node: console.HostName(), Views: n.Prober}
}

// selfReport is a prober as its own process sees it.
func selfReport(version string, s wire.Status, p *prober.Prober, throughput *rateMeter) fleet.NodeReport {
	s.RowsPerSecond = throughput.rate(s.Answered)
	self := fleet.NodeReport{Version: version, State: cluster.Alive.String(), Usable: true, Rows: s.Rows}
	for _, id := range IdentitiesOf(p) {
		self.Identities = append(self.Identities, fleet.IdentityReport{Name: id.Name, Local: id.Local,
			Public: id.Public, EHLO: id.EHLO})
	}
	self.SetStatus(s)
	return self
}

// explainRoute says where the mail of a domain or an address goes, and which node probes there. whyNot says why this
// process asks no public mail server; "" if it does, or others probe for it.
func (n *Node) explainRoute(ctx context.Context, what, whyNot string) (v providerview.Route, err error) {
	var (
		domain  string
		address engine.Address // zero for a domain
	)
	if strings.Contains(what, "@") {
		address, err = engine.ParseTrimmed(what)
		domain = address.Domain()
	} else {
		domain, err = engine.ParseDomain(what)
	}
	if err != nil {
		return v, err
	}
	route := n.Resolver.Route(ctx, domain)
	owner, err := n.ownerOf(&route, domain, address)
	switch {
	case errors.Is(err, fleet.ErrNoProber):
		whyNot = err.Error()
	case err != nil:
		return v, err
	}
	v = providerview.NewRoute(domain, &route, whyNot)
	v.Owner = owner
	return v, nil
}

// ownerOf says which identity, and which node, probes an address of a route, or a domain of it if the address is zero.
// It returns fleet.ErrNoProber if none does.
func (n *Node) ownerOf(route *engine.Route, domain string, address engine.Address) (_ string, err error) {
	switch {
	case !route.Fact.Routable():
		return "", nil
	case n.fleet == nil:
		return console.HostName(), nil
	}
	anyAddress := address == (engine.Address{})
	if anyAddress {
		if address, err = engine.Parse("postmaster@" + domain); err != nil {
			return "", err
		}
	}
	identity, node := n.fleet.Owner(route, address)
	switch {
	case identity == "":
		return "", fleet.ErrNoProber
	case anyAddress && route.Provider.Kind == engine.KindWide && slices.Contains(route.Provider.ByAddress, domain):
		return "each address has its own", nil
	}
	return identity + " at " + node, nil
}

// IdentitiesOf lists a prober's egress sources in their wire form.
func IdentitiesOf(p *prober.Prober) []wire.Identity {
	var ids []wire.Identity
	for _, id := range p.ActiveSources() {
		reported := wire.Identity{Name: id.Name(), EHLO: id.EHLO}
		if id.Local.IsValid() {
			reported.Local, reported.Public = id.Local.String(), id.Local.String()
		}
		if id.Public.IsValid() {
			reported.Public = id.Public.String()
		}
		ids = append(ids, reported)
	}
	return ids
}

// rateMeter measures the rate of a counter between two calls.
type rateMeter struct {
	mu       sync.Mutex // guards what follows
	count    uint64
	lastAt   time.Time
	lastRate float64
}

// rate returns the growth of n per second since the last measurement. Within a second it returns that measurement
// again.
func (rm *rateMeter) rate(n uint64) float64 {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	now := time.Now()
	took := now.Sub(rm.lastAt)
	if took < time.Second {
		return rm.lastRate
	}
	if !rm.lastAt.IsZero() && n >= rm.count {
		rm.lastRate = float64(n-rm.count) / took.Seconds()
	}
	rm.count, rm.lastAt = n, now
	return rm.lastRate
}

// newSelfAudit makes the audit that a probing process runs on itself at its start and every hour. It is nil if the
// process has no sources or no sender that receivers could check.
func newSelfAudit(f *nodeflags.Probing, table *engine.Table, parts nodeflags.AuditOptions) (*doctor.Doctor, error) {
	if f.MailFrom == "" || len(f.Egress) == 0 {
		return nil, nil
	}
	return f.Audit(table, parts)
}

// findings returns the newest report of an audit; nil before the first one, or without an audit.
func findings(d *doctor.Doctor) func() any {
	return func() any {
		if d == nil || d.Latest() == nil {
			return nil
		}
		return d.Latest()
	}
}

// audited adds the result of the newest audit to a node's status.
func audited(s wire.Status, d *doctor.Doctor) wire.Status {
	if d == nil || d.Latest() == nil {
		return s
	}
	r := d.Latest()
	s.AuditFailures, s.AuditWarnings, s.Audited = r.Count(doctor.Fail), r.Count(doctor.Warn), r.At
	for _, level := range []doctor.Severity{doctor.Fail, doctor.Warn, doctor.Unknown} {
		for _, f := range r.Findings {
			if f.Severity == level {
				s.Findings = append(s.Findings, wire.Finding{Check: f.Check, Subject: f.Subject,
					Severity: level.String(), Message: f.Message, Advice: f.Advice})
			}
		}
	}
	return s
}
