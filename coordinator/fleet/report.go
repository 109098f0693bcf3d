package fleet

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/prober/wire"
)

// ClusterReport is the state of a cluster for people and dashboards.
type ClusterReport struct {
	Coordinator string       `json:"coordinator"`
	Problem     string       `json:"problem,omitempty"`
	Rivals      []string     `json:"rivals,omitempty"` // other coordinators in the cluster
	Nodes       []NodeReport `json:"nodes"`
	Quarantines []Quarantine `json:"quarantines,omitempty"` // in force, where the nodes were asked for them
}

// Quarantine is an egress source that a receiver refused, and that probes nothing there until the quarantine ends.
type Quarantine struct {
	Node     string    `json:"node"`
	Source   string    `json:"source"`
	Receiver string    `json:"receiver"` // name of its provider, or its first host; empty: all receivers
	Route    string    `json:"route"`
	Reply    string    `json:"reply"` // redacted; empty where it was not kept
	Rule     string    `json:"rule"`  // that read the reply
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until"`
}

// SetQuarantines sets the quarantines among ready queues.
func (r *ClusterReport) SetQuarantines(queues []ReadyQueueReport) {
	r.Quarantines = nil
	for i := range queues {
		q := &queues[i]
		if q.State != wire.StateQuarantined {
			continue
		}
		receiver := q.Provider
		if receiver == "" {
			receiver, _, _ = strings.Cut(q.Route, ",")
		}
		r.Quarantines = append(r.Quarantines, Quarantine{Node: q.Node, Source: q.Egress, Receiver: receiver,
			Route: q.Route,
			Reply: q.Reply, Rule: q.Rule, Since: q.Since, Until: q.Until})
	}
}

// NodeReport is one node of a ClusterReport.
type NodeReport struct {
	Name          string           `json:"name"`
	Address       string           `json:"address"`
	Version       string           `json:"version"`
	State         string           `json:"state"`  // alive, suspect, draining, gone
	Usable        bool             `json:"usable"` // it takes work: it is well, and has a share
	Since         time.Time        `json:"since"`  // of the state
	Problem       string           `json:"problem,omitempty"`
	Identities    []IdentityReport `json:"identities"`
	ReadyQueues   int              `json:"ready_queues"`
	Sessions      int              `json:"sessions"`
	Rows          int              `json:"rows"` // sent to it and not answered
	RowsPerSecond float64          `json:"rows_per_second"`
	Recipients    uint64           `json:"recipients"`     // sent since its start, decoys included
	AuditFailures int              `json:"audit_failures"` // findings of its newest audit of itself
	AuditWarnings int              `json:"audit_warnings"`
	Audited       time.Time        `json:"audited_at,omitzero"`
	// warnings and failures, the gravest first, at most 64
	Findings []wire.Finding `json:"audit_findings,omitempty"`
	// since its start: outcomes, actions, hosts that failed
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// IdentityReport is one egress source.
type IdentityReport struct {
	Name   string `json:"name"`
	Local  string `json:"local"`
	Public string `json:"public"`
	EHLO   string `json:"ehlo"`
	// ok, quarantined (everywhere), trial (the same, and about to be tried), down, unknown
	State       string `json:"state"`
	ReadyQueues int    `json:"ready_queues"`
	Quarantined int    `json:"quarantined"` // queues whose receiver quarantined it
	Exhausted   int    `json:"exhausted"`   // queues whose budget is used up for now
}

// SetStatus puts the status of a node into its report.
func (n *NodeReport) SetStatus(s wire.Status) {
	n.ReadyQueues = s.ReadyQueues
	n.Sessions = s.Sessions
	n.RowsPerSecond = s.RowsPerSecond
	n.Recipients = s.Recipients
	n.AuditFailures = s.AuditFailures
	n.AuditWarnings = s.AuditWarnings
	n.Audited = s.Audited
	n.Findings = s.Findings
	n.Counters = make(map[string]uint64, len(s.Counters))
	for _, m := range s.Counters {
		n.Counters[m.Name] = m.Count
	}
	for i := range n.Identities {
		id := &n.Identities[i]
		for _, reported := range s.Identities {
			if reported.Name == id.Name {
				id.State = reported.State
				id.ReadyQueues = reported.ReadyQueues
				id.Quarantined = reported.Quarantined
				id.Exhausted = reported.Exhausted
			}
		}
	}
}

// Report returns the state of the cluster now.
func (f *Fleet) Report() ClusterReport {
	r := f.membership.Load()
	out := ClusterReport{Coordinator: f.cfg.Coordinator.ID, Problem: r.view.Problem, Rivals: r.view.Rivals,
		Nodes: []NodeReport{}}
	for i := range r.view.Nodes {
		n := &r.view.Nodes[i]
		report := NodeReport{Name: n.Name, Address: n.Listen, Version: n.Version, State: n.State.String(),
			Since: n.Since, Problem: n.Problem, Identities: []IdentityReport{}}
		for _, id := range n.Identities {
			report.Identities = append(report.Identities,
				IdentityReport{Name: id.Name, Local: id.Local, Public: id.Public, EHLO: id.EHLO, State: "unknown"})
		}
		if m := f.member(n.Name); m != nil {
			// One that comes among others has its share a little later.
			report.Usable = n.Usable && len(r.identities[m]) > 0
			if state := m.client.State(); state.Live {
				report.SetStatus(m.client.Status())
				report.Rows = state.Rows
			}
		}
		out.Nodes = append(out.Nodes, report)
	}
	return out
}

func (f *Fleet) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name]
}

// fleetMetrics collects the metrics of the nodes; their labels, node names, are no e-mail addresses.
type fleetMetrics struct {
	f      *Fleet
	gauges []nodeGauge
}

// nodeGauge is one metric of a node.
type nodeGauge struct {
	desc  *prometheus.Desc
	value func(*NodeReport) float64
}

func newFleetMetrics(f *Fleet) *fleetMetrics {
	m := &fleetMetrics{f: f}
	add := func(name, help string, of func(*NodeReport) float64) {
		m.gauges = append(m.gauges, nodeGauge{prometheus.NewDesc("probity_node_"+name, help, []string{"node"}, nil),
			of})
	}
	add("up", "Whether the node takes work.", func(n *NodeReport) float64 {
		return map[bool]float64{true: 1}[n.Usable]
	})
	add("ready_queues", "Ready queues at the node.", func(n *NodeReport) float64 { return float64(n.ReadyQueues) })
	add("sessions", "SMTP connections of the node.", func(n *NodeReport) float64 { return float64(n.Sessions) })
	add("rows", "Rows sent to the node and not answered.", func(n *NodeReport) float64 { return float64(n.Rows) })
	add("rows_per_second", "Rows that the node answers a second.",
		func(n *NodeReport) float64 { return n.RowsPerSecond })
	add("audit_failures", "Failing findings of the node's newest audit of itself.",
		func(n *NodeReport) float64 { return float64(n.AuditFailures) })
	add("quarantined_queues", "Ready queues of the node whose receiver quarantined the source.",
		func(n *NodeReport) float64 {
			return n.sum(func(id *IdentityReport) int { return id.Quarantined })
		})
	add("exhausted_queues", "Ready queues of the node whose budget is used up for now.", func(n *NodeReport) float64 {
		return n.sum(func(id *IdentityReport) int { return id.Exhausted })
	})
	return m
}

// sum adds up a figure of the node's identities.
func (n *NodeReport) sum(of func(*IdentityReport) int) (all float64) {
	for i := range n.Identities {
		all += float64(of(&n.Identities[i]))
	}
	return all
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, g := range m.gauges {
		to <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m *fleetMetrics) Collect(to chan<- prometheus.Metric) {
	nodes := m.f.Report().Nodes
	for i := range nodes {
		for _, g := range m.gauges {
			to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(&nodes[i]), nodes[i].Name)
		}
	}
}
