//go:build linux

package mta

const maddyConf = `hostname mx.maddy.example
state_dir /var/lib/maddy
runtime_dir /run/maddy
tls off
log stderr

storage.imapsql local_mailboxes {
    driver sqlite3
    dsn imapsql.db
}

table.chain rewrites {
    optional_step regexp "(.+)\+(.+)@(.+)" "$1@$3"
    optional_step static {
        entry postmaster ann@maddy.example
        entry postmaster@maddy.example ann@maddy.example
        entry sales@maddy.example bob@maddy.example
        entry ann.jones@maddy.example bob@maddy.example
    }
}

smtp tcp://0.0.0.0:25 {
    source maddy.example all.maddy.example {
        reject 501 5.1.8 "Use Submission for outgoing SMTP"
    }
    default_source {
        destination all.maddy.example {
            modify {
                replace_rcpt regexp ".+" "ann@maddy.example"
            }
            deliver_to &local_mailboxes
        }
        destination postmaster maddy.example {
            modify {
                replace_rcpt &rewrites
            }
            deliver_to &local_mailboxes
        }
        default_destination {
            reject 550 5.1.1 "User doesn't exist"
        }
    }
}
`

func maddy() []setup {
	return []setup{{
		server: "maddy 0.8.1", configuration: "plain", system: "base", programs: []string{"maddy"},
		domains: []string{"maddy.example", "all.maddy.example", "other.maddy.example"},
		files:   map[string]string{"etc/maddy/maddy.conf": maddyConf},
		prepare: []string{
			"mkdir -p /var/lib/maddy /run/maddy",
			"maddy imap-acct create ann@maddy.example",
			"maddy imap-acct create bob@maddy.example",
		},
		run:      []string{"maddy run"},
		schedule: "2s,2s",
		singles:  join(rows("VALID", "bob@maddy.example"), rows("INVALID mailbox_not_found", "bobby@maddy.example")),
		list: join(
			rows("VALID", "ann@maddy.example", "bob@maddy.example", "bob+lists@maddy.example",
				"ann.jones@maddy.example"),
			rows("RISKY role_account", "postmaster@maddy.example", "sales@maddy.example"),
			rows("INVALID mailbox_not_found", "carol@maddy.example", "dave@maddy.example", "erin@maddy.example",
				"info@maddy.example"),
			rows("RISKY catch_all", "x.y.z@all.maddy.example", "sales@all.maddy.example"),
			rows("INVALID mailbox_not_found", "frank@other.maddy.example"),
		),
	}}
}
