//go:build linux

package mta

// postfixMain is common to all configurations of Postfix; each adds its own lines.
const postfixMain = `compatibility_level = 3.6
maillog_file = /dev/stdout
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
recipient_delimiter = +
alias_maps = hash:/etc/aliases
alias_database = hash:/etc/aliases
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_tls_security_level = may
smtpd_tls_cert_file = /etc/ssl/certs/ssl-cert-snakeoil.pem
smtpd_tls_key_file = /etc/ssl/private/ssl-cert-snakeoil.key
`

// postfixSetup is a Postfix that has the local domain, with the mailboxes ann, bob and carol, and aliases.
func postfixSetup(configuration, domain, more string) setup {
	return setup{
		server: "Postfix 3.7", configuration: configuration, system: "postfix", domains: []string{domain},
		files: map[string]string{
			"etc/postfix/main.cf": postfixMain + "myhostname = mx." + domain + "\nmydestination = " + domain + "\n" +
				more,
			"etc/aliases": "postmaster: ann\nann.jones: bob\nsales: bob\n",
		},
		prepare:  []string{"useradd ann", "useradd bob", "useradd carol", "newaliases", "postconf -F '*/*/chroot=n'"},
		run:      []string{"postfix start-fg"},
		schedule: "2s,2s",
	}
}

func postfix() []setup {
	return []setup{postfixPlain(), postfixPostgrey(), postfixPostscreen(), postfixUnverified(),
		postfixUnverifiedFinal(), postfixLimits(), postfixMinute(),
		postfixAcceptsAll(), postfixBlocklist(), postfixUnknownSender()}
}

func postfixPlain() setup {
	s := postfixSetup("plain", "plain.example", `
virtual_alias_domains = all.plain.example
virtual_alias_maps = inline:{ @all.plain.example=ann@plain.example }
relocated_maps = inline:{ {moved@plain.example = moved@elsewhere.example} }
smtpd_recipient_restrictions = check_recipient_access inline:{
  { dora@plain.example = 550 5.2.1 This account has been disabled },
  { board@plain.example = 550 5.7.1 Only members of the board may write here },
  { busy@plain.example = 450 4.2.1 The mailbox is busy, try again later },
  { full@plain.example = 552 5.2.2 The mailbox is full } }
`)
	s.domains = append(s.domains, "all.plain.example", "other.example")
	s.singles = join(rows("VALID", "bob@plain.example"), rows("INVALID mailbox_not_found", "robert@plain.example"))
	s.list = join(
		rows("VALID", "ann@plain.example", "bob@plain.example", "carol@plain.example", "carol+lists@plain.example",
			"Ann@PLAIN.example", "ann.jones@plain.example"),
		rows("RISKY role_account", "postmaster@plain.example", "sales@plain.example"),
		rows("INVALID mailbox_not_found", "dave@plain.example", "erin.jones@plain.example", "info@plain.example",
			"annn@plain.example", "dave+ann@plain.example", "moved@plain.example"),
		rows("INVALID mailbox_disabled", "dora@plain.example"),
		rows("RISKY mailbox_full", "full@plain.example"),
		rows("RISKY catch_all", "ann@all.plain.example", "x.y.z@all.plain.example", "info@all.plain.example"),
		forced("the server refuses us at this mailbox, whatever is behind it", "UNKNOWN blocked",
			"board@plain.example"),
		forced("the mailbox is refused for now in every attempt", "UNKNOWN temporary_error", "busy@plain.example"),
		forced("the domain names a server that does not serve it", "UNKNOWN relay_denied", "frank@other.example"),
	)
	return s
}

// postfixPostgrey defers the first attempt before it checks whether the mailbox exists. A verifier that does not retry
// learns nothing; one that does learns everything.
func postfixPostgrey() setup {
	s := postfixSetup("greylisting by postgrey", "grey.example",
		"smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:10023\n")
	s.run = append([]string{"postgrey --inet=127.0.0.1:10023 --delay=5 --auto-whitelist-clients=0 --whitelist-clients=/dev/null --whitelist-recipients=/dev/null"}, s.run...)
	s.schedule = "7s,7s"
	s.singles = forced("a single call does not wait for the second attempt", "UNKNOWN greylisted",
		"carol+1@grey.example", "frank@grey.example")
	s.list = join(
		rows("VALID", "ann@grey.example", "bob@grey.example", "carol@grey.example", "ann.jones@grey.example"),
		rows("RISKY role_account", "postmaster@grey.example"),
		rows("INVALID mailbox_not_found", "dave@grey.example", "erin@grey.example", "info@grey.example"),
	)
	return s
}

// postfixPostscreen tests each client. With the tests after the greeting, the first session is always refused at RCPT;
// the next one passes.
func postfixPostscreen() setup {
	s := postfixSetup("postscreen with tests behind the greeting", "screen.example", `
postscreen_greet_action = enforce
postscreen_greet_wait = 2s
postscreen_pipelining_enable = yes
postscreen_pipelining_action = enforce
postscreen_non_smtp_command_enable = yes
postscreen_bare_newline_enable = yes
postscreen_bare_newline_action = enforce
`)
	s.prepare = append(s.prepare, "postconf -M 'smtp/inet=smtp inet n - n - 1 postscreen' 'smtpd/pass=smtpd pass - - n - - smtpd' 'dnsblog/unix=dnsblog unix - - n - 0 dnsblog' 'tlsproxy/unix=tlsproxy unix - - n - 0 tlsproxy'")
	s.list = join(
		rows("VALID", "ann@screen.example", "bob@screen.example", "carol@screen.example"),
		rows("RISKY role_account", "sales@screen.example"),
		rows("INVALID mailbox_not_found", "dave@screen.example", "erin@screen.example", "info@screen.example"),
	)
	return s
}

// postfixGateway is a Postfix that knows no mailboxes and verifies recipients at the server behind it: a second
// listener of the same Postfix, which knows them.
func postfixGateway(configuration, domain, more string) setup {
	s := postfixSetup(configuration, domain, `
relay_domains = $myhostname, `+domain+`
relay_transport = smtp:[127.0.0.1]:2525
relay_recipient_maps =
address_verify_poll_count = 3
address_verify_poll_delay = 1s
smtpd_recipient_restrictions = reject_unauth_destination, reject_unverified_recipient
`+more)
	s.files["etc/postfix/main.cf"] += "mydestination =\n"
	s.prepare = append(s.prepare, "postconf -M '127.0.0.1:2525/inet=127.0.0.1:2525 inet n - n - - smtpd -o smtpd_recipient_restrictions=reject_unauth_destination -o relay_recipient_maps=inline:{ann@"+domain+"=x,bob@"+domain+"=x,carol@"+domain+"=x,sales@"+domain+"=x}'")
	s.schedule = "3s,3s"
	return s
}

// postfixUnverified answers 450 to recipients that the server behind it refuses permanently, as by default. The refusal
// of a decoy still shows that it distinguishes mailboxes.
func postfixUnverified() setup {
	s := postfixGateway("reject_unverified_recipient", "gate.example", "")
	s.list = join(
		rows("VALID", "ann@gate.example", "bob@gate.example", "carol@gate.example"),
		rows("RISKY role_account", "sales@gate.example"),
		forced("a refusal that says it is for now never condemns a mailbox", "UNKNOWN temporary_error",
			"dave@gate.example", "erin@gate.example", "info@gate.example"),
	)
	return s
}

// postfixUnverifiedFinal has the setting that the manual advises once the server behind it is known to work.
func postfixUnverifiedFinal() setup {
	s := postfixGateway("reject_unverified_recipient, code 550", "firm.example",
		"unverified_recipient_reject_code = 550\n")
	s.list = join(
		rows("VALID", "ann@firm.example", "bob@firm.example", "carol@firm.example"),
		rows("RISKY role_account", "sales@firm.example"),
		rows("INVALID mailbox_not_found", "dave@firm.example", "erin@firm.example", "info@firm.example"),
	)
	return s
}

// postfixLimits allows few recipients in a message, few errors in a session, and few connections and recipients at a
// time; its minute takes ten seconds.
func postfixLimits() setup {
	s := postfixSetup("limits of recipients, errors and connections", "limits.example", `
smtpd_recipient_limit = 3
smtpd_recipient_overshoot_limit = 5
smtpd_soft_error_limit = 2
smtpd_hard_error_limit = 4
smtpd_client_connection_count_limit = 2
smtpd_client_connection_rate_limit = 6
anvil_rate_time_unit = 10s
`)
	s.schedule = "11s,11s,11s"
	s.list = join(
		rows("VALID", "ann@limits.example", "bob@limits.example", "carol@limits.example", "ann+1@limits.example",
			"ann+2@limits.example", "ann+3@limits.example",
			"ann+4@limits.example", "bob+1@limits.example", "bob+2@limits.example", "ann.jones@limits.example"),
		rows("INVALID mailbox_not_found", "dave@limits.example", "erin@limits.example", "frank@limits.example",
			"grace@limits.example", "heidi@limits.example", "ivan@limits.example"),
	)
	return s
}

// postfixMinute accepts eight recipients in ten seconds from one address, and answers 450 4.7.1 to the others. Its
// minute ends long before the pause that the provider table has for this reply.
func postfixMinute() setup {
	s := postfixSetup("limit of recipients in a minute", "minute.example",
		"smtpd_client_recipient_rate_limit = 8\nanvil_rate_time_unit = 10s\n")
	s.list = join(
		rows("VALID", "ann@minute.example", "bob@minute.example", "carol@minute.example", "ann+1@minute.example",
			"ann+2@minute.example", "ann+3@minute.example"),
		rows("INVALID mailbox_not_found", "dave@minute.example", "erin@minute.example", "frank@minute.example",
			"grace@minute.example"),
	)
	return s
}

// postfixAcceptsAll accepts every name of its domain and sends bounces for those that do not exist.
func postfixAcceptsAll() setup {
	s := postfixSetup("smtpd_reject_unlisted_recipient = no", "blind.example",
		"smtpd_reject_unlisted_recipient = no\nlocal_recipient_maps =\n")
	s.list = rows("RISKY catch_all", "ann@blind.example", "bob@blind.example", "dave@blind.example",
		"info@blind.example")
	return s
}

// postfixBlocklist queries a blocklist that has the prober's address.
func postfixBlocklist() setup {
	s := postfixSetup("reject_rbl_client, the prober is listed", "listed.example",
		"smtpd_recipient_restrictions = reject_rbl_client bl.listed.example\n")
	s.records = []string{"1.0.79.10.bl.listed.example. 60 IN A 127.0.0.2"}
	s.list = forced("the server refuses the prober's address, whatever it is asked", "UNKNOWN blocked",
		"ann@listed.example", "dave@listed.example", "info@listed.example")
	return s
}

// postfixUnknownSender refuses the prober's sender for now, because its domain is not found.
func postfixUnknownSender() setup {
	s := postfixSetup("reject_unknown_sender_domain, the prober's is unknown", "strict.example",
		"smtpd_recipient_restrictions = reject_unknown_sender_domain\n")
	s.sender = unknownSender
	s.list = forced("the server refuses the prober's sender, whatever it is asked", "UNKNOWN blocked",
		"ann@strict.example", "dave@strict.example", "info@strict.example")
	return s
}
