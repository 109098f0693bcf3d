package wire

import (
	"strings"
	"time"
)

// The bounds of what a node reports to people, and of what is kept of it: 150 kB a node at most.
const (
	maxCounters = 256
	maxFindings = 64
	maxWord     = 128  // bytes of a name
	maxSentence = 1024 // bytes of what was found
)

// maxIdentities bounds what is kept of a node's status.
const maxIdentities = 1024

// newStatusFrame makes the message of a status, within the bounds.
func newStatusFrame(s Status) *StatusFrame {
	f := &StatusFrame{Lanes: count(s.ReadyQueues), Sessions: count(s.Sessions), Rows: count(s.Rows), Recipients: s.Recipients, Answered: s.Answered,
		Failing: count(s.AuditFailures), Doubtful: count(s.AuditWarnings)}
	egress := map[string]uint32{}
	for i, id := range s.Identities {
		egress[id.Name] = uint32(i)
	}
	for _, id := range s.Identities[:min(len(s.Identities), maxIdentities)] {
		f.Identities = append(f.Identities, &IdentityStatusFrame{Name: id.Name, State: id.State, Lanes: count(id.ReadyQueues), Resting: count(id.Quarantined), Spent: count(id.Exhausted), RestsAt: id.QuarantinedAt})
	}
	for _, used := range s.BudgetUses[:min(len(s.BudgetUses), MaxBudgetUses)] {
		if i, ok := egress[used.Egress]; ok {
			f.Spent = append(f.Spent, &SpentFrame{Route: used.Route, Egress: i, Used: count(used.Used)})
		}
	}
	for _, m := range s.Counters[:min(len(s.Counters), maxCounters)] {
		f.Meters = append(f.Meters, &MeterFrame{Name: clip(m.Name, maxWord), Count: m.Count})
	}
	for _, d := range s.Findings[:min(len(s.Findings), maxFindings)] {
		d = clipFinding(d)
		f.Findings = append(f.Findings, &FindingFrame{Check: d.Check, Subject: d.Subject, Level: d.Severity, What: d.Message, Do: d.Advice})
	}
	if !s.Audited.IsZero() {
		f.Audited = s.Audited.Unix()
	}
	return f
}

// read reads what newStatusFrame wrote. A node is not trusted to keep the bounds.
func (f *StatusFrame) read() Status {
	s := Status{ReadyQueues: int(f.GetLanes()), Sessions: int(f.GetSessions()), Rows: int(f.GetRows()), Recipients: f.GetRecipients(), Answered: f.GetAnswered(),
		AuditFailures: int(f.GetFailing()), AuditWarnings: int(f.GetDoubtful())}
	for _, id := range f.GetIdentities()[:min(len(f.GetIdentities()), maxIdentities)] {
		s.Identities = append(s.Identities, IdentityStatus{id.GetName(), id.GetState(), int(id.GetLanes()), int(id.GetResting()), int(id.GetSpent()), id.GetRestsAt()})
	}
	for _, used := range f.GetSpent()[:min(len(f.GetSpent()), MaxBudgetUses)] {
		if i := int(used.GetEgress()); i < len(s.Identities) {
			s.BudgetUses = append(s.BudgetUses, BudgetUse{used.GetRoute(), s.Identities[i].Name, int(used.GetUsed())})
		}
	}
	for _, m := range f.GetMeters()[:min(len(f.GetMeters()), maxCounters)] {
		s.Counters = append(s.Counters, Counter{clip(m.GetName(), maxWord), m.GetCount()})
	}
	for _, d := range f.GetFindings()[:min(len(f.GetFindings()), maxFindings)] {
		s.Findings = append(s.Findings, clipFinding(Finding{d.GetCheck(), d.GetSubject(), d.GetLevel(), d.GetWhat(), d.GetDo()}))
	}
	if f.GetAudited() != 0 {
		s.Audited = time.Unix(f.GetAudited(), 0).UTC()
	}
	return s
}

func clipFinding(d Finding) Finding {
	return Finding{clip(d.Check, maxWord), clip(d.Subject, maxWord), clip(d.Severity, maxWord), clip(d.Message, maxSentence), clip(d.Advice, maxSentence)}
}

// clip is the beginning of a text, without half a character at its end. It keeps nothing of a longer one in memory.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.Clone(s[:most])
	}
	return strings.ToValidUTF8(s, "")
}
