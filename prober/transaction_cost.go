package prober

import (
	"slices"
	"time"

	"probity/engine/smtp"
	"probity/prober/budget"
)

// transactionCost is what a transaction is charged with. What is neither unsent, accepted nor deferred counts as refused.
type transactionCost struct {
	unsent, accepted, deferred int
	long, longRefused          int // recipients for long jobs, and those of them that count as refused: what pacing charges
}

// settle returns to a budget what a transaction of n recipients has not used: those unsent, accepted, or deferred by a 4xx that
// says nothing of the mailbox, which count on the connection and not in the hour.
func (b *transactionCost) settle(p *budget.Persisted, c *budget.Conn, n int, now time.Time) {
	p.Release(c, b.unsent)
	p.Settle(c, n-b.unsent, b.accepted, b.deferred, now)
	p.SettleLong(b.long, b.longRefused, now)
}

// costOf counts a transaction. What was sent and not answered counts as refused, behind a refused MAIL too: not every server
// answers 503 there. Without pipelining, what stands behind the first that was not answered was not sent (RFC 2920 section 3).
func costOf(recipients []recipient, seen []answer, o *smtp.Outcome, pipelined bool) (b transactionCost) {
	b.long = countLongJobs(recipients)
	b.longRefused = b.long
	exempt := func(count *int, i int) {
		*count++
		b.longRefused -= countLongJobs(recipients[i : i+1])
	}
	for _, a := range seen {
		switch {
		case a.reply.Positive():
			exempt(&b.accepted, a.i)
		case !a.reply.Permanent() && !a.finding.NamesUnknown:
			exempt(&b.deferred, a.i)
		}
	}
	for _, i := range o.NoUTF8 {
		exempt(&b.unsent, i)
	}
	if pipelined || len(seen)+len(o.NoUTF8) == len(recipients) {
		return b
	}
	waits := o.Mail.Positive() // one was sent and is not answered
	for i := range recipients {
		switch answered := func(a answer) bool { return a.i == i }; {
		case slices.Contains(o.NoUTF8, i) || slices.ContainsFunc(seen, answered):
		case waits:
			waits = false
		default:
			exempt(&b.unsent, i)
		}
	}
	return b
}
