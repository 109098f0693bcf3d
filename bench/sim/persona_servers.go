package sim

// postfixLimits are Postfix's defaults: 50 connections of one client (anvil),
// 20 errors (smtpd_hard_error_limit), 1000 recipients.
func postfixLimits() Limits {
	return Limits{Connections: 50, RcptsPerTransaction: 1000, RefusalsPerConnection: 20}
}

func postfixTexts() texts {
	return texts{
		replyBanner:        "220 {host} ESMTP Postfix (Debian/GNU)",
		replyEhlo:          "{host}",
		replyMail:          "250 2.1.0 Ok",
		replyRcpt:          "250 2.1.5 Ok",
		replyAbsent:        "550 5.1.1 <{to}>: Recipient address rejected: User unknown in virtual mailbox table",
		replyFull:          "552 5.2.2 <{to}>: Recipient address rejected: Mailbox quota exceeded",
		replyDisabled:      "550 5.2.1 <{to}>: Recipient address rejected: This account is disabled",
		replyMoved:         "551 5.1.6 <{to}>: Recipient address rejected: User has moved to {user}@elsewhere.example",
		replyRelayDenied:   "554 5.7.1 <{to}>: Relay access denied",
		replyTooManyConns:  "421 4.7.0 {host} Error: too many connections from {ip}",
		replyTooManyErrors: "421 4.7.0 {host} Error: too many errors",
		replyTooManyRcpts:  "452 4.5.3 Error: too many recipients",
		replyTooFast:       "450 4.7.1 Error: too many recipients from {ip}",
		replyGreylisted:    "450 4.2.0 <{to}>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/{domain}.html",
		replyNeedTLS:       "530 5.7.0 Must issue a STARTTLS command first",
		replyNeedsUTF8:     "553 5.6.7 Must declare SMTPUTF8 to permit unicode address",
	}
}

func eximLimits() Limits {
	return Limits{Connections: 20, TransactionsPerConnection: 1000, RcptsPerTransaction: 1000}
}

func eximTexts() texts {
	return texts{
		replyBanner:         "220 {host} ESMTP Exim 4.97 ready",
		replyEhlo:           "{host} Hello client [{ip}]",
		replyMail:           "250 OK",
		replyRcpt:           "250 Accepted",
		replyAbsent:         "550 Unrouteable address",
		replyFull:           "552 mailbox of <{to}> is over quota",
		replyDisabled:       "550 account <{to}> is disabled",
		replyMoved:          "551 <{to}> has moved to {user}@elsewhere.example",
		replyRelayDenied:    "550 relay not permitted",
		replyTooManyConns:   "421 {host}: Too many concurrent SMTP connections; please try again later.",
		replyConnectionUsed: "421 {host}: Too many messages on this connection",
		replyGreylisted:     "451 <{to}> is greylisted, please try again later",
		replyNeedTLS:        "503 STARTTLS command must be used first",
	}
}

// mailServers are the usual mail software with default settings.
func mailServers() []*Persona {
	return []*Persona{postfix(), postfixLDAP(), exim(), sendmail(), qmail(), exchange(), courier()}
}

func postfix() *Persona {
	return &Persona{
		Name: "postfix", SMTPUTF8: true, Limits: postfixLimits(),
		hosts: hostsUnder("mx1", "mx2"), expect: truthful,
		behaviour: behaviour{extensions: extModern | extChunking, texts: postfixTexts()},
	}
}

// postfixLDAP words its refusals by local tables and has no TLS.
func postfixLDAP() *Persona {
	t := postfixTexts()
	t[replyBanner] = "220-{host} ESMTP\n220 No unsolicited mail, please"
	t[replyAbsent] = "550 5.1.1 <{to}>: Recipient address rejected: User unknown in local recipient table"
	return &Persona{
		Name: "postfix-local", Limits: postfixLimits(),
		hosts: hostsUnder("mail"), expect: truthful,
		behaviour: behaviour{extensions: extCommon, texts: t},
	}
}

func exim() *Persona {
	return &Persona{
		Name: "exim", Limits: eximLimits(),
		hosts: hostsUnder("mx"), expect: truthful,
		behaviour: behaviour{extensions: extPipelining | ext8BitMIME | extSize | extStartTLS, texts: eximTexts()},
	}
}

func sendmail() *Persona {
	return &Persona{
		Name: "sendmail", Limits: Limits{Connections: 20, RcptsPerTransaction: 100},
		hosts: hostsUnder("mailhost"), expect: truthful,
		behaviour: behaviour{extensions: extSecure, texts: texts{
			replyBanner:       "220 {host} ESMTP Sendmail 8.17.1/8.17.1; ready",
			replyEhlo:         "{host} Hello [{ip}], pleased to meet you",
			replyMail:         "250 2.1.0 <{from}>... Sender ok",
			replyRcpt:         "250 2.1.5 <{to}>... Recipient ok",
			replyAbsent:       "550 5.1.1 <{to}>... User unknown",
			replyFull:         "552 5.2.2 <{to}>... Mailbox full",
			replyDisabled:     "550 5.2.1 <{to}>... Mailbox disabled for this recipient",
			replyMoved:        "551 5.1.6 <{to}>... User has moved; please try <{user}@elsewhere.example>",
			replyRelayDenied:  "550 5.7.1 <{to}>... Relaying denied",
			replyTooManyRcpts: "452 4.5.3 Too many recipients",
			replyTooManyConns: "421 4.3.2 Too many open connections.",
		}},
	}
}

// qmail writes enhanced codes in brackets at the end of the text, and announces
// few extensions.
func qmail() *Persona {
	return &Persona{
		Name: "qmail", Limits: Limits{Connections: 20},
		hosts: hostsUnder("mx"), expect: truthful,
		behaviour: behaviour{extensions: extPipelining | ext8BitMIME, texts: texts{
			replyBanner:       "220 {host} ESMTP",
			replyEhlo:         "{host}",
			replyMail:         "250 ok",
			replyRcpt:         "250 ok",
			replyAbsent:       "550 sorry, no mailbox here by that name. (#5.1.1 - chkuser)",
			replyFull:         "552 sorry, recipient mailbox is over quota (#5.2.2 - chkuser)",
			replyDisabled:     "550 sorry, this mailbox is disabled (#5.2.1)",
			replyMoved:        "551 sorry, the user has moved to {user}@elsewhere.example (#5.1.6)",
			replyRelayDenied:  "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
			replyTooManyConns: "421 sorry, too many connections from you (#4.3.0)",
		}},
	}
}

func exchange() *Persona {
	return &Persona{
		Name: "exchange", SMTPUTF8: true, Limits: Limits{Connections: 20, RcptsPerTransaction: 200},
		hosts: hostsUnder("owa"), expect: truthful,
		behaviour: behaviour{extensions: extModern | extChunking, hides: hideAllBut(), texts: texts{
			replyBanner:       "220 {host} Microsoft ESMTP MAIL Service ready",
			replyEhlo:         "{host} Hello [{ip}]",
			replyMail:         "250 2.1.0 Sender OK",
			replyRcpt:         "250 2.1.5 Recipient OK",
			replyAbsent:       "550 5.1.10 RESOLVER.ADR.RecipientNotFound; {to} is in no directory of ours",
			replyRelayDenied:  "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
			replyTooManyConns: "421 4.3.2 The maximum number of concurrent connections from {ip} has been reached",
		}},
	}
}

func courier() *Persona {
	return &Persona{
		Name: "courier", Limits: Limits{Connections: 4, RcptsPerTransaction: 100},
		hosts: hostsUnder("mx"), expect: truthful,
		behaviour: behaviour{extensions: extPipelining | ext8BitMIME | extSize | extStartTLS, texts: texts{
			replyBanner:       "220 {host} ESMTP",
			replyEhlo:         "{host} Ok.",
			replyMail:         "250 Ok.",
			replyRcpt:         "250 Ok.",
			replyAbsent:       "550 User <{to}> unknown",
			replyFull:         "552 Mailbox of <{to}> is over quota",
			replyDisabled:     "550 Account <{to}> disabled",
			replyMoved:        "551 <{to}> not local; try {user}@elsewhere.example",
			replyRelayDenied:  "513 Relaying denied.",
			replyTooManyConns: "421 Too many connections from {ip}",
		}},
	}
}
