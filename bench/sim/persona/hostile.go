package persona

import (
	"fmt"
	"time"
)

// Hostile makes the receivers whose replies mislead a client. A verifier may give the true verdict or leave a mailbox
// in doubt; where nothing in the replies differs from the truth, Exempt says why.
func Hostile() []*Persona {
	var all []*Persona
	for _, group := range [][]*Persona{
		blockers(), quotas(), silentAccepters(), firstOnly(), unknownGreylisters(), unknownAccepters(),
		disagreeingBackEnds(), hosters(), doubleRepliers(), honestDeferrers(), indistinguishable(),
	} {
		all = append(all, group...)
	}
	return withReplies(all)
}

// hostile is a host with the limits of strict: exactly the default budgets of a prober, and for rates twice as much.
func hostile(deceit, name string, expect expectation, b Behaviour) *Persona {
	p := selfHosted(name, expect, b)
	p.Deceit, p.Limits, p.hosts = deceit, strict().Limits, hostsUnder("mx")
	return p
}

// inDoubt are the verdicts that leave a mailbox in doubt after misleading replies.
func inDoubt() []Outcome {
	doubts := []Outcome{{StatusRisky, "accepted_unconfirmed"}, {StatusRisky, "catch_all"}}
	for _, reason := range []string{"rate_limited", "blocked", "greylisted", "temporary_error", "unclear_refusal",
		"protocol_error", "timeout",
		"connection_failed"} {
		doubts = append(doubts, Outcome{StatusUnknown, reason})
	}
	return doubts
}

// truthOrDoubt is for a host that knows its mailboxes and does not always say so.
func truthOrDoubt() expectation { return alsoAllow(truthful, inDoubt()...) }

// takesAll is for a site that takes mail for every name, whatever it says: no mailbox is proved and none is missing.
func takesAll() expectation {
	return always(append([]Outcome{{StatusRisky, "catch_all"}}, inDoubt()...)...)
}

// turning is a host of that deceit for each number of answers after which it turns.
func turning(deceit, name string, turn Turn, turned string, after ...int) (all []*Persona) {
	for _, n := range after {
		turn.After = n
		b := Behaviour{Turn: turn, texts: texts{ReplyTurned: turned}}
		all = append(all, hostile(deceit, fmt.Sprintf("%s-%d", name, n), truthOrDoubt(), b))
	}
	return all
}

// sameWords is a refusal in the words that hostile hosts have for unknown users.
func sameWords() string { return postfixTexts()[ReplyAbsent] }

// blockers refuse every recipient as unknown after some unknown ones.
func blockers() (all []*Persona) {
	const deceit = "blocks in the words of an unknown user"
	source := Turn{For: 10 * time.Minute}
	everyone := Turn{Scope: ScopeEveryone, For: 10 * time.Minute}
	connection := Turn{Scope: ScopeConnection}
	all = append(all, turning(deceit, "block-source", source, sameWords(), 3, 5, 8)...)
	all = append(all, turning(deceit, "block-source-reworded", source, "550 5.1.1 <{to}>: this mailbox does not exist",
		3, 5, 8)...)
	all = append(all, turning(deceit, "block-everyone", everyone, sameWords(), 3, 5, 8)...)
	all = append(all, turning(deceit, "block-everyone-reworded", everyone, "550 No such recipient here", 3, 5, 8)...)
	all = append(all, turning(deceit, "block-connection", connection, sameWords(), 2, 3, 5)...)
	all = append(all, turning(deceit, "block-connection-reworded", connection, "550 5.1.1 Unknown recipient {to}", 2, 3,
		5)...)
	return all
}

// quotas answer truthfully for some recipients, and refuse the rest as unknown.
func quotas() (all []*Persona) {
	const deceit = "quota, then all unknown"
	source := Turn{Counts: CountRecipients, For: time.Hour}
	accepted := Turn{Counts: CountAccepted, Scope: ScopeConnection}
	connection := Turn{Counts: CountRecipients, Scope: ScopeConnection}
	all = append(all, turning(deceit, "quota-source", source, sameWords(), 6, 10, 20)...)
	all = append(all, turning(deceit, "quota-source-reworded", source, "550 5.1.1 <{to}>: not a user of this system", 6,
		10, 20)...)
	all = append(all, turning(deceit, "quota-connection-accepted", accepted, sameWords(), 1, 3, 5)...)
	all = append(all, turning(deceit, "quota-connection", connection, "550 5.1.1 <{to}>: recipient does not exist", 2,
		4, 8)...)
	return all
}

// silentAccepters accept every recipient after some unknown ones, without saying so; they never use the words of a
// turn.
func silentAccepters() (all []*Persona) {
	const deceit = "accepts silently"
	source := Turn{Accepts: true, For: time.Hour}
	everyone := Turn{Accepts: true, Scope: ScopeEveryone, For: 10 * time.Minute}
	connection := Turn{Accepts: true, Scope: ScopeConnection}
	all = append(all, turning(deceit, "silent-source", source, sameWords(), 3, 5, 8, 12)...)
	all = append(all, turning(deceit, "silent-everyone", everyone, sameWords(), 3, 5, 8, 12)...)
	all = append(all, turning(deceit, "silent-connection", connection, sameWords(), 1, 2, 3, 4)...)
	return all
}

// firstOnly take one recipient of a connection, or of a transaction, and have other words for the rest. Half of them
// are catch-alls.
func firstOnly() (all []*Persona) {
	for i, words := range []string{
		"550 No more",
		"550 5.5.3 Only the first one, thank you",
		"550 One recipient per message is accepted here",
		"550 5.1.1 <{to}>: recipient not accepted",
		"550 5.1.1 <{to}>: User unknown",
		"550 Unknown recipient",
		"554 5.7.1 <{to}>: Recipient address rejected",
		"550 5.1.1 Address rejected: {to}",
		"553 <{to}>: not taken together with others",
		"550 5.2.1 <{to}>: mailbox unavailable",
	} {
		for _, by := range []struct {
			scope TurnScope
			name  string
		}{{ScopeConnection, "connection"}, {ScopeTransaction, "transaction"}} {
			b := Behaviour{Turn: Turn{After: 1, Counts: CountRecipients, Scope: by.scope},
				texts: texts{ReplyTurned: words}}
			expect := truthOrDoubt()
			b.AcceptsAll = (i+int(by.scope))%2 == 0
			if b.AcceptsAll {
				expect = takesAll()
			}
			all = append(all, hostile("first recipient only", fmt.Sprintf("first-of-%s-%d", by.name, i+1), expect, b))
		}
	}
	return all
}

// unknownDeferrals are texts of a 4xx that names an unknown user.
func unknownDeferrals() []string {
	return []string{
		"450 4.1.1 <{to}>: Recipient address rejected: User unknown",
		"451 4.1.1 <{to}>: no such user yet, please try again later",
		"450 <{to}>: unknown user",
		"450 4.2.0 <{to}>: recipient unknown, greylisted",
		"451 Mailbox {to} does not exist at this moment",
	}
}

// unknownGreylisters are catch-alls that greylist in the words of an unknown user.
func unknownGreylisters() (all []*Persona) {
	for i, words := range unknownDeferrals() {
		b := Behaviour{AcceptsAll: true, Greylisting: GreyTriple, GreyWait: 5 * time.Minute,
			texts: texts{ReplyGreylisted: words}}
		all = append(all, hostile("greylists in the words of an unknown user", fmt.Sprintf("greylist-unknown-%d", i+1),
			takesAll(), b))
	}
	return all
}

// unknownAccepters answer 250 to unknown users, and say in words that there is none.
func unknownAccepters() (all []*Persona) {
	for i, words := range []string{
		"250 User unknown",
		"250 2.1.5 <{to}>: no such user here, held for the postmaster",
		"250 5.1.1 <{to}>: mailbox does not exist",
		"251 Recipient {to} unknown, will be forwarded",
		"250 2.0.0 unknown recipient <{to}>; message will be returned",
	} {
		b := Behaviour{texts: texts{ReplyAbsent: words}}
		all = append(all, hostile("refuses with 250", fmt.Sprintf("unknown-250-%d", i+1), truthOrDoubt(), b))
	}
	return all
}

// disagreeingBackEnds are hosts behind one address, one of which accepts every recipient.
func disagreeingBackEnds() []*Persona {
	const deceit = "back ends disagree"
	return []*Persona{
		hostile(deceit, "one-accepts-all", truthOrDoubt(), Behaviour{BackEnds: OneAcceptsAll}),
		hostile(deceit, "one-accepts-all-plain", truthOrDoubt(),
			Behaviour{BackEnds: OneAcceptsAll, texts: eximTexts()}),
	}
}

// hosters have eight domains each, and count over all of them.
func hosters() []*Persona {
	blocks := Behaviour{Turn: Turn{After: 5, For: 10 * time.Minute}, texts: texts{ReplyTurned: sameWords()}}
	silent := Behaviour{Turn: Turn{After: 5, For: time.Hour, Accepts: true}}
	shared := []*Persona{
		hostile("hoster that blocks over all domains", "hoster-block", truthOrDoubt(), blocks),
		hostile("hoster that accepts silently over all domains", "hoster-silent", truthOrDoubt(), silent),
	}
	for _, p := range shared {
		p.DomainCount = 8
	}
	return shared
}

// doubleRepliers reply twice to a greeting or command, at once or after the client's next command.
func doubleRepliers() (all []*Persona) {
	expect := alsoAllow(truthful, Outcome{StatusUnknown, "protocol_error"}, Outcome{StatusUnknown, "connection_failed"},
		Outcome{StatusUnknown, "temporary_error"}, Outcome{StatusUnknown, "timeout"})
	for _, f := range []struct {
		fault Fault
		name  string
	}{{FaultGreetsTwice, "greets-twice"}, {FaultEhloTwice, "ehlo-twice"}, {FaultMailTwice, "mail-twice"}} {
		atOnce := Behaviour{Fault: f.fault, Extensions: extCommon}
		late := atOnce
		late.FaultDelay = 200 * time.Millisecond
		all = append(all, hostile("one reply too many", f.name, expect, atOnce),
			hostile("one reply too many", f.name+"-late", expect, late))
	}
	return all
}

// honestDeferrers accept mailboxes that exist, and answer 450 for the others each time.
func honestDeferrers() (all []*Persona) {
	for i, words := range unknownDeferrals() {
		p := hostile("honest, 450 for unknown users", fmt.Sprintf("honest-450-%d", i+1),
			alsoAllow(deferAbsent, Outcome{StatusUnknown, "greylisted"}), Behaviour{texts: texts{ReplyAbsent: words}})
		// A client need not know that these deferrals are refusals.
		p.Limits.RefusalsPerConnection, p.Limits.RefusalsPerHour = 0, 0
		all = append(all, p)
	}
	return all
}

// indistinguishable hosts reply as an honest host with other mailboxes would.
func indistinguishable() []*Persona {
	all := []*Persona{
		hostile("refuses everybody from the first recipient on", "refuses-all", truthOrDoubt(),
			Behaviour{RefuseAt: StageRcpt, texts: texts{ReplyRefused: sameWords()}}),
		hostile("one back end has an old directory", "old-directory", truthOrDoubt(),
			Behaviour{BackEnds: OneHasOldNames}),
		hostile("catch-all that refuses names by their look", "refuses-by-look", takesAll(),
			Behaviour{AcceptsAll: true, RefusesByLook: true}),
	}
	all[0].Exempt = "a host without any of the listed mailboxes replies in the same way"
	all[1].Exempt = "every reply is what an honest host says to a mailbox that was removed"
	all[2].Exempt = "every reply is what an honest host with more mailboxes says"
	return all
}
