package coordinator

import (
	"time"

	"probity/coordinator/fleet"
	"probity/coordinator/jobfiles"
	"probity/engine"
)

// place settles a row whose route is known, or puts it into the chunk it will be asked with.
func (s *splitter) place(r splitRow, d *domain) error {
	d.prepare()
	ev := engine.Evidence{Address: r.addr, Flags: r.flags, Route: &d.via.Route}
	a := ask{Number: r.number, Flags: r.flags, Via: &d.via, Suggestion: s.suggestion(r.addr, d)}
	now := time.Now()
	if engine.Next(&ev, s.policy, now).Kind != engine.StepAsk {
		v := engine.Judge(&ev, s.policy, now)
		return s.settle(&a, &v, now)
	}
	s.l.taken.add(r.number)
	a.Mailbox = r.addr.Mailbox()
	return s.gather(&a)
}

// prepare names the MX set of a domain, once.
func (d *domain) prepare() {
	if !d.named {
		d.named = true
		d.via.mx = joinMX(d.via.MX)
	}
}

// suggestion asks for a did-you-mean once for a domain, and for its rows only where there is one.
func (s *splitter) suggestion(a engine.Address, d *domain) string {
	if d.suggests == no {
		return ""
	}
	text := s.l.c.known().Suggest(a)
	if d.suggests = yes; text == "" {
		d.suggests = no
	}
	return text
}

func (s *splitter) suppressed(a engine.Address) bool {
	return s.l.c.cfg.Suppress != nil && s.l.c.cfg.Suppress(a)
}

// settleUnrouted answers a row that needs no route: not an address, of a test key, or never to be probed.
func (s *splitter) settleUnrouted(r splitRow) error {
	now := time.Now()
	a := ask{Number: r.number, Flags: r.flags, Suggestion: r.inside}
	var v engine.Verdict
	switch {
	case r.bad:
		v = engine.Judge(&engine.Evidence{SyntaxBad: true}, s.policy, now)
	case s.l.job.Test && s.l.c.cfg.Pretend != nil:
		v = s.l.c.cfg.Pretend(r.addr)
		a.Flags |= v.Flags
	default:
		v = engine.Sure(engine.ReasonSMTPNotChecked, fleet.RuleSuppressed, r.flags, now)
	}
	return s.settle(&a, &v, now)
}

// settle answers a row.
func (s *splitter) settle(a *ask, v *engine.Verdict, now time.Time) error {
	if !s.l.answered.add(a.Number) {
		return nil
	}
	s.l.progress.count(v.Reason)
	s.l.c.meters.rows[v.Status].Add(1)
	s.settled = append(s.settled, a.answer(jobfiles.Final, v, now))
	if len(s.settled) >= settleRows {
		return s.flushSettled()
	}
	return nil
}

func (s *splitter) flushSettled() error {
	err := s.l.log.Add(s.settled)
	clear(s.settled)
	s.settled = s.settled[:0]
	return err
}
