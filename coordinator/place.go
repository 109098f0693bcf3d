package coordinator

import (
	"time"

	"probity/engine"
)

// place settles a row whose route is known, or puts it into the chunk it will be asked with.
func (s *splitter) place(r splitRow, d *domain) error {
	if err := s.prepare(d); err != nil {
		return err
	}
	ev := engine.Evidence{Address: r.addr, Flags: r.flags, Route: &d.via.Route}
	a := ask{Number: r.number, Flags: r.flags, Via: &d.via}
	var err error
	if a.Suggestion, err = s.suggestion(r.addr, d); err != nil {
		return err
	}
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
func (s *splitter) prepare(d *domain) (err error) {
	if !d.named {
		d.named = true
		d.via.mx, err = s.l.names.offset(joinMX(d.via.MX))
	}
	return err
}

// suggestion asks for a did-you-mean once for a domain, and for its rows only where there is one.
func (s *splitter) suggestion(a engine.Address, d *domain) (uint32, error) {
	if d.suggests == no {
		return 0, nil
	}
	text := s.l.c.cfg.Lists.Suggest(a)
	if d.suggests = yes; text == "" {
		d.suggests = no
	}
	return s.l.names.offset(text)
}

func (s *splitter) suppressed(a engine.Address) bool {
	return s.l.c.cfg.Suppress != nil && s.l.c.cfg.Suppress(a)
}

// settleUnrouted answers a row that needs no route: not an address, of a test key, or never to be probed.
func (s *splitter) settleUnrouted(r splitRow) error {
	now := time.Now()
	a := ask{Number: r.number, Flags: r.flags}
	var err error
	if a.Suggestion, err = s.l.names.offset(r.inside); err != nil {
		return err
	}
	var v engine.Verdict
	switch {
	case r.bad:
		v = engine.Judge(&engine.Evidence{SyntaxBad: true}, s.policy, now)
	case s.l.job.Test && s.l.c.cfg.Pretend != nil:
		v = s.l.c.cfg.Pretend(r.addr)
		a.Flags |= v.Flags
	default:
		v = engine.Sure(engine.ReasonSMTPNotChecked, ruleSuppressed, r.flags, now)
	}
	return s.settle(&a, &v, now)
}

const ruleSuppressed = "coordinator/suppressed"

// settle answers a row.
func (s *splitter) settle(a *ask, v *engine.Verdict, now time.Time) (err error) {
	if !s.l.answered.add(a.Number) {
		return nil
	}
	s.l.progress.count(v.Reason)
	s.l.c.meters.rows[v.Status].Add(1)
	if s.entries, err = s.l.appendAnswer(s.entries, a, v, tagFinal, now); err != nil {
		return err
	}
	if len(s.entries) >= settleBytes {
		return s.flushSettled()
	}
	return nil
}

func (s *splitter) flushSettled() (err error) {
	if len(s.entries) > 0 {
		s.mark, err = s.l.log.add(s.entries)
		s.entries = s.entries[:0]
	}
	return err
}
