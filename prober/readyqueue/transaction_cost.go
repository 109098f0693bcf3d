package readyqueue

import (
	"slices"

	"probity/engine/smtp"
	"probity/prober/budget"
)

// costOf counts a transaction. What was sent and not answered counts as refused, behind a refused MAIL too: not every server
// answers 503 there. Without pipelining, what stands behind the first that was not answered was not sent (RFC 2920 section 3).
func costOf(recipients []recipient, seen []answer, o *smtp.Outcome, pipelined bool) (b budget.Cost) {
	b.Recipients, b.Long = len(recipients), countLongJobs(recipients)
	b.LongRefused = b.Long
	exempt := func(count *int, i int) {
		*count++
		b.LongRefused -= countLongJobs(recipients[i : i+1])
	}
	for _, a := range seen {
		switch {
		case a.reply.Positive():
			exempt(&b.Accepted, a.i)
		case !a.reply.Permanent() && !a.finding.NamesUnknown:
			exempt(&b.Deferred, a.i)
		}
	}
	for _, i := range o.NoUTF8 {
		exempt(&b.Unsent, i)
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
			exempt(&b.Unsent, i)
		}
	}
	return b
}
