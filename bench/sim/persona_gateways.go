package sim

import "time"

// gateways are the filtering services in front of their customers' servers.
func gateways() []*Persona {
	return []*Persona{mimecast(), mimecastOpen(), proofpoint(), proofpointOpen(), barracuda(), cisco()}
}

func mimecastLimits() Limits { return Limits{Connections: 20, RcptsPerTransaction: 100} }

func mimecastTexts() texts {
	return texts{
		replyBanner:       "220 eu-smtp-inbound-delivery-1.mimecast.com ESMTP; {id}",
		replyEhlo:         "eu-smtp-inbound-delivery-1.mimecast.com Hello [{ip}]",
		replyMail:         "250 Sender OK [{id}.uk190]",
		replyRcpt:         "250 Recipient OK [{id}.uk190]",
		replyAbsent:       "550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
		replyGreylisted:   "451 Internal resources are temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451 [{id}.uk190]",
		replyTooManyConns: "421 Maximum connections exceeded for {ip} - https://community.mimecast.com/docs/DOC-1369#421 [{id}.uk190]",
		replyTooManyRcpts: "452 Maximum recipients in this message - https://community.mimecast.com/docs/DOC-1369#452 [{id}.uk190]",
		replyBlocked:      "554 Host network not allowed - https://community.mimecast.com/docs/DOC-1369#554 [{id}.uk190]",
		replyRelayDenied:  "550 Rejected by header based Anti-Relay: relay not allowed - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
	}
}

// mimecast greylists by address, sender and recipient for a minute.
func mimecast() *Persona {
	return &Persona{
		Name: "mimecast", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts: fixedHosts("eu-smtp-inbound-1.mimecast.com", "eu-smtp-inbound-2.mimecast.com"), expect: alsoAllow(truthful, greylisted()),
		behaviour: behaviour{extensions: extSecure | extUTF8, hides: hideAllBut(), greylisting: greyTriple, greyWait: time.Minute, texts: mimecastTexts()},
	}
}

// mimecastOpen is a tenant without recipient validation.
func mimecastOpen() *Persona {
	return &Persona{
		Name: "mimecast-open", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts: fixedHosts("us-smtp-inbound-1.mimecast.com", "us-smtp-inbound-2.mimecast.com"), expect: catchAllOutcomes(),
		behaviour: behaviour{extensions: extSecure | extUTF8, acceptsAll: true, texts: mimecastTexts()},
	}
}

// greylisted is the outcome before a retry is accepted.
func greylisted() Outcome { return Outcome{"UNKNOWN", "greylisted"} }

func proofpointHosts(domain string) []string {
	return []string{tenantHosts(domain, ".mx1.pphosted.com")[0], tenantHosts(domain, ".mx2.pphosted.com")[0]}
}

func proofpointTexts() texts {
	return texts{
		replyBanner:       "220 mx0a-00{id}.pphosted.com ESMTP mfa-m0{id}",
		replyEhlo:         "mx0a-001b2d01.pphosted.com Hello [{ip}], pleased to meet you",
		replyMail:         "250 2.1.0 Sender ok",
		replyRcpt:         "250 2.1.5 Recipient ok",
		replyAbsent:       "550 5.1.1 User Unknown",
		replyFull:         "552 5.2.2 Mailbox of the user is full",
		replyTooManyConns: "421 4.3.2 Too many connections from {ip}",
		replyBlocked:      "550 5.7.0 Blocked - see https://ipcheck.proofpoint.com/?ip={ip}",
		replyRelayDenied:  "550 5.7.1 Relaying denied",
	}
}

func proofpoint() *Persona {
	return &Persona{
		Name: "proofpoint", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: truthful,
		behaviour: behaviour{extensions: extModern, hides: hideAllBut(Full), texts: proofpointTexts()},
	}
}

// proofpointOpen is a tenant that filters content only.
func proofpointOpen() *Persona {
	return &Persona{
		Name: "proofpoint-open", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: catchAllOutcomes(),
		behaviour: behaviour{extensions: extModern, acceptsAll: true, texts: proofpointTexts()},
	}
}

func barracuda() *Persona {
	return &Persona{
		Name: "barracuda", Provider: "barracuda",
		Limits: Limits{Connections: 10, TransactionsPerConnection: 15, RcptsPerTransaction: 100},
		hosts: func(domain string) []string {
			return tenantHosts(domain, ".d1a.ess.barracudanetworks.com", ".d1b.ess.barracudanetworks.com")
		},
		expect: truthful,
		behaviour: behaviour{extensions: extSecure, hides: hideAllBut(), texts: texts{
			replyBanner:         "220 mx-inbound1-{id}.us-east-2.ess.aws.cudaops.com ESMTP ({id})",
			replyEhlo:           "mx-inbound12-182.us-east-2.ess.aws.cudaops.com Hello [{ip}], pleased to meet you",
			replyMail:           "250 2.1.0 Sender OK",
			replyRcpt:           "250 2.1.5 Recipient OK",
			replyAbsent:         "550 5.1.1 permanent failure for one or more recipients ({to}:550 cuda_nsu)",
			replyTooManyConns:   "421 4.7.0 Too many connections from your address ({ip})",
			replyConnectionUsed: "421 4.7.0 Too many messages on one connection ({ip})",
			replyRelayDenied:    "550 5.7.1 Relaying denied for {to}",
		}},
	}
}

// cisco refuses after 25 unknown recipients in an hour, then accepts every recipient.
func cisco() *Persona {
	return &Persona{
		Name: "cisco", Provider: "cisco",
		Limits: Limits{Connections: 10, RcptsPerTransaction: 50, RefusalsPerHour: 25},
		hosts: func(domain string) []string {
			return tenantHosts(domain, "-mx1.iphmx.com", "-mx2.iphmx.com")
		},
		expect: truthful,
		behaviour: behaviour{extensions: ext8BitMIME | extSize | extStartTLS | extPipelining, hides: hideAllBut(Full), throttleMode: throttleAcceptAll, texts: texts{
			replyBanner:       "220 esa{id}.hc5-1.eu.iphmx.com ESMTP",
			replyEhlo:         "esa4.hc5-1.eu.iphmx.com",
			replyMail:         "250 sender <{from}> ok",
			replyRcpt:         "250 recipient <{to}> ok",
			replyAbsent:       "550 #5.1.0 Address rejected.",
			replyFull:         "552 #5.2.2 Mailbox <{to}> over quota",
			replyTooManyConns: "421 #4.4.5 Too many connections from your host.",
			replyTooManyRcpts: "452 #4.5.3 Too many recipients",
			replyBlocked:      "550 #5.7.1 Too many invalid recipients from your host {ip}.",
			replyRelayDenied:  "550 #5.7.1 Unable to relay for {to}",
		}},
	}
}
