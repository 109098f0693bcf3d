package prober

import (
	"slices"

	"probity/engine/smtp"
)

// bill is what a transaction is charged with. What is neither unsent, accepted nor mild counts as refused.
type bill struct {
	unsent, accepted, mild int
	long, longRefused      int // recipients for long jobs, and those of them that count as refused: what the even pace charges
}

// billOf counts a transaction. What was sent and not answered counts as refused, behind a refused MAIL too: not every server
// answers 503 there. Without pipelining, what stands behind the first that was not answered was not sent (RFC 2920 section 3).
func billOf(asks []ask, seen []answer, o *smtp.Outcome, pipelined bool) (b bill) {
	b.long = long(asks)
	b.longRefused = b.long
	spare := func(count *int, i int) {
		*count++
		b.longRefused -= long(asks[i : i+1])
	}
	for _, a := range seen {
		switch {
		case a.reply.Positive():
			spare(&b.accepted, a.i)
		case !a.reply.Permanent() && !a.finding.NamesUnknown:
			spare(&b.mild, a.i)
		}
	}
	for _, i := range o.NoUTF8 {
		spare(&b.unsent, i)
	}
	if pipelined || len(seen)+len(o.NoUTF8) == len(asks) {
		return b
	}
	waits := o.Mail.Positive() // one was sent and is not answered
	for i := range asks {
		switch answered := func(a answer) bool { return a.i == i }; {
		case slices.Contains(o.NoUTF8, i) || slices.ContainsFunc(seen, answered):
		case waits:
			waits = false
		default:
			spare(&b.unsent, i)
		}
	}
	return b
}
