package wire

import (
	"encoding/json"
	"strings"
	"time"
)

// Counter is a counter of a node since its start, for people: "probity_prober_actions_total{pause}", with the values of its labels in
// the order of their names.
type Counter struct {
	Name  string
	Count uint64
}

// Finding is what a node's newest audit of itself says of one thing that is not OK.
type Finding struct {
	Check    string `json:"check"`
	Subject  string `json:"subject"`
	Severity string `json:"level"` // fail, warn, unknown
	Message  string `json:"what"`
	Advice   string `json:"do"`
}

// MarshalJSON writes the former names of keys next to their names, for one release.
func (f Finding) MarshalJSON() ([]byte, error) {
	type former Finding
	return json.Marshal(struct {
		former
		Severity string `json:"severity"`
		Message  string `json:"message"`
		Advice   string `json:"advice"`
	}{former(f), f.Severity, f.Message, f.Advice})
}

// The bounds of what a node reports to people, and of what is kept of it: 150 kB a node at most.
const (
	maxCounters = 256
	maxFindings = 64
	maxWord     = 128  // bytes of a name
	maxSentence = 1024 // bytes of what was found
)

// addReport adds to a frame what only people read.
func (f *StatusFrame) addReport(s Status) {
	for _, m := range s.Counters[:min(len(s.Counters), maxCounters)] {
		f.Meters = append(f.Meters, &MeterFrame{Name: clip(m.Name, maxWord), Count: m.Count})
	}
	for _, d := range s.Findings[:min(len(s.Findings), maxFindings)] {
		d = d.clipped()
		f.Findings = append(f.Findings, &FindingFrame{Check: d.Check, Subject: d.Subject, Level: d.Severity, What: d.Message, Do: d.Advice})
	}
	if !s.Audited.IsZero() {
		f.Audited = s.Audited.Unix()
	}
}

// readReport reads what addReport wrote. A node is not trusted to keep the bounds.
func (f *StatusFrame) readReport(s *Status) {
	for _, m := range f.GetMeters()[:min(len(f.GetMeters()), maxCounters)] {
		s.Counters = append(s.Counters, Counter{clip(m.GetName(), maxWord), m.GetCount()})
	}
	for _, d := range f.GetFindings()[:min(len(f.GetFindings()), maxFindings)] {
		s.Findings = append(s.Findings, Finding{d.GetCheck(), d.GetSubject(), d.GetLevel(), d.GetWhat(), d.GetDo()}.clipped())
	}
	if f.GetAudited() != 0 {
		s.Audited = time.Unix(f.GetAudited(), 0).UTC()
	}
}

func (d Finding) clipped() Finding {
	return Finding{clip(d.Check, maxWord), clip(d.Subject, maxWord), clip(d.Severity, maxWord), clip(d.Message, maxSentence), clip(d.Advice, maxSentence)}
}

// clip is the beginning of a text, without half a character at its end. It keeps nothing of a longer one in memory.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.Clone(s[:most])
	}
	return strings.ToValidUTF8(s, "")
}
