package wire

import "time"

// Status is the status of a node, for people and dashboards. It decides nothing but which source is asked at a wide provider.
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
	State         string // ok, resting, canary (quarantined everywhere, and about to be tried), sick
	ReadyQueues   int
	Quarantined   int      // queues whose receiver quarantined this source
	Exhausted     int      // queues whose budget is used up for now
	QuarantinedAt []string // wide providers among those
}

// The states of an identity that is quarantined everywhere: not used at all, and about to be tried.
const (
	StateQuarantined = "resting"
	StateTrial       = "canary"
)

// maxIdentities bounds what is kept of a node's status.
const maxIdentities = 1024

func statusFrame(s Status) *NodeFrame {
	f := &StatusFrame{Lanes: count(s.ReadyQueues), Sessions: count(s.Sessions), Rows: count(s.Rows), Recipients: s.Recipients, Answered: s.Answered,
		Failing: count(s.AuditFailures), Doubtful: count(s.AuditWarnings)}
	for _, id := range s.Identities[:min(len(s.Identities), maxIdentities)] {
		f.Identities = append(f.Identities, &IdentityStatusFrame{Name: id.Name, State: id.State, Lanes: count(id.ReadyQueues), Resting: count(id.Quarantined), Spent: count(id.Exhausted), RestsAt: id.QuarantinedAt})
	}
	f.Spent = budgetUseFrames(s.BudgetUses, s.Identities)
	f.addReport(s)
	return &NodeFrame{Kind: &NodeFrame_Status{Status: f}}
}

func (f *StatusFrame) status() Status {
	s := Status{ReadyQueues: int(f.GetLanes()), Sessions: int(f.GetSessions()), Rows: int(f.GetRows()), Recipients: f.GetRecipients(), Answered: f.GetAnswered(),
		AuditFailures: int(f.GetFailing()), AuditWarnings: int(f.GetDoubtful())}
	for _, id := range f.GetIdentities()[:min(len(f.GetIdentities()), maxIdentities)] {
		s.Identities = append(s.Identities, IdentityStatus{id.GetName(), id.GetState(), int(id.GetLanes()), int(id.GetResting()), int(id.GetSpent()), id.GetRestsAt()})
	}
	s.BudgetUses = readBudgetUses(f.GetSpent(), s.Identities)
	f.readReport(&s)
	return s
}
