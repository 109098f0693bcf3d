package sim

// brokenServers do not speak SMTP as they should; nothing follows from what
// they say about any mailbox.
func brokenServers() []*Persona {
	protocol := Outcome{"UNKNOWN", "protocol_error"}
	failed := Outcome{"UNKNOWN", "connection_failed"}
	timeout := Outcome{"UNKNOWN", "timeout"}
	temporary := Outcome{"UNKNOWN", "temporary_error"}
	return []*Persona{
		broken("garbage", faultGarbage, always(protocol, failed)),
		slow(broken("endless", faultEndless, always(protocol, timeout, failed))),
		broken("out-of-step", faultOutOfStep, always(protocol)),
		broken("mid-close", faultMidClose, or(candid, failed, protocol, temporary)),
		broken("reset", faultReset, always(failed, protocol, temporary)),
		slow(broken("silent", faultSilent, always(timeout, failed))),
		slow(broken("mute", faultMute, always(timeout, failed))),
	}
}

func broken(name string, f fault, expect expectation) *Persona {
	p := house(name, expect, habit{fault: f})
	p.hosts = under("mx")
	if f == faultOutOfStep {
		// Without PIPELINING a reply that comes before its command is there to
		// be noticed; with it no client could tell.
		p.habit.ext = ext8BitMIME
	}
	return p
}

func slow(p *Persona) *Persona {
	p.Slow = true
	return p
}

// routes are odd in the DNS or in which of their hosts are alive; the hosts
// that are speak as any Postfix does.
func routes() []*Persona {
	unroutable := always(Outcome{"INVALID", "unroutable_mx"})
	dnsError := always(Outcome{"UNKNOWN", "dns_error"})
	return []*Persona{
		odd("ipv6-only", IPv6Only, or(candid, Outcome{"UNKNOWN", "connection_failed"}), under("mx")),
		odd("dead-primary", DeadPrimary, candid, under("mx1", "mx2")),
		takingAll(odd("dead-primary-accept-all", DeadPrimary, catchesAll(), under("mx1", "mx2"))),
		odd("unroutable", Unroutable, unroutable, under("mx1", "mx2")),
		odd("dangling-mx", DanglingMX, unroutable, under("mx1", "mx2")),
		odd("cname-host", CNAMEHost, candid, under("mx1", "mx2")),
		odd("cname-domain", CNAMEDomain, candid, under("mx1", "mx2")),
		odd("cname-loop", CNAMELoop, dnsError, nil),
		odd("servfail", ServFail, dnsError, nil),
		odd("servfail-host", HostServFail, dnsError, under("mx1", "mx2")),
		odd("truncated-udp", TruncatedUDP, candid, under("mx1", "mx2")),
		odd("null-mx", NullMX, always(Outcome{"INVALID", "null_mx"}), nil),
		odd("implicit-mx", ImplicitMX, candid, nil),
		odd("nxdomain", NXDomain, always(Outcome{"INVALID", "domain_not_found"}), nil),
		odd("no-mail-server", NoRecords, always(Outcome{"INVALID", "no_mail_server"}), nil),
	}
}

func odd(name string, o Oddity, expect expectation, hosts func(string) []string) *Persona {
	p := house(name, expect, habit{})
	p.Oddity, p.hosts = o, hosts
	return p
}

func takingAll(p *Persona) *Persona {
	p.habit.takesAll = true
	return p
}
