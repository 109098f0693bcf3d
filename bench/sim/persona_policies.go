package sim

import "time"

// selfHosted is a self-hosted Postfix with one behaviour of its own, the base of
// the personas below.
func selfHosted(name string, expect expectation, h behaviour) *Persona {
	t := postfixTexts()
	for s, text := range h.texts {
		t[s] = text
	}
	h.texts = t
	if h.extensions == 0 {
		h.extensions = extSecure
	}
	return &Persona{
		Name: name, Limits: postfixLimits(), SMTPUTF8: h.extensions&extUTF8 != 0,
		hosts: hostsUnder("mx1", "mx2"), expect: expect, behaviour: h,
	}
}

// strict tolerates exactly the default budgets; for rates twice as much, since a
// client may pause for a minute and then catch up.
func strict() *Persona {
	p := selfHosted("strict", truthful, behaviour{})
	p.Limits = Limits{Connections: 2, ConnectionsPerMinute: 20, RcptsPerMinute: 120, RcptsPerConnection: 20, RefusalsPerConnection: 5, RefusalsPerHour: 20}
	p.hosts = hostsUnder("mx")
	return p
}

// hardErrorLimit disconnects at the sixth refusal.
func hardErrorLimit() *Persona {
	p := selfHosted("hard-error-limit", truthful, behaviour{})
	p.Limits = Limits{Connections: 10, RefusalsPerConnection: 5}
	p.hosts = hostsUnder("mx")
	return p
}

// fewConnections accepts two connections of a client.
func fewConnections() *Persona {
	p := selfHosted("too-many-connections", truthful, behaviour{})
	p.Limits.Connections = 2
	p.hosts = hostsUnder("mx")
	return p
}

// policyServers answer truthfully to a client that follows their policy.
func policyServers() []*Persona {
	tarpit := selfHosted("tarpit", alsoAllow(truthful, Outcome{"UNKNOWN", "timeout"}), behaviour{rcptWait: 15 * time.Second})
	tarpit.Slow = true
	return []*Persona{
		strict(), hardErrorLimit(), fewConnections(),
		selfHosted("greylist-triple", alsoAllow(truthful, greylisted()), behaviour{greylisting: greyTriple, greyWait: 5 * time.Minute}),
		selfHosted("greylist-address", alsoAllow(truthful, greylisted()), behaviour{greylisting: greyAddress, greyWait: time.Minute,
			texts: texts{replyGreylisted: "451 4.7.1 Greylisting in action, please come back in a minute"}}),
		selfHosted("catch-all", catchAllOutcomes(), behaviour{acceptsAll: true, extensions: extModern}),
		selfHosted("accept-all", catchAllOutcomes(), behaviour{acceptsAll: true, extensions: ext8BitMIME, texts: texts{
			replyRcpt: "250 OK, will be sorted later"}}),
		selfHosted("catch-all-picky", acceptMost, behaviour{acceptsMost: true, hides: [mailboxStates]bool{Moved: true}}),
		tarpit,
		selfHosted("slow-banner", truthful, behaviour{bannerWait: 6 * time.Second}),
		selfHosted("early-talker", truthful, behaviour{bannerWait: 2 * time.Second, refuseEarlyTalk: true}),
		selfHosted("few-recipients", truthful, behaviour{maxRcpts: 5}),
		selfHosted("one-domain", truthful, behaviour{oneDomainOnly: true}),
		selfHosted("starttls-required", truthful, behaviour{requireTLS: true}),
		selfHosted("starttls-broken", truthful, behaviour{brokenTLS: true}),
		selfHosted("null-sender-refused", truthful, behaviour{refuseNullSender: true}),
		selfHosted("busy-primary", truthful, behaviour{primaryBusy: true}),
		selfHosted("full", truthful, behaviour{becomes: Full, texts: texts{
			replyFull: "452 4.2.2 <{to}>: Recipient address rejected: mailbox over quota"}}),
		selfHosted("disabled", truthful, behaviour{becomes: Disabled}),
		selfHosted("moved", truthful, behaviour{becomes: Moved}),
		selfHosted("unknown-450", deferAbsent, behaviour{hides: [mailboxStates]bool{Moved: true}, texts: texts{
			replyAbsent: "450 4.1.1 <{to}>: Recipient address rejected: unverified address: user unknown"}}),
	}
}

// refusingServers refuse the client, for any recipient.
func refusingServers() []*Persona {
	blocked := always(Outcome{"UNKNOWN", "blocked"})
	atBanner := selfHosted("blocked-banner", blocked, behaviour{refuseAt: stageBanner, texts: texts{
		replyRefused: "554 5.7.1 {host} Service unavailable; client [{ip}] blocked using zen.spamhaus.org"}})
	atBanner.OneRoute, atBanner.hosts = true, fixedHosts("mx.walled-garden.example")
	atRcpt := selfHosted("blocked-rcpt", blocked, behaviour{refuseAt: stageRcpt, texts: texts{
		replyRefused: "554 5.7.1 Service unavailable; Client host [{ip}] blocked using bl.spamcop.net; see https://www.spamcop.net/bl.shtml?{ip}"}})
	atRcpt.OneRoute, atRcpt.hosts = true, fixedHosts("mx.gated-yard.example")
	return []*Persona{
		atBanner, atRcpt,
		selfHosted("sender-verify", blocked, behaviour{refuseAt: stageRcpt, texts: texts{
			replyRefused: "550-Verification failed for <{from}>\n550-The mail server could not deliver to it: No Such User Here\n550 Sender verify failed"}}),
		selfHosted("sender-refused", blocked, behaviour{refuseAt: stageMail, texts: texts{
			replyRefused: "550 5.1.8 <{from}>: Sender address rejected: Domain not found"}}),
		selfHosted("relay-denied", always(Outcome{"UNKNOWN", "blocked"}, Outcome{"UNKNOWN", "relay_denied"},
			Outcome{"UNKNOWN", "connection_failed"}, Outcome{"UNKNOWN", "temporary_error"}),
			behaviour{refuseAt: stageRcpt, texts: texts{replyRefused: "554 5.7.1 <{to}>: Relay access denied"}}),
		selfHosted("temporary", always(Outcome{"UNKNOWN", "temporary_error"}), behaviour{refuseAt: stageRcpt, texts: texts{
			replyRefused: "451 4.3.0 <{to}>: Temporary lookup failure"}}),
	}
}
