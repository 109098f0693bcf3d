package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/prober/doctor"
	"probity/prober/wire"
)

// newSelfAudit makes the audit that a probing process runs on itself at its start and every hour. It is nil if the process has no
// sources or no sender that receivers could check.
func (f *probingFlags) newSelfAudit(table *engine.Table, folder string, log *slog.Logger, metrics prometheus.Registerer) (*doctor.Doctor, error) {
	if f.MailFrom == "" || len(f.Egress) == 0 {
		return nil, nil
	}
	return f.doctor(table, doctorParts{folder: folder, log: log, metrics: metrics})
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

func (pp *proberProcess) status() wire.Status { return audited(pp.prober.Status(), pp.audit) }

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
				s.Findings = append(s.Findings, wire.Finding{Check: f.Check, Subject: f.Subject, Severity: level.String(), Message: f.Message, Advice: f.Advice})
			}
		}
	}
	return s
}
