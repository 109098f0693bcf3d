//go:build linux

package mta

const chasquidConf = `hostname: "mx.chasquid.example"
smtp_address: "0.0.0.0:25"
submission_address: "127.0.0.1:587"
submission_over_tls_address: "127.0.0.1:465"
mail_delivery_agent_bin: "/bin/true"
data_dir: "/var/lib/chasquid"
mail_log_path: "<stderr>"
`

// chasquid closes the connection after three errors in a session.
func chasquid() []setup {
	certs := "/etc/chasquid/certs/mx.chasquid.example"
	return []setup{{
		server: "chasquid 1.11", configuration: "plain", system: "chasquid",
		domains: []string{"chasquid.example", "all.chasquid.example", "other.chasquid.example"},
		files: map[string]string{
			"etc/chasquid/chasquid.conf":                        chasquidConf,
			"etc/chasquid/domains/chasquid.example/aliases":     "postmaster: ann\nsales: bob\nannjones: bob\n",
			"etc/chasquid/domains/all.chasquid.example/aliases": "*: ann@chasquid.example\n",
		},
		prepare: []string{
			"mkdir -p " + certs,
			"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mx.chasquid.example -keyout " + certs +
				"/privkey.pem -out " + certs + "/fullchain.pem",
			"chasquid-util user-add ann@chasquid.example --password=x",
			"chasquid-util user-add bob@chasquid.example --password=x",
		},
		run:      []string{"chasquid"},
		schedule: "2s,2s",
		singles: join(rows("VALID", "bob@chasquid.example"),
			rows("INVALID mailbox_not_found", "bobby@chasquid.example")),
		list: join(
			rows("VALID", "ann@chasquid.example", "bob@chasquid.example", "bob+lists@chasquid.example",
				"a.n.n@chasquid.example", "annjones@chasquid.example"),
			rows("RISKY role_account", "postmaster@chasquid.example", "sales@chasquid.example"),
			rows("INVALID mailbox_not_found", "carol@chasquid.example", "dave@chasquid.example",
				"erin@chasquid.example", "frank@chasquid.example", "grace@chasquid.example",
				"heidi@chasquid.example", "info@chasquid.example"),
			rows("RISKY catch_all", "ann@all.chasquid.example", "x.y.z@all.chasquid.example",
				"sales@all.chasquid.example"),
			forced("the domain names a server that does not serve it", "UNKNOWN relay_denied",
				"frank@other.chasquid.example"),
		),
	}}
}
