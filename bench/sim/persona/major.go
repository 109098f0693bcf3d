package persona

// Extensions that most servers announce (RFC 2920, 6152, 1870, 2034, 3207).
const (
	extCommon = ExtPipelining | Ext8BitMIME | ExtSize | ExtEnhanced
	extSecure = extCommon | ExtStartTLS
	extModern = extSecure | ExtUTF8
)

// hideAllBut hides every state but absent and present and those named.
func hideAllBut(revealed ...Mailbox) (hides [MailboxStates]bool) {
	hides = [MailboxStates]bool{Full: true, Disabled: true, Moved: true}
	for _, m := range revealed {
		hides[m] = false
	}
	return hides
}

// acceptAllOutcomes is for a provider that accepts any recipient and bounces
// later.
func acceptAllOutcomes() expectation { return always(Outcome{"RISKY", "accept_all_provider"}) }

// catchAllOutcomes is for a site that does the same by its configuration.
func catchAllOutcomes() expectation { return always(Outcome{"RISKY", "catch_all"}) }

// majorProviders are the five providers with most of the world's mailboxes.
func majorProviders() []*Persona {
	return []*Persona{google(), microsoft365(), microsoft365Open(), outlook(), yahoo(), icloud()}
}

func google() *Persona {
	return &Persona{
		Name: "google", Provider: "google", SMTPUTF8: true,
		Limits: Limits{Connections: 5, TransactionsPerConnection: 50, RcptsPerTransaction: 100,
			RcptsPerConnection: 50, RefusalsPerConnection: 10, RefusalsPerHour: 200},
		hosts: googleHosts, expect: truthful,
		Behaviour: Behaviour{
			Extensions: extModern | ExtChunking, OneDomainOnly: true, hides: hideAllBut(Full, Disabled),
			texts: texts{
				ReplyBanner: "220 mx.google.com ESMTP {id} - gsmtp",
				ReplyEhlo:   "mx.google.com at your service, [{ip}]",
				ReplyMail:   "250 2.1.0 OK {id} - gsmtp",
				ReplyRcpt:   "250 2.1.5 OK {id} - gsmtp",
				ReplyAbsent: "550-5.1.1 No account answers to the address that you are writing to. Look\n" +
					"550-5.1.1 for a typing mistake or a blank too many in it. More about this at\n" +
					"550 5.1.1  https://support.google.com/mail/?p=NoSuchUser {id} - gsmtp",
				ReplyFull: "452-4.2.2 The recipient's inbox is out of room at this time. Direct them to\n" +
					"452 4.2.2  https://support.google.com/mail/?p=OverQuotaTemp {id} - gsmtp",
				ReplyDisabled: "550-5.2.1 The email account that you are writing to is disabled. Read more at\n" +
					"550 5.2.1  https://support.google.com/mail/?p=DisabledUser {id} - gsmtp",
				ReplyOneDomain: "451-4.3.0 Multiple destination domains per transaction is unsupported. Please\n" +
					"451 4.3.0 try again. {id} - gsmtp",
				ReplyRelayDenied:    "550-5.7.1 We do not serve the domain of this recipient\n550 5.7.1 Relaying denied {id} - gsmtp",
				ReplyTooManyConns:   "421-4.7.0 Too many sessions from your address, closing connection.\n421 4.7.0 Try again later {id} - gsmtp",
				ReplyTooManyErrors:  "421-4.7.0 Too many bad recipients on this connection, closing it.\n421 4.7.0 Try again later {id} - gsmtp",
				ReplyConnectionUsed: "421-4.7.0 Too many transactions on this connection, closing it.\n421 4.7.0 Try again later {id} - gsmtp",
				ReplyTooFast: "421-4.7.28 An unusual rate of mail has been seen from your IP address {ip}.\n" +
					"421 4.7.28 It is rate limited for now. {id} - gsmtp",
				ReplyBlocked: "421-4.7.28 An unusual rate of unknown recipients has been seen from your IP\n" +
					"421 4.7.28 address {ip}. It is rate limited for now. https://support.google.com/mail/?p=UnsolicitedRateLimitError {id} - gsmtp",
			},
		},
	}
}

// m365Limits returns what Microsoft's hosted service tolerates.
func m365Limits() Limits {
	return Limits{Connections: 5, TransactionsPerConnection: 50, RcptsPerTransaction: 500,
		RcptsPerConnection: 50, RefusalsPerConnection: 10, RefusalsPerHour: 200}
}

func m365Texts() texts {
	return texts{
		ReplyBanner:         "220 AM7EUR03FT0{id}.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready",
		ReplyEhlo:           "AM7EUR03FT019.mail.protection.outlook.com Hello [{ip}]",
		ReplyMail:           "250 2.1.0 Sender OK",
		ReplyRcpt:           "250 2.1.5 Recipient OK",
		ReplyAbsent:         "550 5.4.1 Recipient address rejected: Access denied. [AM7EUR03FT019.eop-EUR03.prod.protection.outlook.com {id}]",
		ReplyRelayDenied:    "550 5.7.64 TenantAttribution; Relay Access Denied [AM7EUR03FT019.eop-EUR03.prod.protection.outlook.com]",
		ReplyTooManyConns:   "421 4.7.0 Too many concurrent connections from [{ip}], try later. [AM7EUR03FT019]",
		ReplyTooManyErrors:  "421 4.7.0 Too many errors on this connection, closing transmission channel [AM7EUR03FT019]",
		ReplyConnectionUsed: "421 4.3.2 Connection has carried enough, closing transmission channel [AM7EUR03FT019]",
		ReplyTooFast:        "451 4.7.500 Server busy. Please try again later from [{ip}]. (S77719) [AM7EUR03FT019]",
		ReplyBlocked:        "550 5.7.606 Access denied, banned sending IP [{ip}]. Ask for its removal at https://sender.office.com/ (AS16012609) [AM7EUR03FT019]",
		ReplyTooManyRcpts:   "452 4.5.3 Too many recipients [AM7EUR03FT019]",
	}
}

// microsoft365 is a tenant with directory-based edge blocking.
func microsoft365() *Persona {
	return &Persona{
		Name: "microsoft365", Provider: "microsoft365", SMTPUTF8: true, Limits: m365Limits(),
		hosts: tenantHost("", ".mail.protection.outlook.com"), expect: truthful,
		Behaviour: Behaviour{Extensions: extModern | ExtChunking, hides: hideAllBut(), texts: m365Texts()},
	}
}

// microsoft365Open is a tenant without it: every recipient is accepted, and bounced later.
func microsoft365Open() *Persona {
	return &Persona{
		Name: "microsoft365-open", Provider: "microsoft365", SMTPUTF8: true, Limits: m365Limits(),
		hosts: tenantHost("", ".mail.protection.outlook.com"), expect: catchAllOutcomes(),
		Behaviour: Behaviour{Extensions: extModern | ExtChunking, AcceptsAll: true, texts: m365Texts()},
	}
}

func outlook() *Persona {
	return &Persona{
		Name: "outlook", Provider: "outlook", SMTPUTF8: true,
		Limits: Limits{Connections: 1, RcptsPerTransaction: 1, RcptsPerConnection: 10,
			RefusalsPerConnection: 2, RefusalsPerHour: 20},
		hosts: tenantHost("", ".olc.protection.outlook.com"), expect: truthful,
		Behaviour: Behaviour{
			Extensions: extModern | ExtChunking, hides: hideAllBut(Full),
			texts: texts{
				ReplyBanner:         "220 DB8EUR05FT0{id}.mail.protection.outlook.com Microsoft ESMTP MAIL Service ready",
				ReplyEhlo:           "DB8EUR05FT031.mail.protection.outlook.com Hello [{ip}]",
				ReplyMail:           "250 2.1.0 Sender OK",
				ReplyRcpt:           "250 2.1.5 Recipient OK",
				ReplyAbsent:         "550 5.5.0 Requested action not taken: mailbox unavailable ({id}). [DB8EUR05FT031.eop-eur05.prod.protection.outlook.com]",
				ReplyFull:           "552 5.2.2 Mailbox of the recipient is over its quota [DB8EUR05FT031]",
				ReplyTooManyRcpts:   "452 4.5.3 Too many recipients (AS780090) [DB8EUR05FT031]",
				ReplyTooManyConns:   "421 RP-001 ({id}) Unfortunately, some connections from {ip} were turned down: there are too many of them at once (S3115)",
				ReplyTooManyErrors:  "421 RP-002 ({id}) Unfortunately, this connection from {ip} named too many recipients that do not exist. Closing it",
				ReplyConnectionUsed: "421 RP-003 ({id}) Enough messages for one connection from {ip}. Closing it",
				ReplyTooFast:        "451 4.7.650 The mail server [{ip}] has been temporarily rate limited due to its reputation (S775)",
				ReplyBlocked:        "550 SC-002 ({id}) Mail from {ip} was refused for namespace mining: it looks for valid addresses without sending to them",
				ReplyRelayDenied:    "550 5.7.1 Unable to relay [DB8EUR05FT031]",
			},
		},
	}
}

func yahoo() *Persona {
	return &Persona{
		Name: "yahoo", Provider: "yahoo",
		Limits: Limits{Connections: 10, TransactionsPerConnection: 20, RcptsPerTransaction: 100},
		hosts:  fixedHosts("mta5.am0.yahoodns.net", "mta6.am0.yahoodns.net", "mta7.am0.yahoodns.net"),
		expect: acceptAllOutcomes(),
		Behaviour: Behaviour{
			Extensions: extSecure, AcceptsAll: true,
			texts: texts{
				ReplyBanner:         "220 mtaproxy{id}.free.mail.ir2.yahoo.com ESMTP ready",
				ReplyEhlo:           "mtaproxy511.free.mail.ir2.yahoo.com",
				ReplyMail:           "250 sender <{from}> ok",
				ReplyRcpt:           "250 recipient <{to}> ok",
				ReplyTooManyConns:   "421 4.7.0 [TSS09] Connections from {ip} are deferred: there are too many at once; see https://postmaster.yahooinc.com/error-codes",
				ReplyConnectionUsed: "421 4.7.0 [TSS11] Messages from {ip} are deferred: too many on one connection; see https://postmaster.yahooinc.com/error-codes",
				ReplyTooFast:        "421 4.7.0 [TSS04] Messages from {ip} are deferred for now for their volume; see https://postmaster.yahooinc.com/error-codes",
				ReplyRelayDenied:    "550 relaying denied for <{to}>",
			},
		},
	}
}

func icloud() *Persona {
	return &Persona{
		Name: "icloud", Provider: "icloud",
		Limits: Limits{Connections: 10, TransactionsPerConnection: 5, RcptsPerTransaction: 100,
			RefusalsPerConnection: 10},
		hosts: fixedHosts("mx01.mail.icloud.com", "mx02.mail.icloud.com"), expect: truthful,
		Behaviour: Behaviour{
			Extensions: extSecure, hides: hideAllBut(Full),
			texts: texts{
				ReplyBanner:         "220 ms11p00im-smtpin0{id}.me.com ESMTP ready",
				ReplyEhlo:           "ms11p00im-smtpin012.me.com",
				ReplyMail:           "250 2.1.0 Ok",
				ReplyRcpt:           "250 2.1.5 Ok",
				ReplyAbsent:         "550 5.1.1 <{to}>: user does not exist",
				ReplyFull:           "552 5.2.2 <{to}>: user has used up the quota",
				ReplyTooManyConns:   "421 4.7.0 {host} Error: too many connections from {ip}",
				ReplyTooManyErrors:  "421 4.7.0 {host} Error: too many errors",
				ReplyConnectionUsed: "421 4.7.1 {host} Error: too many messages on this connection. Try again later - https://support.apple.com/HT204137",
				ReplyBlocked:        "550 5.7.0 Connection blocked, look it up at https://support.proofpoint.com/dnsbl-lookup.cgi?ip={ip}",
				ReplyRelayDenied:    "554 5.7.1 <{to}>: Relay access denied",
			},
		},
	}
}
