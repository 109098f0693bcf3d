//go:build linux

package mta

import "fmt"

// eximConf is a configuration with placeholders for host name, domains, and further checks of the access list before
// the recipient.
const eximConf = `primary_hostname = mx.%[1]s
qualify_domain = %[1]s
domainlist local_domains = %[1]s : all.%[1]s
acl_smtp_rcpt = check_recipient
tls_advertise_hosts =
%[2]snever_users = root

begin acl

check_recipient:
  deny    local_parts   = ^[.] : ^.*[@%%!/|]
%[3]s  deny    recipients    = full@%[1]s
          message       = Mailbox quota exceeded
  accept  domains       = +local_domains
          endpass
          verify        = recipient
  deny    message       = relay not permitted

begin routers

elsewhere:
  driver = dnslookup
  domains = ! +local_domains
  transport = smtp
  no_more

everyone:
  driver = redirect
  domains = all.%[1]s
  data = ann@%[1]s

aliases:
  driver = redirect
  data = ${lookup{$local_part}lsearch{/etc/aliases}}
  allow_fail
  allow_defer

users:
  driver = accept
  check_local_user
  local_part_suffix = +*
  local_part_suffix_optional
  transport = mailbox

begin transports

smtp:
  driver = smtp

mailbox:
  driver = appendfile
  file = /var/mail/$local_part
`

const eximAliases = `postmaster: ann
support: ann, bob
ann.jones: bob
dora: :fail: Account disabled
gone: :fail: This person no longer works here
later: :defer: The directory is being moved
`

func exim() []setup {
	return []setup{eximPlain(), eximLimits(), eximCallout(), eximCalloutRefused(), eximCalloutDeferred()}
}

// eximSetup is an Exim with the users ann and bob. Options are lines before the access list, checks are lines in it.
func eximSetup(configuration, domain, options, checks string) setup {
	return setup{
		server: "Exim 4.96", configuration: configuration, system: "exim", domains: []string{domain},
		files: map[string]string{"etc/exim4/exim4.conf": fmt.Sprintf(eximConf, domain, options, checks),
			"etc/aliases": eximAliases},
		prepare:  []string{"useradd ann", "useradd bob"},
		run:      []string{"exim4 -bdf"},
		logs:     "var/log/exim4/mainlog",
		schedule: "2s,2s",
	}
}

func eximPlain() setup {
	s := eximSetup("plain", "exim.example", "", "")
	s.domains = append(s.domains, "all.exim.example", "other.exim.example")
	s.singles = join(rows("VALID", "bob@exim.example"), rows("INVALID mailbox_not_found", "bobby@exim.example"))
	s.list = join(
		rows("VALID", "ann@exim.example", "bob@exim.example", "bob+lists@exim.example", "ann.jones@exim.example"),
		rows("RISKY role_account", "postmaster@exim.example", "support@exim.example"),
		rows("INVALID mailbox_not_found", "carol@exim.example", "dave.jones@exim.example", "info@exim.example",
			"gone@exim.example"),
		rows("INVALID mailbox_disabled", "dora@exim.example"),
		rows("RISKY mailbox_full", "full@exim.example"),
		rows("RISKY catch_all", "ann@all.exim.example", "x.y.z@all.exim.example", "sales@all.exim.example"),
		forced("the alias defers every attempt", "UNKNOWN temporary_error", "later@exim.example"),
		forced("the domain names a server that does not serve it", "UNKNOWN relay_denied", "frank@other.exim.example"),
	)
	return s
}

// eximLimits accepts three recipients in a message, one connection at a time, and four messages in each.
func eximLimits() setup {
	s := eximSetup("limits of recipients, messages and connections", "few.example",
		"recipients_max = 3\nsmtp_accept_max_per_connection = 4\nsmtp_accept_max_per_host = 1\n", "")
	s.list = join(
		rows("VALID", "ann@few.example", "bob@few.example", "bob+1@few.example", "bob+2@few.example",
			"bob+3@few.example", "bob+4@few.example", "bob+5@few.example", "ann.jones@few.example"),
		rows("INVALID mailbox_not_found", "carol@few.example", "dave@few.example", "erin@few.example"),
	)
	return s
}

const callout = "  require verify = sender/callout\n"

// eximCallout verifies the prober's sender at its server (callout) before it answers.
func eximCallout() setup {
	s := eximSetup("sender callout", "callout.example", "", callout)
	s.list = join(rows("VALID", "ann@callout.example", "bob@callout.example"),
		rows("INVALID mailbox_not_found", "carol@callout.example", "dave@callout.example"))
	return s
}

// eximCalloutRefused gets a refusal of the sender. Its own reply then looks like a missing mailbox, but is not about
// the recipient.
func eximCalloutRefused() setup {
	s := eximSetup("sender callout, the sender is missing", "suspicious.example", "", callout)
	s.sender = missingSender
	s.list = forced("the server refuses the prober's sender, whatever it is asked", "UNKNOWN blocked",
		"ann@suspicious.example", "bob@suspicious.example", "carol@suspicious.example")
	return s
}

// eximCalloutDeferred cannot reach the server of the sender.
func eximCalloutDeferred() setup {
	s := eximSetup("sender callout, its server cannot be reached", "doubtful.example", "", callout)
	s.sender = silentSender
	s.list = forced("the server cannot verify the prober's sender, in every attempt", "UNKNOWN blocked",
		"ann@doubtful.example", "bob@doubtful.example", "carol@doubtful.example")
	return s
}
