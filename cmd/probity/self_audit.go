package main

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/internal/nodeflags"
	"probity/prober/doctor"
	"probity/prober/wire"
)

// newSelfAudit makes the audit that a probing process runs on itself at its start and every hour. It is nil if the process has no
// sources or no sender that receivers could check.
func newSelfAudit(f *nodeflags.Probing, table *engine.Table, folder string, log *slog.Logger, metrics prometheus.Registerer) (*doctor.Doctor, error) {
	if f.MailFrom == "" || len(f.Egress) == 0 {
		return nil, nil
	}
	return f.Audit(table, nodeflags.AuditOptions{Folder: folder, Log: log, Metrics: metrics})
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
				s.Findings = append(s.Findings, wire.Finding{Check: f.Check, Subject: f.Subject, Severity: level.String(), Message: f.Message, Advice: f.Advice})
			}
		}
	}
	return s
}
