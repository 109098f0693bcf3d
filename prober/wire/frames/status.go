package frames

import (
	"strings"
	"time"

	"probity/prober/wire"
)

// The bounds of what a node reports to people, and of what is kept of it: 150 kB a node at most.
const (
	maxCounters = 256
	maxFindings = 64
	maxWord     = 128  // bytes of a name
	maxSentence = 1024 // bytes of what was found
)

// maxIdentities bounds what is kept of a node's hello and status.
const maxIdentities = 1024

// NewStatusFrame makes the message of a status, within the bounds.
func NewStatusFrame(s wire.Status) *StatusFrame {
	f := &StatusFrame{ReadyQueues: Count(s.ReadyQueues), Sessions: Count(s.Sessions), Rows: Count(s.Rows),
		Recipients: s.Recipients, Answered: s.Answered,
		AuditFailures: Count(s.AuditFailures), AuditWarnings: Count(s.AuditWarnings)}
	egress := map[string]uint32{}
	for i, id := range s.Identities {
		egress[id.Name] = uint32(i)
	}
	for _, id := range s.Identities[:min(len(s.Identities), maxIdentities)] {
		f.Identities = append(f.Identities, &IdentityStatusFrame{Name: id.Name, State: id.State,
			ReadyQueues: Count(id.ReadyQueues), Quarantined: Count(id.Quarantined), Exhausted: Count(id.Exhausted),
			QuarantinedAt: id.QuarantinedAt})
	}
	for _, used := range s.BudgetUses[:min(len(s.BudgetUses), wire.MaxBudgetUses)] {
		if i, ok := egress[used.Egress]; ok {
			f.BudgetUses = append(f.BudgetUses, &BudgetUseFrame{Route: used.Route, Egress: i, Used: Count(used.Used)})
		}
	}
	for _, m := range s.Counters[:min(len(s.Counters), maxCounters)] {
		f.Counters = append(f.Counters, &CounterFrame{Name: Clip(m.Name, maxWord), Count: m.Count})
	}
	for _, d := range s.Findings[:min(len(s.Findings), maxFindings)] {
		d = clipFinding(d)
		f.Findings = append(f.Findings, &FindingFrame{Check: d.Check, Subject: d.Subject, Severity: d.Severity,
			Message: d.Message, Advice: d.Advice})
	}
	if !s.Audited.IsZero() {
		f.Audited = s.Audited.Unix()
	}
	return f
}

// Read reads what NewStatusFrame made. A node is not trusted to keep the bounds.
func (f *StatusFrame) Read() wire.Status {
	s := wire.Status{ReadyQueues: int(f.GetReadyQueues()), Sessions: int(f.GetSessions()), Rows: int(f.GetRows()),
		Recipients: f.GetRecipients(), Answered: f.GetAnswered(),
		AuditFailures: int(f.GetAuditFailures()), AuditWarnings: int(f.GetAuditWarnings())}
	for _, id := range f.GetIdentities()[:min(len(f.GetIdentities()), maxIdentities)] {
		s.Identities = append(s.Identities, wire.IdentityStatus{Name: id.GetName(), State: id.GetState(),
			ReadyQueues: int(id.GetReadyQueues()), Quarantined: int(id.GetQuarantined()),
			Exhausted: int(id.GetExhausted()), QuarantinedAt: id.GetQuarantinedAt()})
	}
	for _, used := range f.GetBudgetUses()[:min(len(f.GetBudgetUses()), wire.MaxBudgetUses)] {
		if i := int(used.GetEgress()); i < len(s.Identities) {
			s.BudgetUses = append(s.BudgetUses, wire.BudgetUse{Route: used.GetRoute(), Egress: s.Identities[i].Name,
				Used: int(used.GetUsed())})
		}
	}
	for _, m := range f.GetCounters()[:min(len(f.GetCounters()), maxCounters)] {
		s.Counters = append(s.Counters, wire.Counter{Name: Clip(m.GetName(), maxWord), Count: m.GetCount()})
	}
	for _, d := range f.GetFindings()[:min(len(f.GetFindings()), maxFindings)] {
		s.Findings = append(s.Findings, clipFinding(wire.Finding{Check: d.GetCheck(), Subject: d.GetSubject(),
			Severity: d.GetSeverity(), Message: d.GetMessage(), Advice: d.GetAdvice()}))
	}
	if f.GetAudited() != 0 {
		s.Audited = time.Unix(f.GetAudited(), 0).UTC()
	}
	return s
}

func clipFinding(d wire.Finding) wire.Finding {
	return wire.Finding{Check: Clip(d.Check, maxWord), Subject: Clip(d.Subject, maxWord),
		Severity: Clip(d.Severity, maxWord),
		Message:  Clip(d.Message, maxSentence), Advice: Clip(d.Advice, maxSentence)}
}

// Clip is the beginning of a text, without half a character at its end. It keeps nothing of a longer one in memory.
func Clip(s string, most int) string {
	if len(s) > most {
		s = strings.Clone(s[:most])
	}
	return strings.ToValidUTF8(s, "")
}
