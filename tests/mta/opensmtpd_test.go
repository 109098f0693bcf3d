//go:build linux

package mta

import "fmt"

const openSMTPDConf = `table aliases file:/etc/aliases
table everyone file:/etc/everyone
listen on 0.0.0.0 port 25 hostname mx.%[1]s
action "local" mbox alias <aliases>
action "everyone" mbox virtual <everyone>
match from any for domain "%[1]s" action "local"
match from any for domain "all.%[1]s" action "everyone"
`

func openSMTPD() []setup {
	return []setup{openSMTPDPlain(), openSMTPDLimits()}
}

// openSMTPDSetup is an OpenSMTPD with the users ann and bob.
func openSMTPDSetup(configuration, domain, options string) setup {
	return setup{
		server: "OpenSMTPD 6.8", configuration: configuration, system: "opensmtpd", domains: []string{domain},
		files: map[string]string{
			"etc/smtpd.conf": options + fmt.Sprintf(openSMTPDConf, domain),
			"etc/aliases":    "postmaster: ann\nsales: bob\nann.jones: bob\n",
			"etc/everyone":   "@all." + domain + " ann\n",
		},
		prepare:  []string{"useradd -m ann", "useradd -m bob"},
		run:      []string{"smtpd -d"},
		schedule: "2s,2s",
	}
}

func openSMTPDPlain() setup {
	s := openSMTPDSetup("plain", "opensmtpd.example", "")
	s.domains = append(s.domains, "all.opensmtpd.example", "other.opensmtpd.example")
	s.singles = join(rows("VALID", "bob@opensmtpd.example"),
		rows("INVALID mailbox_not_found", "bobby@opensmtpd.example"))
	s.list = join(
		rows("VALID", "ann@opensmtpd.example", "bob@opensmtpd.example", "bob+lists@opensmtpd.example",
			"ann.jones@opensmtpd.example"),
		rows("RISKY role_account", "postmaster@opensmtpd.example", "sales@opensmtpd.example"),
		rows("INVALID mailbox_not_found", "carol@opensmtpd.example", "dave.jones@opensmtpd.example",
			"info@opensmtpd.example", "erin@opensmtpd.example"),
		rows("RISKY catch_all", "ann@all.opensmtpd.example", "x.y.z@all.opensmtpd.example",
			"sales@all.opensmtpd.example"),
		// This server refuses a domain that it does not serve like a missing mailbox; mail to it bounces in the same
		// way.
		rows("INVALID mailbox_not_found", "frank@other.opensmtpd.example"),
	)
	return s
}

// openSMTPDLimits accepts two recipients in a message and three messages in a connection.
func openSMTPDLimits() setup {
	s := openSMTPDSetup("limits of recipients and messages", "little.example",
		"smtp limit max-rcpt 2\nsmtp limit max-mails 3\n")
	s.list = join(
		rows("VALID", "ann@little.example", "bob@little.example", "bob+1@little.example", "bob+2@little.example",
			"bob+3@little.example", "bob+4@little.example", "ann.jones@little.example"),
		rows("INVALID mailbox_not_found", "carol@little.example", "dave@little.example", "erin@little.example"),
	)
	return s
}
