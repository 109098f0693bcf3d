package persona

import "time"

// selfHosted is a self-hosted Postfix with one behaviour of its own, the base of
// the personas below.
func selfHosted(name string, expect expectation, h Behaviour) *Persona {
	t := postfixTexts()
	for s, text := range h.texts {
		t[s] = text
	}
	h.texts = t
	if h.Extensions == 0 {
		h.Extensions = extSecure
	}
	return &Persona{
		Name: name, Limits: postfixLimits(), SMTPUTF8: h.Extensions&ExtUTF8 != 0,
		hosts: hostsUnder("mx1", "mx2"), expect: expect, Behaviour: h,
	}
}

// strict tolerates exactly the default budgets; for rates twice as much, since a
// client may pause for a minute and then catch up.
func strict() *Persona {
	p := selfHosted("strict", truthful, Behaviour{})
	p.Limits = Limits{Connections: 2, ConnectionsPerMinute: 20, RcptsPerMinute: 120, RcptsPerConnection: 20,
		RefusalsPerConnection: 5, RefusalsPerHour: 20}
	p.hosts = hostsUnder("mx")
	return p
}

// hardErrorLimit disconnects at the sixth refusal.
func hardErrorLimit() *Persona {
	p := selfHosted("hard-error-limit", truthful, Behaviour{})
	p.Limits = Limits{Connections: 10, RefusalsPerConnection: 5}
	p.hosts = hostsUnder("mx")
	return p
}

// fewConnections accepts two connections of a client.
func fewConnections() *Persona {
	p := selfHosted("too-many-connections", truthful, Behaviour{})
	p.Limits.Connections = 2
	p.hosts = hostsUnder("mx")
	return p
}

// policyServers answer truthfully to a client that follows their policy.
func policyServers() []*Persona {
	tarpit := selfHosted("tarpit", alsoAllow(truthful, Outcome{"UNKNOWN", "timeout"}),
		Behaviour{RcptWait: 15 * time.Second})
	tarpit.Slow = true
	return []*Persona{
		strict(), hardErrorLimit(), fewConnections(),
		selfHosted("greylist-triple", alsoAllow(truthful, greylisted()),
			Behaviour{Greylisting: GreyTriple, GreyWait: 5 * time.Minute}),
		selfHosted("greylist-address", alsoAllow(truthful, greylisted()),
			Behaviour{Greylisting: GreyAddress, GreyWait: time.Minute,
				texts: texts{ReplyGreylisted: "451 4.7.1 Greylisting in action, please come back in a minute"}}),
		selfHosted("catch-all", catchAllOutcomes(), Behaviour{AcceptsAll: true, Extensions: extModern}),
		selfHosted("accept-all", catchAllOutcomes(), Behaviour{AcceptsAll: true, Extensions: Ext8BitMIME, texts: texts{
			ReplyRcpt: "250 OK, will be sorted later"}}),
		selfHosted("catch-all-picky", acceptMost, Behaviour{AcceptsMost: true,
			hides: [MailboxStates]bool{Moved: true}}),
		tarpit,
		selfHosted("slow-banner", truthful, Behaviour{BannerWait: 6 * time.Second}),
		selfHosted("early-talker", truthful, Behaviour{BannerWait: 2 * time.Second, RefuseEarlyTalk: true}),
		selfHosted("few-recipients", truthful, Behaviour{MaxRcpts: 5}),
		selfHosted("one-domain", truthful, Behaviour{OneDomainOnly: true}),
		selfHosted("starttls-required", truthful, Behaviour{RequireTLS: true}),
		selfHosted("starttls-broken", truthful, Behaviour{BrokenTLS: true}),
		selfHosted("null-sender-refused", truthful, Behaviour{RefuseNullSender: true}),
		selfHosted("busy-primary", truthful, Behaviour{PrimaryBusy: true}),
		selfHosted("full", truthful, Behaviour{becomes: Full, texts: texts{
			ReplyFull: "452 4.2.2 <{to}>: Recipient address rejected: mailbox over quota"}}),
		selfHosted("disabled", truthful, Behaviour{becomes: Disabled}),
		selfHosted("moved", truthful, Behaviour{becomes: Moved}),
		selfHosted("unknown-450", deferAbsent, Behaviour{hides: [MailboxStates]bool{Moved: true}, texts: texts{
			ReplyAbsent: "450 4.1.1 <{to}>: Recipient address rejected: unverified address: user unknown"}}),
	}
}

// refusingServers refuse the client, for any recipient.
func refusingServers() []*Persona {
	blocked := always(Outcome{"UNKNOWN", "blocked"})
	atBanner := selfHosted("blocked-banner", blocked, Behaviour{RefuseAt: StageBanner, texts: texts{
		ReplyRefused: "554 5.7.1 {host} Service unavailable; client [{ip}] blocked using zen.spamhaus.org"}})
	atBanner.OneRoute, atBanner.hosts = true, fixedHosts("mx.walled-garden.example")
	atRcpt := selfHosted("blocked-rcpt", blocked, Behaviour{RefuseAt: StageRcpt, texts: texts{
		ReplyRefused: "554 5.7.1 Service unavailable; Client host [{ip}] blocked using bl.spamcop.net; see https://www.spamcop.net/bl.shtml?{ip}"}})
	atRcpt.OneRoute, atRcpt.hosts = true, fixedHosts("mx.gated-yard.example")
	return []*Persona{
		atBanner, atRcpt,
		selfHosted("sender-verify", blocked, Behaviour{RefuseAt: StageRcpt, texts: texts{
			ReplyRefused: "550-Verification failed for <{from}>\n550-The mail server could not deliver to it: No Such User Here\n550 Sender verify failed"}}),
		selfHosted("sender-refused", blocked, Behaviour{RefuseAt: StageMail, texts: texts{
			ReplyRefused: "550 5.1.8 <{from}>: Sender address rejected: Domain not found"}}),
		selfHosted("relay-denied", always(Outcome{"UNKNOWN", "blocked"}, Outcome{"UNKNOWN", "relay_denied"},
			Outcome{"UNKNOWN", "connection_failed"}, Outcome{"UNKNOWN", "temporary_error"}),
			Behaviour{RefuseAt: StageRcpt, texts: texts{ReplyRefused: "554 5.7.1 <{to}>: Relay access denied"}}),
		selfHosted("temporary", always(Outcome{"UNKNOWN", "temporary_error"}),
			Behaviour{RefuseAt: StageRcpt, texts: texts{
				ReplyRefused: "451 4.3.0 <{to}>: Temporary lookup failure"}}),
	}
}
