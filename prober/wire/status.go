package wire

import (
	"time"

	"github.com/zeebo/xxh3"
)

// Status is the status of a node, for people and dashboards. It decides nothing but which source is asked at a wide
// provider.
type Status struct {
	ReadyQueues, Sessions, Rows  int
	Recipients                   uint64 // sent since the node's start, decoys included
	Answered                     uint64 // rows since the node's start, from the cache or not
	Identities                   []IdentityStatus
	BudgetUses                   []BudgetUse // the most used budgets of narrow routes
	AuditFailures, AuditWarnings int         // findings of the node's newest audit of itself
	RowsPerSecond                float64     // as the Client counts it between two of them

	Counters []Counter // for people
	Audited  time.Time // when that audit was made; zero: not yet
	Findings []Finding // of that audit, those that are not OK, the gravest first
}

// IdentityStatus is the status of an egress source of a node.
type IdentityStatus struct {
	Name          string
	State         string // ok, quarantined (everywhere), trial (the same, and about to be tried), down
	ReadyQueues   int
	Quarantined   int      // queues whose receiver quarantined this source
	Exhausted     int      // queues whose budget is used up for now
	QuarantinedAt []string // wide providers among those
}

// The states of an identity that is quarantined everywhere: not used at all, and about to be tried.
const (
	StateQuarantined = "quarantined"
	StateTrial       = "trial"
)

// Counter is a counter of a node since its start, for people: "probity_prober_actions_total{pause}", with the values of
// its labels in the order of their names.
type Counter struct {
	Name  string
	Count uint64
}

// Finding is what a node's newest audit of itself says of one thing that is not OK.
type Finding struct {
	Check    string `json:"check"`
	Subject  string `json:"subject"`
	Severity string `json:"severity"` // fail, warn, unknown
	Message  string `json:"message"`
	Advice   string `json:"advice"`
}

// BudgetUse is what an identity has used of the refusals of an hour at one narrow route, reservations included.
type BudgetUse struct {
	Route  uint64 // RouteID of its key
	Egress string
	Used   int
}

// RouteID names a route in the budget reports of nodes.
func RouteID(key string) uint64 { return xxh3.HashString(key) }

// MaxBudgetUses bounds a node's budget report: the most used come first.
const MaxBudgetUses = 4096
