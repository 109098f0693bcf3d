//go:build linux

package mta

import "strings"

const dovecotConf = `log_path = /dev/stderr
ssl = no
mail_location = maildir:/var/mail/%n
mail_plugins = quota
first_valid_uid = 1000
passdb {
  driver = passwd-file
  args = /etc/dovecot/users
}
userdb {
  driver = passwd-file
  args = /etc/dovecot/users
}
plugin {
  quota = maildir:mailbox
  quota_grace = 0
  quota_rule = *:storage=10M
  quota_status_success = DUNNO
  quota_status_nouser = DUNNO
  quota_status_overquota = "552 5.2.2 Mailbox is full"
}
protocols = lmtp
postmaster_address = postmaster@prober.example
lmtp_rcpt_check_quota = yes
service lmtp {
  inet_listener lmtp {
    address = 127.0.0.1
    port = 24
  }
}
service quota-status {
  executable = quota-status -p postfix
  inet_listener {
    address = 127.0.0.1
    port = 12340
  }
  client_limit = 1
}
`

func dovecot() []setup {
	return []setup{dovecotPolicy(), dovecotLMTP()}
}

// dovecotSetup is a Postfix in front of Dovecot, which has the mailboxes ann and bob, and full and fuller without free
// space.
func dovecotSetup(configuration, domain, more string) setup {
	s := postfixSetup(configuration, domain, "virtual_mailbox_domains = "+domain+
		"\nvirtual_alias_maps = inline:{ sales@"+domain+"=bob@"+domain+" }\n"+more)
	s.server, s.system = "Postfix, Dovecot 2.3", "dovecot"
	s.files["etc/postfix/main.cf"] += "mydestination =\n"
	s.files["etc/dovecot/dovecot.conf"] = dovecotConf
	users := ""
	for name, quota := range map[string]string{"ann": "", "bob": "", "full": "userdb_quota_rule=*:bytes=1000",
		"fuller": "userdb_quota_rule=*:bytes=1000"} {
		users += name + "@" + domain + ":{PLAIN}x:1000:1000::/home/" + name + "::" + quota + "\n"
	}
	s.files["etc/dovecot/users"] = users
	message := "From: <a@prober.example>\nSubject: a long one\n\n" + strings.Repeat("this message fills a mailbox\n",
		100)
	s.files["var/mail/full/cur/1:2,S"], s.files["var/mail/fuller/cur/1:2,S"] = message, message
	s.prepare = append(s.prepare, "chown -R 1000:1000 /var/mail")
	s.run = append([]string{"dovecot -F"}, s.run...)
	s.schedule = "3s,3s"
	s.list = join(
		rows("VALID", "ann@"+domain, "bob@"+domain, "bob+lists@"+domain),
		rows("RISKY mailbox_full", "full@"+domain, "fuller@"+domain),
		rows("RISKY role_account", "sales@"+domain),
		rows("INVALID mailbox_not_found", "carol@"+domain, "dave@"+domain, "info@"+domain),
	)
	return s
}

// dovecotPolicy asks Dovecot's policy service at each RCPT whether the mailbox has space.
func dovecotPolicy() setup {
	s := dovecotSetup("quota-status at RCPT", "quota.example", `virtual_mailbox_maps = inline:{ ann@quota.example=x, bob@quota.example=x, full@quota.example=x, fuller@quota.example=x }
smtpd_recipient_restrictions = reject_unlisted_recipient, check_policy_service inet:127.0.0.1:12340
`)
	s.singles = join(rows("RISKY mailbox_full", "full@quota.example"), rows("VALID", "ann@quota.example"))
	return s
}

// dovecotLMTP asks Dovecot by LMTP which mailboxes exist and have space, and passes its refusals on as permanent ones.
func dovecotLMTP() setup {
	return dovecotSetup("LMTP, reject_unverified_recipient, code 550", "lmtp.example", `virtual_transport = lmtp:inet:127.0.0.1:24
address_verify_poll_delay = 1s
unverified_recipient_reject_code = 550
smtpd_recipient_restrictions = reject_unauth_destination, reject_unverified_recipient
`)
}
