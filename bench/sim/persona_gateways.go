package sim

import "time"

// gateways are the filtering services in front of other people's servers.
func gateways() []*Persona {
	return []*Persona{mimecast(), mimecastOpen(), proofpoint(), proofpointOpen(), barracuda(), cisco()}
}

func mimecastLimits() Limits { return Limits{Connections: 20, RcptsPerTransaction: 100} }

func mimecastTexts() texts {
	return texts{
		sayBanner:  "220 eu-smtp-inbound-delivery-1.mimecast.com ESMTP; {id}",
		sayEhlo:    "eu-smtp-inbound-delivery-1.mimecast.com Hello [{ip}]",
		sayMail:    "250 Sender OK [{id}.uk190]",
		sayRcpt:    "250 Recipient OK [{id}.uk190]",
		sayAbsent:  "550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
		sayGrey:    "451 Internal resources are temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451 [{id}.uk190]",
		sayCrowded: "421 Maximum connections exceeded for {ip} - https://community.mimecast.com/docs/DOC-1369#421 [{id}.uk190]",
		sayTooMany: "452 Maximum recipients in this message - https://community.mimecast.com/docs/DOC-1369#452 [{id}.uk190]",
		sayBlocked: "554 Host network not allowed - https://community.mimecast.com/docs/DOC-1369#554 [{id}.uk190]",
		sayRelay:   "550 Rejected by header based Anti-Relay: relay not allowed - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
	}
}

// mimecast greylists by address, sender and recipient for a minute.
func mimecast() *Persona {
	return &Persona{
		Name: "mimecast", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts: fixed("eu-smtp-inbound-1.mimecast.com", "eu-smtp-inbound-2.mimecast.com"), expect: or(candid, greylisted()),
		habit: habit{ext: extSecure | extUTF8, hides: tellsOnly(), grey: greyTriple, greyWait: time.Minute, texts: mimecastTexts()},
	}
}

// mimecastOpen is a tenant without recipient validation.
func mimecastOpen() *Persona {
	return &Persona{
		Name: "mimecast-open", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts: fixed("us-smtp-inbound-1.mimecast.com", "us-smtp-inbound-2.mimecast.com"), expect: catchesAll(),
		habit: habit{ext: extSecure | extUTF8, takesAll: true, texts: mimecastTexts()},
	}
}

// greylisted is what a verifier says before its retries have been let in.
func greylisted() Outcome { return Outcome{"UNKNOWN", "greylisted"} }

func proofpointHosts(domain string) []string {
	return []string{tenants(domain, ".mx1.pphosted.com")[0], tenants(domain, ".mx2.pphosted.com")[0]}
}

func proofpointTexts() texts {
	return texts{
		sayBanner:  "220 mx0a-00{id}.pphosted.com ESMTP mfa-m0{id}",
		sayEhlo:    "mx0a-001b2d01.pphosted.com Hello [{ip}], pleased to meet you",
		sayMail:    "250 2.1.0 Sender ok",
		sayRcpt:    "250 2.1.5 Recipient ok",
		sayAbsent:  "550 5.1.1 User Unknown",
		sayFull:    "552 5.2.2 Mailbox of the user is full",
		sayCrowded: "421 4.3.2 Too many connections from {ip}",
		sayBlocked: "550 5.7.0 Blocked - see https://ipcheck.proofpoint.com/?ip={ip}",
		sayRelay:   "550 5.7.1 Relaying denied",
	}
}

func proofpoint() *Persona {
	return &Persona{
		Name: "proofpoint", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: candid,
		habit: habit{ext: extModern, hides: tellsOnly(Full), texts: proofpointTexts()},
	}
}

// proofpointOpen is a tenant that filters content only.
func proofpointOpen() *Persona {
	return &Persona{
		Name: "proofpoint-open", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: catchesAll(),
		habit: habit{ext: extModern, takesAll: true, texts: proofpointTexts()},
	}
}

func barracuda() *Persona {
	return &Persona{
		Name: "barracuda", Provider: "barracuda",
		Limits: Limits{Connections: 10, TransactionsPerConnection: 15, RcptsPerTransaction: 100},
		hosts: func(domain string) []string {
			return tenants(domain, ".d1a.ess.barracudanetworks.com", ".d1b.ess.barracudanetworks.com")
		},
		expect: candid,
		habit: habit{ext: extSecure, hides: tellsOnly(), texts: texts{
			sayBanner:  "220 mx-inbound1-{id}.us-east-2.ess.aws.cudaops.com ESMTP ({id})",
			sayEhlo:    "mx-inbound12-182.us-east-2.ess.aws.cudaops.com Hello [{ip}], pleased to meet you",
			sayMail:    "250 2.1.0 Sender OK",
			sayRcpt:    "250 2.1.5 Recipient OK",
			sayAbsent:  "550 5.1.1 permanent failure for one or more recipients ({to}:550 cuda_nsu)",
			sayCrowded: "421 4.7.0 Too many connections from your address ({ip})",
			saySpent:   "421 4.7.0 Too many messages on one connection ({ip})",
			sayRelay:   "550 5.7.1 Relaying denied for {to}",
		}},
	}
}

// cisco refuses after 25 unknown recipients in an hour, then takes anything.
func cisco() *Persona {
	return &Persona{
		Name: "cisco", Provider: "cisco",
		Limits: Limits{Connections: 10, RcptsPerTransaction: 50, RefusalsPerHour: 25},
		hosts: func(domain string) []string {
			return tenants(domain, "-mx1.iphmx.com", "-mx2.iphmx.com")
		},
		expect: candid,
		habit: habit{ext: ext8BitMIME | extSize | extStartTLS | extPipelining, hides: tellsOnly(Full), punishment: punishAccept, texts: texts{
			sayBanner:  "220 esa{id}.hc5-1.eu.iphmx.com ESMTP",
			sayEhlo:    "esa4.hc5-1.eu.iphmx.com",
			sayMail:    "250 sender <{from}> ok",
			sayRcpt:    "250 recipient <{to}> ok",
			sayAbsent:  "550 #5.1.0 Address rejected.",
			sayFull:    "552 #5.2.2 Mailbox <{to}> over quota",
			sayCrowded: "421 #4.4.5 Too many connections from your host.",
			sayTooMany: "452 #4.5.3 Too many recipients",
			sayBlocked: "550 #5.7.1 Too many invalid recipients from your host {ip}.",
			sayRelay:   "550 #5.7.1 Unable to relay for {to}",
		}},
	}
}
