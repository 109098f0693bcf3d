package persona

import "time"

// gateways are the filtering services in front of their customers' servers.
func gateways() []*Persona {
	return []*Persona{mimecast(), mimecastOpen(), proofpoint(), proofpointOpen(), barracuda(), cisco()}
}

func mimecastLimits() Limits { return Limits{Connections: 20, RcptsPerTransaction: 100} }

func mimecastTexts() texts {
	return texts{
		ReplyBanner:       "220 eu-smtp-inbound-delivery-1.mimecast.com ESMTP; {id}",
		ReplyEhlo:         "eu-smtp-inbound-delivery-1.mimecast.com Hello [{ip}]",
		ReplyMail:         "250 Sender OK [{id}.uk190]",
		ReplyRcpt:         "250 Recipient OK [{id}.uk190]",
		ReplyAbsent:       "550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
		ReplyGreylisted:   "451 Internal resources are temporarily unavailable - https://community.mimecast.com/docs/DOC-1369#451 [{id}.uk190]",
		ReplyTooManyConns: "421 Maximum connections exceeded for {ip} - https://community.mimecast.com/docs/DOC-1369#421 [{id}.uk190]",
		ReplyTooManyRcpts: "452 Maximum recipients in this message - https://community.mimecast.com/docs/DOC-1369#452 [{id}.uk190]",
		ReplyBlocked:      "554 Host network not allowed - https://community.mimecast.com/docs/DOC-1369#554 [{id}.uk190]",
		ReplyRelayDenied:  "550 Rejected by header based Anti-Relay: relay not allowed - https://community.mimecast.com/docs/DOC-1369#550 [{id}.uk190]",
	}
}

// mimecast greylists by address, sender and recipient for a minute.
func mimecast() *Persona {
	return &Persona{
		Name: "mimecast", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts:  fixedHosts("eu-smtp-inbound-1.mimecast.com", "eu-smtp-inbound-2.mimecast.com"),
		expect: alsoAllow(truthful, greylisted()),
		Behaviour: Behaviour{Extensions: extSecure | ExtUTF8, hides: hideAllBut(), Greylisting: GreyTriple,
			GreyWait: time.Minute, texts: mimecastTexts()},
	}
}

// mimecastOpen is a tenant without recipient validation.
func mimecastOpen() *Persona {
	return &Persona{
		Name: "mimecast-open", Provider: "mimecast", SMTPUTF8: true, Limits: mimecastLimits(),
		hosts:     fixedHosts("us-smtp-inbound-1.mimecast.com", "us-smtp-inbound-2.mimecast.com"),
		expect:    catchAllOutcomes(),
		Behaviour: Behaviour{Extensions: extSecure | ExtUTF8, AcceptsAll: true, texts: mimecastTexts()},
	}
}

// greylisted is the outcome before a retry is accepted.
func greylisted() Outcome { return Outcome{"UNKNOWN", "greylisted"} }

func proofpointHosts(domain string) []string {
	return []string{tenantHosts(domain, ".mx1.pphosted.com")[0], tenantHosts(domain, ".mx2.pphosted.com")[0]}
}

func proofpointTexts() texts {
	return texts{
		ReplyBanner:       "220 mx0a-00{id}.pphosted.com ESMTP mfa-m0{id}",
		ReplyEhlo:         "mx0a-001b2d01.pphosted.com Hello [{ip}], pleased to meet you",
		ReplyMail:         "250 2.1.0 Sender ok",
		ReplyRcpt:         "250 2.1.5 Recipient ok",
		ReplyAbsent:       "550 5.1.1 User Unknown",
		ReplyFull:         "552 5.2.2 Mailbox of the user is full",
		ReplyTooManyConns: "421 4.3.2 Too many connections from {ip}",
		ReplyBlocked:      "550 5.7.0 Blocked - see https://ipcheck.proofpoint.com/?ip={ip}",
		ReplyRelayDenied:  "550 5.7.1 Relaying denied",
	}
}

func proofpoint() *Persona {
	return &Persona{
		Name: "proofpoint", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: truthful,
		Behaviour: Behaviour{Extensions: extModern, hides: hideAllBut(Full), texts: proofpointTexts()},
	}
}

// proofpointOpen is a tenant that filters content only.
func proofpointOpen() *Persona {
	return &Persona{
		Name: "proofpoint-open", Provider: "proofpoint", SMTPUTF8: true,
		Limits: Limits{Connections: 20, RcptsPerTransaction: 500},
		hosts:  proofpointHosts, expect: catchAllOutcomes(),
		Behaviour: Behaviour{Extensions: extModern, AcceptsAll: true, texts: proofpointTexts()},
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
		Behaviour: Behaviour{Extensions: extSecure, hides: hideAllBut(), texts: texts{
			ReplyBanner:         "220 mx-inbound1-{id}.us-east-2.ess.aws.cudaops.com ESMTP ({id})",
			ReplyEhlo:           "mx-inbound12-182.us-east-2.ess.aws.cudaops.com Hello [{ip}], pleased to meet you",
			ReplyMail:           "250 2.1.0 Sender OK",
			ReplyRcpt:           "250 2.1.5 Recipient OK",
			ReplyAbsent:         "550 5.1.1 permanent failure for one or more recipients ({to}:550 cuda_nsu)",
			ReplyTooManyConns:   "421 4.7.0 Too many connections from your address ({ip})",
			ReplyConnectionUsed: "421 4.7.0 Too many messages on one connection ({ip})",
			ReplyRelayDenied:    "550 5.7.1 Relaying denied for {to}",
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
		Behaviour: Behaviour{Extensions: Ext8BitMIME | ExtSize | ExtStartTLS | ExtPipelining, hides: hideAllBut(Full),
			ThrottleMode: ThrottleAcceptAll, texts: texts{
				ReplyBanner:       "220 esa{id}.hc5-1.eu.iphmx.com ESMTP",
				ReplyEhlo:         "esa4.hc5-1.eu.iphmx.com",
				ReplyMail:         "250 sender <{from}> ok",
				ReplyRcpt:         "250 recipient <{to}> ok",
				ReplyAbsent:       "550 #5.1.0 Address rejected.",
				ReplyFull:         "552 #5.2.2 Mailbox <{to}> over quota",
				ReplyTooManyConns: "421 #4.4.5 Too many connections from your host.",
				ReplyTooManyRcpts: "452 #4.5.3 Too many recipients",
				ReplyBlocked:      "550 #5.7.1 Too many invalid recipients from your host {ip}.",
				ReplyRelayDenied:  "550 #5.7.1 Unable to relay for {to}",
			}},
	}
}
