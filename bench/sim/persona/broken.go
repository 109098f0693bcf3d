package persona

// brokenServers break the SMTP protocol; their replies say nothing about any
// mailbox.
func brokenServers() []*Persona {
	protocol := Outcome{"UNKNOWN", "protocol_error"}
	failed := Outcome{"UNKNOWN", "connection_failed"}
	timeout := Outcome{"UNKNOWN", "timeout"}
	temporary := Outcome{"UNKNOWN", "temporary_error"}
	return []*Persona{
		broken("garbage", FaultGarbage, always(protocol, failed)),
		slow(broken("endless", FaultEndless, always(protocol, timeout, failed))),
		broken("out-of-step", FaultExtraReply, always(protocol)),
		broken("mid-close", FaultMidClose, alsoAllow(truthful, failed, protocol, temporary)),
		broken("reset", FaultReset, always(failed, protocol, temporary)),
		slow(broken("silent", FaultSilent, always(timeout, failed))),
		slow(broken("mute", FaultUnresponsive, always(timeout, failed))),
	}
}

func broken(name string, f Fault, expect expectation) *Persona {
	p := selfHosted(name, expect, Behaviour{Fault: f})
	p.hosts = hostsUnder("mx")
	if f == FaultExtraReply {
		// Without PIPELINING a client can notice a reply that comes before its
		// command; with it no client could.
		p.Behaviour.Extensions = Ext8BitMIME
	}
	return p
}

func slow(p *Persona) *Persona {
	p.Slow = true
	return p
}

// oddRoutes have unusual DNS records or dead hosts; their living hosts behave
// like Postfix.
func oddRoutes() []*Persona {
	unroutable := always(Outcome{"INVALID", "unroutable_mx"})
	dnsError := always(Outcome{"UNKNOWN", "dns_error"})
	return []*Persona{
		odd("ipv6-only", IPv6Only, alsoAllow(truthful, Outcome{"UNKNOWN", "connection_failed"}), hostsUnder("mx")),
		odd("dead-primary", DeadPrimary, truthful, hostsUnder("mx1", "mx2")),
		withAcceptAll(odd("dead-primary-accept-all", DeadPrimary, catchAllOutcomes(), hostsUnder("mx1", "mx2"))),
		odd("unroutable", Unroutable, unroutable, hostsUnder("mx1", "mx2")),
		odd("dangling-mx", DanglingMX, unroutable, hostsUnder("mx1", "mx2")),
		odd("cname-host", CNAMEHost, truthful, hostsUnder("mx1", "mx2")),
		odd("cname-domain", CNAMEDomain, truthful, hostsUnder("mx1", "mx2")),
		odd("cname-loop", CNAMELoop, dnsError, nil),
		odd("servfail", ServFail, dnsError, nil),
		odd("servfail-host", HostServFail, dnsError, hostsUnder("mx1", "mx2")),
		odd("truncated-udp", TruncatedUDP, truthful, hostsUnder("mx1", "mx2")),
		odd("null-mx", NullMX, always(Outcome{"INVALID", "null_mx"}), nil),
		odd("implicit-mx", ImplicitMX, truthful, nil),
		odd("nxdomain", NXDomain, always(Outcome{"INVALID", "domain_not_found"}), nil),
		odd("no-mail-server", NoRecords, always(Outcome{"INVALID", "no_mail_server"}), nil),
	}
}

func odd(name string, o Oddity, expect expectation, hosts func(string) []string) *Persona {
	p := selfHosted(name, expect, Behaviour{})
	p.Oddity, p.hosts = o, hosts
	return p
}

func withAcceptAll(p *Persona) *Persona {
	p.Behaviour.AcceptsAll = true
	return p
}
