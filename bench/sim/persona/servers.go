package persona

// postfixLimits are Postfix's defaults: 50 connections of one client (anvil),
// 20 errors (smtpd_hard_error_limit), 1000 recipients.
func postfixLimits() Limits {
	return Limits{Connections: 50, RcptsPerTransaction: 1000, RefusalsPerConnection: 20}
}

func postfixTexts() texts {
	return texts{
		ReplyBanner:        "220 {host} ESMTP Postfix (Debian/GNU)",
		ReplyEhlo:          "{host}",
		ReplyMail:          "250 2.1.0 Ok",
		ReplyRcpt:          "250 2.1.5 Ok",
		ReplyAbsent:        "550 5.1.1 <{to}>: Recipient address rejected: User unknown in virtual mailbox table",
		ReplyFull:          "552 5.2.2 <{to}>: Recipient address rejected: Mailbox quota exceeded",
		ReplyDisabled:      "550 5.2.1 <{to}>: Recipient address rejected: This account is disabled",
		ReplyMoved:         "551 5.1.6 <{to}>: Recipient address rejected: User has moved to {user}@elsewhere.example",
		ReplyRelayDenied:   "554 5.7.1 <{to}>: Relay access denied",
		ReplyTooManyConns:  "421 4.7.0 {host} Error: too many connections from {ip}",
		ReplyTooManyErrors: "421 4.7.0 {host} Error: too many errors",
		ReplyTooManyRcpts:  "452 4.5.3 Error: too many recipients",
		ReplyTooFast:       "450 4.7.1 Error: too many recipients from {ip}",
		ReplyGreylisted:    "450 4.2.0 <{to}>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/{domain}.html",
		ReplyNeedTLS:       "530 5.7.0 Must issue a STARTTLS command first",
		ReplyNeedsUTF8:     "553 5.6.7 Must declare SMTPUTF8 to permit unicode address",
	}
}

func eximLimits() Limits {
	return Limits{Connections: 20, TransactionsPerConnection: 1000, RcptsPerTransaction: 1000}
}

func eximTexts() texts {
	return texts{
		ReplyBanner:         "220 {host} ESMTP Exim 4.97 ready",
		ReplyEhlo:           "{host} Hello client [{ip}]",
		ReplyMail:           "250 OK",
		ReplyRcpt:           "250 Accepted",
		ReplyAbsent:         "550 Unrouteable address",
		ReplyFull:           "552 mailbox of <{to}> is over quota",
		ReplyDisabled:       "550 account <{to}> is disabled",
		ReplyMoved:          "551 <{to}> has moved to {user}@elsewhere.example",
		ReplyRelayDenied:    "550 relay not permitted",
		ReplyTooManyConns:   "421 {host}: Too many concurrent SMTP connections; please try again later.",
		ReplyConnectionUsed: "421 {host}: Too many messages on this connection",
		ReplyGreylisted:     "451 <{to}> is greylisted, please try again later",
		ReplyNeedTLS:        "503 STARTTLS command must be used first",
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
		Behaviour: Behaviour{Extensions: extModern | ExtChunking, texts: postfixTexts()},
	}
}

// postfixLDAP words its refusals by local tables and has no TLS.
func postfixLDAP() *Persona {
	t := postfixTexts()
	t[ReplyBanner] = "220-{host} ESMTP\n220 No unsolicited mail, please"
	t[ReplyAbsent] = "550 5.1.1 <{to}>: Recipient address rejected: User unknown in local recipient table"
	return &Persona{
		Name: "postfix-local", Limits: postfixLimits(),
		hosts: hostsUnder("mail"), expect: truthful,
		Behaviour: Behaviour{Extensions: extCommon, texts: t},
	}
}

func exim() *Persona {
	return &Persona{
		Name: "exim", Limits: eximLimits(),
		hosts: hostsUnder("mx"), expect: truthful,
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME | ExtSize | ExtStartTLS, texts: eximTexts()},
	}
}

func sendmail() *Persona {
	return &Persona{
		Name: "sendmail", Limits: Limits{Connections: 20, RcptsPerTransaction: 100},
		hosts: hostsUnder("mailhost"), expect: truthful,
		Behaviour: Behaviour{Extensions: extSecure, texts: texts{
			ReplyBanner:       "220 {host} ESMTP Sendmail 8.17.1/8.17.1; ready",
			ReplyEhlo:         "{host} Hello [{ip}], pleased to meet you",
			ReplyMail:         "250 2.1.0 <{from}>... Sender ok",
			ReplyRcpt:         "250 2.1.5 <{to}>... Recipient ok",
			ReplyAbsent:       "550 5.1.1 <{to}>... User unknown",
			ReplyFull:         "552 5.2.2 <{to}>... Mailbox full",
			ReplyDisabled:     "550 5.2.1 <{to}>... Mailbox disabled for this recipient",
			ReplyMoved:        "551 5.1.6 <{to}>... User has moved; please try <{user}@elsewhere.example>",
			ReplyRelayDenied:  "550 5.7.1 <{to}>... Relaying denied",
			ReplyTooManyRcpts: "452 4.5.3 Too many recipients",
			ReplyTooManyConns: "421 4.3.2 Too many open connections.",
		}},
	}
}

// qmail writes enhanced codes in brackets at the end of the text, and announces
// few extensions.
func qmail() *Persona {
	return &Persona{
		Name: "qmail", Limits: Limits{Connections: 20},
		hosts: hostsUnder("mx"), expect: truthful,
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME, texts: texts{
			ReplyBanner:       "220 {host} ESMTP",
			ReplyEhlo:         "{host}",
			ReplyMail:         "250 ok",
			ReplyRcpt:         "250 ok",
			ReplyAbsent:       "550 sorry, no mailbox here by that name. (#5.1.1 - chkuser)",
			ReplyFull:         "552 sorry, recipient mailbox is over quota (#5.2.2 - chkuser)",
			ReplyDisabled:     "550 sorry, this mailbox is disabled (#5.2.1)",
			ReplyMoved:        "551 sorry, the user has moved to {user}@elsewhere.example (#5.1.6)",
			ReplyRelayDenied:  "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
			ReplyTooManyConns: "421 sorry, too many connections from you (#4.3.0)",
		}},
	}
}

func exchange() *Persona {
	return &Persona{
		Name: "exchange", SMTPUTF8: true, Limits: Limits{Connections: 20, RcptsPerTransaction: 200},
		hosts: hostsUnder("owa"), expect: truthful,
		Behaviour: Behaviour{Extensions: extModern | ExtChunking, hides: hideAllBut(), texts: texts{
			ReplyBanner:       "220 {host} Microsoft ESMTP MAIL Service ready",
			ReplyEhlo:         "{host} Hello [{ip}]",
			ReplyMail:         "250 2.1.0 Sender OK",
			ReplyRcpt:         "250 2.1.5 Recipient OK",
			ReplyAbsent:       "550 5.1.10 RESOLVER.ADR.RecipientNotFound; {to} is in no directory of ours",
			ReplyRelayDenied:  "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
			ReplyTooManyConns: "421 4.3.2 The maximum number of concurrent connections from {ip} has been reached",
		}},
	}
}

func courier() *Persona {
	return &Persona{
		Name: "courier", Limits: Limits{Connections: 4, RcptsPerTransaction: 100},
		hosts: hostsUnder("mx"), expect: truthful,
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME | ExtSize | ExtStartTLS, texts: texts{
			ReplyBanner:       "220 {host} ESMTP",
			ReplyEhlo:         "{host} Ok.",
			ReplyMail:         "250 Ok.",
			ReplyRcpt:         "250 Ok.",
			ReplyAbsent:       "550 User <{to}> unknown",
			ReplyFull:         "552 Mailbox of <{to}> is over quota",
			ReplyDisabled:     "550 Account <{to}> disabled",
			ReplyMoved:        "551 <{to}> not local; try {user}@elsewhere.example",
			ReplyRelayDenied:  "513 Relaying denied.",
			ReplyTooManyConns: "421 Too many connections from {ip}",
		}},
	}
}
