package sim

import "time"

// house is a self-hosted Postfix with one habit of its own: the common ground
// of the personas below.
func house(name string, expect expectation, h habit) *Persona {
	t := postfixTexts()
	for s, text := range h.texts {
		t[s] = text
	}
	h.texts = t
	if h.ext == 0 {
		h.ext = extSecure
	}
	return &Persona{
		Name: name, Limits: postfixLimits(), SMTPUTF8: h.ext&extUTF8 != 0,
		hosts: under("mx1", "mx2"), expect: expect, habit: h,
	}
}

// strict tolerates what a stranger should dare and nothing more; of rates,
// twice that, as a client may rest for a minute and then make up for it.
func strict() *Persona {
	p := house("strict", candid, habit{})
	p.Limits = Limits{Connections: 2, ConnectionsPerMinute: 20, RcptsPerMinute: 120, RcptsPerConnection: 20, RefusalsPerConnection: 5, RefusalsPerHour: 20}
	p.hosts = under("mx")
	return p
}

// hardErrors disconnects at the sixth refusal.
func hardErrors() *Persona {
	p := house("hard-error-limit", candid, habit{})
	p.Limits = Limits{Connections: 10, RefusalsPerConnection: 5}
	p.hosts = under("mx")
	return p
}

// crowded takes two connections of a client.
func crowded() *Persona {
	p := house("too-many-connections", candid, habit{})
	p.Limits.Connections = 2
	p.hosts = under("mx")
	return p
}

// policies answer truly in the end, if asked as they wish.
func policies() []*Persona {
	tarpit := house("tarpit", or(candid, Outcome{"UNKNOWN", "timeout"}), habit{rcptWait: 15 * time.Second})
	tarpit.Slow = true
	return []*Persona{
		strict(), hardErrors(), crowded(),
		house("greylist-triple", or(candid, greylisted()), habit{grey: greyTriple, greyWait: 5 * time.Minute}),
		house("greylist-address", or(candid, greylisted()), habit{grey: greyAddress, greyWait: time.Minute,
			texts: texts{sayGrey: "451 4.7.1 Greylisting in action, please come back in a minute"}}),
		house("catch-all", catchesAll(), habit{takesAll: true, ext: extModern}),
		house("accept-all", catchesAll(), habit{takesAll: true, ext: ext8BitMIME, texts: texts{
			sayRcpt: "250 OK, will be sorted later"}}),
		house("catch-all-picky", picky, habit{picky: true, hides: [mailboxes]bool{Moved: true}}),
		tarpit,
		house("slow-banner", candid, habit{bannerWait: 6 * time.Second}),
		house("early-talker", candid, habit{bannerWait: 2 * time.Second, watchEarly: true}),
		house("few-recipients", candid, habit{maxRcpts: 5}),
		house("one-domain", candid, habit{oneDomain: true}),
		house("starttls-required", candid, habit{needTLS: true}),
		house("starttls-broken", candid, habit{brokenTLS: true}),
		house("null-sender-refused", candid, habit{noNull: true}),
		house("busy-primary", candid, habit{busyFirst: true}),
		house("full", candid, habit{becomes: Full, texts: texts{
			sayFull: "452 4.2.2 <{to}>: Recipient address rejected: mailbox over quota"}}),
		house("disabled", candid, habit{becomes: Disabled}),
		house("moved", candid, habit{becomes: Moved}),
		house("unknown-450", undecided, habit{hides: [mailboxes]bool{Moved: true}, texts: texts{
			sayAbsent: "450 4.1.1 <{to}>: Recipient address rejected: unverified address: user unknown"}}),
	}
}

// refusers turn the client away, whichever the recipient is.
func refusers() []*Persona {
	blocked := always(Outcome{"UNKNOWN", "blocked"})
	atBanner := house("blocked-banner", blocked, habit{refuseAt: stageBanner, texts: texts{
		sayRefused: "554 5.7.1 {host} Service unavailable; client [{ip}] blocked using zen.spamhaus.org"}})
	atBanner.OneRoute, atBanner.hosts = true, fixed("mx.walled-garden.example")
	atRcpt := house("blocked-rcpt", blocked, habit{refuseAt: stageRcpt, texts: texts{
		sayRefused: "554 5.7.1 Service unavailable; Client host [{ip}] blocked using bl.spamcop.net; see https://www.spamcop.net/bl.shtml?{ip}"}})
	atRcpt.OneRoute, atRcpt.hosts = true, fixed("mx.gated-yard.example")
	return []*Persona{
		atBanner, atRcpt,
		house("sender-verify", blocked, habit{refuseAt: stageRcpt, texts: texts{
			sayRefused: "550-Verification failed for <{from}>\n550-The mail server could not deliver to it: No Such User Here\n550 Sender verify failed"}}),
		house("sender-refused", blocked, habit{refuseAt: stageMail, texts: texts{
			sayRefused: "550 5.1.8 <{from}>: Sender address rejected: Domain not found"}}),
		house("relay-denied", always(Outcome{"UNKNOWN", "blocked"}, Outcome{"UNKNOWN", "relay_denied"},
			Outcome{"UNKNOWN", "connection_failed"}, Outcome{"UNKNOWN", "temporary_error"}),
			habit{refuseAt: stageRcpt, texts: texts{sayRefused: "554 5.7.1 <{to}>: Relay access denied"}}),
		house("temporary", always(Outcome{"UNKNOWN", "temporary_error"}), habit{refuseAt: stageRcpt, texts: texts{
			sayRefused: "451 4.3.0 <{to}>: Temporary lookup failure"}}),
	}
}
