package hostqueue

import (
	"slices"

	"probity/engine/smtp"
	"probity/prober/budget"
)

// Cost counts a group whose outcome is known. What was sent and not answered counts as refused, behind a refused MAIL
// too: not every server answers 503 there. Without pipelining, what stands behind the first that was not answered was
// not sent (RFC 2920 section 3).
func (g *Group) Cost(seen []Answer, o *smtp.Outcome, pipelined bool) (b budget.Cost) {
	recipients := g.Recipients
	b.Recipients, b.Long = len(recipients), longJobs(recipients)
	b.LongRefused = b.Long
	exempt := func(count *int, i int) {
		*count++
		b.LongRefused -= longJobs(recipients[i : i+1])
	}
	for _, a := range seen {
		switch {
		case a.Reply.Positive():
			exempt(&b.Accepted, a.Recipient)
		case !a.Reply.Permanent() && !a.Finding.NamesUnknown:
			exempt(&b.Deferred, a.Recipient)
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
		switch answered := func(a Answer) bool { return a.Recipient == i }; {
		case slices.Contains(o.NoUTF8, i) || slices.ContainsFunc(seen, answered):
		case waits:
			waits = false
		default:
			exempt(&b.Unsent, i)
		}
	}
	return b
}
