package coordinator

import (
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/fleet"
	"probity/coordinator/jobfiles"
	"probity/engine"
)

// routeRow answers a row whose route is known, or adds it to an open chunk if it needs SMTP.
func (s *splitter) routeRow(r splitRow, d *domain) error {
	d.setMX()
	ev := engine.Evidence{Address: r.addr, Flags: r.flags, Route: &d.route.Route}
	a := chunks.Row{Number: r.number, Flags: r.flags, Route: &d.route, Suggestion: s.suggestion(r.addr, d)}
	now := time.Now()
	if engine.Next(&ev, s.policy, now).Kind != engine.StepAsk {
		v := engine.Judge(&ev, s.policy, now)
		return s.answerRow(&a, &v, now)
	}
	s.job.chunked.Add(r.number)
	a.Mailbox = r.addr.Mailbox()
	return s.bufferRow(&a)
}

// setMX sets the MX text of a domain's route, once.
func (d *domain) setMX() {
	if !d.mxSet {
		d.mxSet = true
		d.route.Mx = joinMX(d.route.MX)
	}
}

// suggestion returns the did-you-mean of an address. After an address without one, the domain's other rows are not checked.
func (s *splitter) suggestion(a engine.Address, d *domain) string {
	if d.suggests == no {
		return ""
	}
	text := s.job.c.currentLists().Suggest(a)
	if d.suggests = yes; text == "" {
		d.suggests = no
	}
	return text
}

func (s *splitter) suppressed(a engine.Address) bool {
	return s.job.c.cfg.Suppress != nil && s.job.c.cfg.Suppress(a)
}

// answerUnrouted answers a row that needs no route: bad syntax, a test key, or a suppressed address.
func (s *splitter) answerUnrouted(r splitRow) error {
	now := time.Now()
	a := chunks.Row{Number: r.number, Flags: r.flags, Suggestion: r.suggestion}
	var v engine.Verdict
	switch {
	case r.invalid:
		v = engine.Judge(&engine.Evidence{SyntaxBad: true}, s.policy, now)
	case s.job.record.Test && s.job.c.cfg.TestVerdict != nil:
		v = s.job.c.cfg.TestVerdict(r.addr)
		a.Flags |= v.Flags
	default:
		v = engine.VerdictFor(engine.ReasonSMTPNotChecked, fleet.RuleSuppressed, r.flags, now)
	}
	return s.answerRow(&a, &v, now)
}

func (s *splitter) answerRow(a *chunks.Row, v *engine.Verdict, now time.Time) error {
	if !s.job.answered.Add(a.Number) {
		return nil
	}
	s.job.progress.count(v.Reason)
	s.job.c.metrics.rows[v.Status].Add(1)
	s.answers = append(s.answers, logRow(a, jobfiles.Final, v, now))
	if len(s.answers) >= answerBatch {
		return s.logAnswers()
	}
	return nil
}

func (s *splitter) logAnswers() error {
	err := s.job.log.Add(s.answers)
	clear(s.answers)
	s.answers = s.answers[:0]
	return err
}
