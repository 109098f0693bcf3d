package persona

// regionalProviders are the mailbox providers of one country or language.
func regionalProviders() []*Persona {
	return []*Persona{gmx(), qq(), netease(), zoho(), mailru(), orange(), laposte(), tonline(), godaddy(), docomo(),
		comcast()}
}

func gmx() *Persona {
	return &Persona{
		Name: "gmx", Provider: "gmx",
		Limits: Limits{Connections: 4, TransactionsPerConnection: 20, RcptsPerTransaction: 100, RefusalsPerHour: 100},
		hosts:  gmxHosts, expect: truthful,
		Behaviour: Behaviour{Extensions: Ext8BitMIME | ExtSize | ExtStartTLS | ExtPipelining, hides: hideAllBut(Full),
			texts: texts{
				ReplyBanner:         "220 gmx.net (mxgmx0{id}) Nemesis ESMTP Service ready",
				ReplyEhlo:           "gmx.net Hello [{ip}]",
				ReplyMail:           "250 Requested mail action okay, completed",
				ReplyRcpt:           "250 OK",
				ReplyAbsent:         "550-Requested action not taken: mailbox unavailable\n550 The mailbox <{to}> is not known here: https://postmaster.gmx.net/en/error-messages?c=rm",
				ReplyFull:           "552-Requested mail action aborted: exceeded storage allocation\n552 Quota of the mailbox exceeded: https://postmaster.gmx.net/en/error-messages?c=mq",
				ReplyTooManyConns:   "421-gmx.net (mxgmx0{id}) Nemesis ESMTP Service not available\n421 Too many connections of {ip}: https://postmaster.gmx.net/en/error-messages?ip={ip}&c=mc",
				ReplyConnectionUsed: "421-gmx.net (mxgmx0{id}) Nemesis ESMTP Service not available\n421 Too many mails in this session: https://postmaster.gmx.net/en/error-messages?ip={ip}&c=ms",
				ReplyBlocked:        "450-Requested mail action not taken: mailbox unavailable\n450 Too many unknown recipients from {ip} (policy): https://postmaster.gmx.net/en/error-messages?ip={ip}&c=tur",
				ReplyRelayDenied:    "550-Requested action not taken\n550 Relaying denied",
			}},
	}
}

// gmxHosts distinguishes the three brands of the provider.
func gmxHosts(domain string) []string {
	switch domain {
	case "web.de":
		return []string{"mx-ha02.web.de", "mx-ha03.web.de"}
	case "mail.com":
		return []string{"mx00.mail.com", "mx01.mail.com"}
	}
	return []string{"mx00.gmx.net", "mx01.gmx.net"}
}

func qq() *Persona {
	return &Persona{
		Name: "qq", Provider: "qq",
		Limits: Limits{Connections: 5, RcptsPerTransaction: 100, RefusalsPerHour: 100},
		hosts:  fixedHosts("mx1.qq.com", "mx2.qq.com", "mx3.qq.com"), expect: truthful,
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME | ExtSize | ExtStartTLS, hides: hideAllBut(),
			texts: texts{
				ReplyBanner:       "220 newxmmxszc{id}.qq.com MX QQ Mail Server.",
				ReplyEhlo:         "newxmmxszc12.qq.com",
				ReplyMail:         "250 OK.",
				ReplyRcpt:         "250 OK",
				ReplyAbsent:       "550 Mailbox not found. https://service.mail.qq.com/detail/122/169 [{id}]",
				ReplyTooManyConns: "421 Connection frequency limited: {ip}. https://service.mail.qq.com/detail/122/72 [{id}]",
				ReplyBlocked:      "550 Mailbox unavailable or access denied [{id} IP: {ip}]. https://service.mail.qq.com/detail/122/166",
				ReplyRelayDenied:  "550 Relay not allowed [{id}]",
			}},
	}
}

func netease() *Persona {
	return &Persona{
		Name: "netease", Provider: "netease",
		Limits: Limits{Connections: 5, RcptsPerTransaction: 100, RefusalsPerHour: 100},
		hosts:  fixedHosts("163mx01.mxmail.netease.com", "163mx02.mxmail.netease.com"), expect: truthful,
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME | ExtSize | ExtStartTLS, hides: hideAllBut(),
			texts: texts{
				ReplyBanner:       "220 163.com Anti-spam GT for Coremail System (163com[20211028])",
				ReplyEhlo:         "mail",
				ReplyMail:         "250 Mail OK",
				ReplyRcpt:         "250 Mail OK",
				ReplyAbsent:       "550 User not found: {to}, RC:NE,,{id} https://mail.163.com/help/help_spam_16.htm?ip={ip}",
				ReplyTooManyConns: "421 HL:ICC too many concurrent connections, {id} https://mail.163.com/help/help_spam_16.htm?ip={ip}",
				ReplyBlocked:      "421 HL:REP too many unknown users from {ip}, {id} https://mail.163.com/help/help_spam_16.htm?ip={ip}",
				ReplyRelayDenied:  "550 relaying is not allowed, {id}",
			}},
	}
}

func zoho() *Persona {
	return &Persona{
		Name: "zoho", Provider: "zoho",
		Limits: Limits{Connections: 10, RcptsPerTransaction: 50},
		hosts:  fixedHosts("mx.zoho.com", "mx2.zoho.com", "mx3.zoho.com"), expect: truthful,
		Behaviour: Behaviour{Extensions: Ext8BitMIME | ExtSize | ExtStartTLS | ExtEnhanced, hides: hideAllBut(Full),
			texts: texts{
				ReplyBanner:       "220 mx.zohomail.com SMTP Server ready {id}",
				ReplyEhlo:         "mx.zohomail.com Hello [{ip}]",
				ReplyMail:         "250 Sender <{from}> OK",
				ReplyRcpt:         "250 Recipient <{to}> OK",
				ReplyAbsent:       "550 5.1.1 User does not exist - <{to}>",
				ReplyFull:         "552 5.2.2 Mailbox of <{to}> has no room left",
				ReplyTooManyConns: "421 4.7.0 {ip} Too many connections",
				ReplyBlocked:      "541 5.4.1 Mail from {ip} rejected by policy",
				ReplyRelayDenied:  "553 Relaying disallowed as <{to}>",
			}},
	}
}

func mailru() *Persona {
	return &Persona{
		Name: "mailru", Provider: "mailru",
		Limits: Limits{Connections: 10, RcptsPerTransaction: 100},
		hosts:  fixedHosts("mxs.mail.ru"), expect: acceptAllOutcomes(),
		Behaviour: Behaviour{Extensions: ExtPipelining | Ext8BitMIME | ExtSize | ExtStartTLS, AcceptsAll: true,
			texts: texts{
				ReplyBanner:      "220 Mail.Ru ESMTP ({id})",
				ReplyEhlo:        "mx188.mail.ru ready to serve",
				ReplyMail:        "250 OK",
				ReplyRcpt:        "250 OK",
				ReplyRelayDenied: "550 relay is not allowed",
			}},
	}
}

func orange() *Persona {
	return &Persona{
		Name: "orange", Provider: "orange",
		Limits: Limits{Connections: 2, RcptsPerTransaction: 100, RefusalsPerHour: 50},
		hosts:  fixedHosts("smtp-in.orange.fr"), expect: truthful,
		Behaviour: Behaviour{Extensions: extSecure, hides: hideAllBut(Full, Disabled), texts: texts{
			ReplyBanner:       "220 mwinf5c{id} ME ESMTP server ready",
			ReplyEhlo:         "mwinf5c21 hello [{ip}], pleased to meet you",
			ReplyMail:         "250 2.1.0 <{from}> sender ok",
			ReplyRcpt:         "250 2.1.5 <{to}> recipient ok",
			ReplyAbsent:       "550 5.1.1 Adresse du destinataire inconnue. Invalid recipient. OFR_416 [416]",
			ReplyFull:         "552 5.1.1 Boite aux lettres du destinataire pleine. Recipient overquota. OFR_417 [417]",
			ReplyDisabled:     "550 5.1.1 Boite aux lettres du destinataire suspendue. Recipient account is suspended. OFR_420 [420]",
			ReplyTooManyConns: "421 mwinf5c{id} ME Trop de connexions, veuillez reessayer plus tard. Too many connections. OFR004_104 [104]",
			ReplyBlocked:      "550 5.7.1 Service refuse a {ip}: trop d'adresses inconnues. Too many unknown recipients. OFR006_102 [102]",
			ReplyRelayDenied:  "550 5.7.1 Relais refuse. Relaying denied. OFR_500 [500]",
		}},
	}
}

func laposte() *Persona {
	return &Persona{
		Name: "laposte", Provider: "laposte",
		Limits: Limits{Connections: 2, RcptsPerTransaction: 100, RefusalsPerHour: 50},
		hosts:  fixedHosts("smtpz4.laposte.net"), expect: truthful,
		Behaviour: Behaviour{Extensions: extSecure, hides: hideAllBut(Full, Disabled), texts: texts{
			ReplyBanner:       "220 mlpnf01{id}.laposte.net ESMTP server ready",
			ReplyEhlo:         "mlpnf0114.laposte.net hello [{ip}]",
			ReplyMail:         "250 2.1.0 <{from}> sender ok",
			ReplyRcpt:         "250 2.1.5 <{to}> recipient ok",
			ReplyAbsent:       "550 5.5.0 Adresse du destinataire inconnue chez nous. Invalid recipient. LPN007_416",
			ReplyFull:         "552 5.1.1 Boite aux lettres pleine. Recipient overquota. LPN007_417",
			ReplyDisabled:     "550 5.5.0 Compte du destinataire suspendu. Recipient account is blocked. LPN007_426",
			ReplyTooManyConns: "421 4.7.0 Trop de connexions depuis {ip}. Too many connections. LPN004_104",
			ReplyBlocked:      "550 5.7.1 Service refuse a {ip}. Service refused, too many unknown recipients. LPN006_103",
			ReplyRelayDenied:  "550 5.7.1 Relais refuse. Relaying denied. LPN_500",
		}},
	}
}

func tonline() *Persona {
	return &Persona{
		Name: "tonline", Provider: "tonline",
		Limits: Limits{Connections: 5, RcptsPerTransaction: 100},
		hosts:  fixedHosts("mx00.t-online.de", "mx01.t-online.de"), expect: truthful,
		Behaviour: Behaviour{Extensions: Ext8BitMIME | ExtSize | ExtStartTLS, hides: hideAllBut(Full), texts: texts{
			ReplyBanner:       "220 mailin{id}.aul.t-online.de T-Online ESMTP receiver ready",
			ReplyEhlo:         "mailin42.aul.t-online.de ready",
			ReplyMail:         "250 sender ok",
			ReplyRcpt:         "250 recipient ok",
			ReplyAbsent:       "550 unknown user / Teilnehmer existiert nicht",
			ReplyFull:         "552 mailbox of the recipient is full / Postfach ist voll",
			ReplyTooManyConns: "421 too many connections from {ip} / zu viele Verbindungen",
			ReplyBlocked:      "554 IP={ip} - A problem occurred. Ask your postmaster for help or to contact tosa@rx.t-online.de (BL)",
			ReplyRelayDenied:  "550 relay not permitted",
		}},
	}
}

func godaddy() *Persona {
	return &Persona{
		Name: "godaddy", Provider: "godaddy",
		Limits: Limits{Connections: 5, RcptsPerTransaction: 100, RefusalsPerHour: 50},
		hosts:  fixedHosts("smtp.secureserver.net", "mailstore1.secureserver.net"), expect: truthful,
		Behaviour: Behaviour{Extensions: extSecure, hides: hideAllBut(Full), texts: texts{
			ReplyBanner:       "220 p3plibsmtp03-{id}.prod.phx3.secureserver.net bizsmtp ESMTP server ready",
			ReplyEhlo:         "p3plibsmtp03-08.prod.phx3.secureserver.net hello [{ip}], secureserver.net",
			ReplyMail:         "250 2.1.0 <{from}> sender ok",
			ReplyRcpt:         "250 2.1.5 <{to}> recipient ok",
			ReplyAbsent:       "550 5.1.1 <{to}> Recipient not found.  <http://x.co/irbounce>",
			ReplyFull:         "552 5.2.2 <{to}> This recipient's mailbox has no room left. IB702",
			ReplyTooManyConns: "421 Too many sessions open from {ip}. Try again later. IB007",
			ReplyBlocked:      "554 This IP has been temporarily blocked: too many invalid recipients from {ip}. IB112",
			ReplyTooManyRcpts: "452 Too many recipients in one message. Send to fewer of them. IB605",
			ReplyRelayDenied:  "550 5.7.1 <{to}> relaying denied",
		}},
	}
}

func docomo() *Persona {
	return &Persona{
		Name: "docomo", Provider: "docomo",
		Limits: Limits{Connections: 5, RcptsPerTransaction: 100},
		hosts:  fixedHosts("mfsmax.docomo.ne.jp"), expect: acceptAllOutcomes(),
		Behaviour: Behaviour{Extensions: Ext8BitMIME | ExtSize, AcceptsAll: true, texts: texts{
			ReplyBanner:      "220 mfsmax.docomo.ne.jp ESMTP server ready",
			ReplyEhlo:        "mfsmax.docomo.ne.jp",
			ReplyMail:        "250 Sender OK",
			ReplyRcpt:        "250 Recipient OK",
			ReplyRelayDenied: "550 Relay denied",
		}},
	}
}

// comcast requires TLS.
func comcast() *Persona {
	return &Persona{
		Name: "comcast", Provider: "comcast",
		Limits: Limits{Connections: 25, RcptsPerTransaction: 100},
		hosts:  fixedHosts("mx1a1.comcast.net", "mx2c1.comcast.net"), expect: truthful,
		Behaviour: Behaviour{Extensions: extSecure, hides: hideAllBut(Full), RequireTLS: true, texts: texts{
			ReplyBanner:       "220 resimta-c2p-{id}.sys.comcast.net ESMTP server ready",
			ReplyEhlo:         "resimta-c2p-42.sys.comcast.net hello [{ip}], pleased to meet you",
			ReplyMail:         "250 2.1.0 <{from}> sender ok",
			ReplyRcpt:         "250 2.1.5 <{to}> recipient ok",
			ReplyAbsent:       "550 5.1.1 Not our Customer",
			ReplyFull:         "552 5.2.2 <{to}> mailbox has no room left",
			ReplyTooManyConns: "421 4.7.0 resimta-c2p-{id} Comcast: too many sessions open. RL000001 https://postmaster.comcast.net/smtp-error-codes.php#RL000001",
			ReplyBlocked:      "421 4.7.0 resimta-c2p-{id} Comcast: too many unknown recipients from {ip}. RL000003",
			ReplyNeedTLS:      "530 5.7.0 Must issue a STARTTLS command first",
			ReplyRelayDenied:  "550 5.7.1 <{to}> relaying denied",
		}},
	}
}
