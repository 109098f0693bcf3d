package coordinator

import (
	"time"

	"probity/coordinator/fleet"
	"probity/coordinator/jobfiles"
	"probity/engine"
)

// routeRow settles a row whose route is known, or puts it into the chunk it will be asked with.
func (s *splitter) routeRow(r splitRow, d *domain) error {
	d.setMX()
	ev := engine.Evidence{Address: r.addr, Flags: r.flags, Route: &d.route.Route}
	a := chunkRow{Number: r.number, Flags: r.flags, Route: &d.route, Suggestion: s.suggestion(r.addr, d)}
	now := time.Now()
	if engine.Next(&ev, s.policy, now).Kind != engine.StepAsk {
		v := engine.Judge(&ev, s.policy, now)
		return s.answerRow(&a, &v, now)
	}
	s.job.chunked.add(r.number)
	a.Mailbox = r.addr.Mailbox()
	return s.bufferRow(&a)
}

// setMX names the MX set of a domain, once.
func (d *domain) setMX() {
	if !d.mxSet {
		d.mxSet = true
		d.route.mx = joinMX(d.route.MX)
	}
}

// suggestion asks for a did-you-mean once for a domain, and for its rows only where there is one.
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

// answerUnrouted answers a row that needs no route: not an address, of a test key, or never to be probed.
func (s *splitter) answerUnrouted(r splitRow) error {
	now := time.Now()
	a := chunkRow{Number: r.number, Flags: r.flags, Suggestion: r.suggestion}
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

// answerRow answers a row.
func (s *splitter) answerRow(a *chunkRow, v *engine.Verdict, now time.Time) error {
	if !s.job.answered.add(a.Number) {
		return nil
	}
	s.job.progress.count(v.Reason)
	s.job.c.metrics.rows[v.Status].Add(1)
	s.answers = append(s.answers, a.answer(jobfiles.Final, v, now))
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
