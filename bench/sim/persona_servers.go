package sim

// postfixLimits are the shipped ones: anvil's 50 connections of one client,
// the 20 errors of smtpd_hard_error_limit, 1000 recipients.
func postfixLimits() Limits {
	return Limits{Connections: 50, RcptsPerTransaction: 1000, RefusalsPerConnection: 20}
}

func postfixTexts() texts {
	return texts{
		sayBanner:   "220 {host} ESMTP Postfix (Debian/GNU)",
		sayEhlo:     "{host}",
		sayMail:     "250 2.1.0 Ok",
		sayRcpt:     "250 2.1.5 Ok",
		sayAbsent:   "550 5.1.1 <{to}>: Recipient address rejected: User unknown in virtual mailbox table",
		sayFull:     "552 5.2.2 <{to}>: Recipient address rejected: Mailbox quota exceeded",
		sayDisabled: "550 5.2.1 <{to}>: Recipient address rejected: This account is disabled",
		sayMoved:    "551 5.1.6 <{to}>: Recipient address rejected: User has moved to {user}@elsewhere.example",
		sayRelay:    "554 5.7.1 <{to}>: Relay access denied",
		sayCrowded:  "421 4.7.0 {host} Error: too many connections from {ip}",
		sayErrors:   "421 4.7.0 {host} Error: too many errors",
		sayTooMany:  "452 4.5.3 Error: too many recipients",
		sayRate:     "450 4.7.1 Error: too many recipients from {ip}",
		sayGrey:     "450 4.2.0 <{to}>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/{domain}.html",
		sayNeedTLS:  "530 5.7.0 Must issue a STARTTLS command first",
		sayUTF8:     "553 5.6.7 Must declare SMTPUTF8 to permit unicode address",
	}
}

func eximLimits() Limits {
	return Limits{Connections: 20, TransactionsPerConnection: 1000, RcptsPerTransaction: 1000}
}

func eximTexts() texts {
	return texts{
		sayBanner:   "220 {host} ESMTP Exim 4.97 ready",
		sayEhlo:     "{host} Hello client [{ip}]",
		sayMail:     "250 OK",
		sayRcpt:     "250 Accepted",
		sayAbsent:   "550 Unrouteable address",
		sayFull:     "552 mailbox of <{to}> is over quota",
		sayDisabled: "550 account <{to}> is disabled",
		sayMoved:    "551 <{to}> has moved to {user}@elsewhere.example",
		sayRelay:    "550 relay not permitted",
		sayCrowded:  "421 {host}: Too many concurrent SMTP connections; please try again later.",
		saySpent:    "421 {host}: Too many messages on this connection",
		sayGrey:     "451 <{to}> is greylisted, please try again later",
		sayNeedTLS:  "503 STARTTLS command must be used first",
	}
}

// mailServers are the habits of the usual software, nothing special about them.
func mailServers() []*Persona {
	return []*Persona{postfix(), postfixLDAP(), exim(), sendmail(), qmail(), exchange(), courier()}
}

func postfix() *Persona {
	return &Persona{
		Name: "postfix", SMTPUTF8: true, Limits: postfixLimits(),
		hosts: under("mx1", "mx2"), expect: candid,
		habit: habit{ext: extModern | extChunking, texts: postfixTexts()},
	}
}

// postfixLDAP words its refusals by local tables and has no TLS.
func postfixLDAP() *Persona {
	t := postfixTexts()
	t[sayBanner] = "220-{host} ESMTP\n220 No unsolicited mail, please"
	t[sayAbsent] = "550 5.1.1 <{to}>: Recipient address rejected: User unknown in local recipient table"
	return &Persona{
		Name: "postfix-local", Limits: postfixLimits(),
		hosts: under("mail"), expect: candid,
		habit: habit{ext: extUsual, texts: t},
	}
}

func exim() *Persona {
	return &Persona{
		Name: "exim", Limits: eximLimits(),
		hosts: under("mx"), expect: candid,
		habit: habit{ext: extPipelining | ext8BitMIME | extSize | extStartTLS, texts: eximTexts()},
	}
}

func sendmail() *Persona {
	return &Persona{
		Name: "sendmail", Limits: Limits{Connections: 20, RcptsPerTransaction: 100},
		hosts: under("mailhost"), expect: candid,
		habit: habit{ext: extSecure, texts: texts{
			sayBanner:   "220 {host} ESMTP Sendmail 8.17.1/8.17.1; ready",
			sayEhlo:     "{host} Hello [{ip}], pleased to meet you",
			sayMail:     "250 2.1.0 <{from}>... Sender ok",
			sayRcpt:     "250 2.1.5 <{to}>... Recipient ok",
			sayAbsent:   "550 5.1.1 <{to}>... User unknown",
			sayFull:     "552 5.2.2 <{to}>... Mailbox full",
			sayDisabled: "550 5.2.1 <{to}>... Mailbox disabled for this recipient",
			sayMoved:    "551 5.1.6 <{to}>... User has moved; please try <{user}@elsewhere.example>",
			sayRelay:    "550 5.7.1 <{to}>... Relaying denied",
			sayTooMany:  "452 4.5.3 Too many recipients",
			sayCrowded:  "421 4.3.2 Too many open connections.",
		}},
	}
}

// qmail knows no enhanced codes but writes them in brackets, and says only
// the least of extensions.
func qmail() *Persona {
	return &Persona{
		Name: "qmail", Limits: Limits{Connections: 20},
		hosts: under("mx"), expect: candid,
		habit: habit{ext: extPipelining | ext8BitMIME, texts: texts{
			sayBanner:   "220 {host} ESMTP",
			sayEhlo:     "{host}",
			sayMail:     "250 ok",
			sayRcpt:     "250 ok",
			sayAbsent:   "550 sorry, no mailbox here by that name. (#5.1.1 - chkuser)",
			sayFull:     "552 sorry, recipient mailbox is over quota (#5.2.2 - chkuser)",
			sayDisabled: "550 sorry, this mailbox is disabled (#5.2.1)",
			sayMoved:    "551 sorry, the user has moved to {user}@elsewhere.example (#5.1.6)",
			sayRelay:    "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
			sayCrowded:  "421 sorry, too many connections from you (#4.3.0)",
		}},
	}
}

func exchange() *Persona {
	return &Persona{
		Name: "exchange", SMTPUTF8: true, Limits: Limits{Connections: 20, RcptsPerTransaction: 200},
		hosts: under("owa"), expect: candid,
		habit: habit{ext: extModern | extChunking, hides: tellsOnly(), texts: texts{
			sayBanner:  "220 {host} Microsoft ESMTP MAIL Service ready",
			sayEhlo:    "{host} Hello [{ip}]",
			sayMail:    "250 2.1.0 Sender OK",
			sayRcpt:    "250 2.1.5 Recipient OK",
			sayAbsent:  "550 5.1.10 RESOLVER.ADR.RecipientNotFound; {to} is in no directory of ours",
			sayRelay:   "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
			sayCrowded: "421 4.3.2 The maximum number of concurrent connections from {ip} has been reached",
		}},
	}
}

func courier() *Persona {
	return &Persona{
		Name: "courier", Limits: Limits{Connections: 4, RcptsPerTransaction: 100},
		hosts: under("mx"), expect: candid,
		habit: habit{ext: extPipelining | ext8BitMIME | extSize | extStartTLS, texts: texts{
			sayBanner:   "220 {host} ESMTP",
			sayEhlo:     "{host} Ok.",
			sayMail:     "250 Ok.",
			sayRcpt:     "250 Ok.",
			sayAbsent:   "550 User <{to}> unknown",
			sayFull:     "552 Mailbox of <{to}> is over quota",
			sayDisabled: "550 Account <{to}> disabled",
			sayMoved:    "551 <{to}> not local; try {user}@elsewhere.example",
			sayRelay:    "513 Relaying denied.",
			sayCrowded:  "421 Too many connections from {ip}",
		}},
	}
}
