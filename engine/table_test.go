package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShippedTable(t *testing.T) {
	table := DefaultTable()
	require.Equal(t, []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour}, table.Schedule)
	require.Equal(t, table.Hash(), DefaultTable().Hash())
	require.NotZero(t, table.Hash())
	require.Equal(t, "other", table.Unknown.Name)
	for _, p := range table.Providers {
		require.NotEmpty(t, p.Source, p.ID)
		require.NotEmpty(t, p.Date, p.ID)
		require.True(t, p.Probe, p.ID)
		for _, r := range p.Rules {
			require.NotEmpty(t, r.Source, r.ID)
			require.NotEmpty(t, r.Date, r.ID)
		}
	}
	for _, r := range table.Generic {
		require.NotEmpty(t, r.Source, r.ID)
	}
}

func TestShippedBudgets(t *testing.T) {
	table := DefaultTable()
	for id, want := range map[string][4]int{"": {2, 20, 3, 20}, "google": {5, 50, 10, 200},
		"microsoft365": {5, 50, 10, 200}, "outlook": {1, 10, 2, 20}} {
		p := table.Unknown
		if id != "" {
			p = table.Provider(id)
		}
		l := p.Limits
		require.Equal(t, want, [4]int{l.Connections, l.RecipientsPerConnection, l.RefusalsPerConnection,
			l.RefusalsPerHour}, id)
	}
	require.Equal(t, 1, table.Provider("outlook").Limits.RecipientsPerTransaction)
	require.Equal(t, 20, table.Provider("yahoo").Limits.TransactionsPerConnection)
	require.True(t, table.Provider("yahoo").AcceptAll)
	require.Equal(t, 5, table.Provider("icloud").Limits.TransactionsPerConnection)
	require.Equal(t, TLSRequired, table.Provider("comcast").TLS)
	require.Equal(t, TLSRequired, table.Provider("orange").TLS)
	require.True(t, table.Provider("google").OneDomain)
}

func TestMatch(t *testing.T) {
	table := DefaultTable()
	for hosts, want := range map[string]string{
		"gmail-smtp-in.l.google.com":                        "google",
		"aspmx.l.google.com alt1.aspmx.l.google.com":        "google",
		"alt3.aspmx2.googlemail.com":                        "google",
		"hotmail-com.olc.protection.outlook.com":            "outlook",
		"example-com.mail.protection.outlook.com":           "microsoft365",
		"example-com.b-v1.mx.microsoft":                     "microsoft365",
		"mta5.am0.yahoodns.net":                             "yahoo",
		"mx01.mail.icloud.com.":                             "icloud",
		"mx-ha.web.de":                                      "gmx",
		"mx.example.com":                                    "",
		"notgoogle.com":                                     "",
		"mx.evilgoogle.com":                                 "",
		"mx.example.com aspmx.l.google.com":                 "google",
		"eu-smtp-inbound-1.mimecast.com aspmx.l.google.com": "mimecast",
		"park-mx.above.com":                                 "parking-above",
		"mx.above.com":                                      "",
		"":                                                  "",
	} {
		require.Equal(t, want, table.Match(strings.Fields(hosts)).ID, hosts)
	}
}

func TestProviderOfHint(t *testing.T) {
	table := DefaultTable()
	for hint, want := range map[string]string{
		"":                   "",
		"google":             "google",
		"aspmx.l.google.com": "google",
		"Postfix example-de.mail.protection.outlook.com": "microsoft365",
		"Sendmail smtp-in.orange.fr":                     "orange",
		"franceptt":                                      "orange",
		"RFC3464 security.cloud":                         "messagelabs",
		"yahooinc":                                       "yahoo",
		"Outlook.com":                                    "outlook",
		"Postfix":                                        "",
		"gmail mx3.qq.com":                               "qq",
	} {
		require.Equal(t, want, table.ProviderOfHint(hint).ID, hint)
	}
}

func TestOverride(t *testing.T) {
	table := DefaultTable()
	over, err := table.Override([]byte(`
retry_schedule = ["1s", "2s"]
[defaults.limits]
recipients_per_minute = 6000
[[provider]]
id = "google"
probe = "off"
[provider.limits]
refusals_per_hour = 0
[[provider.rule]]
id = "no-such-user"
text = ["nobody at all"]
meaning = "no_mailbox"
[[provider]]
id = "house"
name = "Our house"
mx = [".house.example"]
[[provider.rule]]
id = "gone"
code = 550
text = "gone\\s+away"
meaning = "no_mailbox"
`))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second}, over.Schedule)
	require.Equal(t, 6000, over.Unknown.Limits.RecipientsPerMinute)
	require.Equal(t, 2, over.Unknown.Limits.Connections)
	google := over.Provider("google")
	require.False(t, google.Probe)
	require.Equal(t, 0, google.Limits.RefusalsPerHour)
	require.Equal(t, 5, google.Limits.Connections)
	require.Len(t, google.Rules, len(table.Provider("google").Rules))
	require.Equal(t, "google/no-such-user", google.Rules[0].ID)
	houseProvider := over.Match([]string{"mx.house.example"})
	require.Equal(t, 6000, houseProvider.Limits.RecipientsPerMinute)
	r, err := ParseReply(StageRcpt, "550 They have gone  away")
	require.NoError(t, err)
	require.Equal(t, "house/gone", over.Classify(houseProvider, r, SenderIdentity{}).Rule)

	require.NotEqual(t, table.Hash(), over.Hash())
	require.True(t, table.Provider("google").Probe, "the shipped table is unchanged")
	require.Equal(t, 200, table.Provider("google").Limits.RefusalsPerHour)
	require.Equal(t, 60, table.Unknown.Limits.RecipientsPerMinute)
}

// TestOldProviderInNewTable: a route keeps its provider when the table is replaced.
func TestOldProviderInNewTable(t *testing.T) {
	table := DefaultTable()
	over, err := table.Override([]byte("[[provider]]\nid = \"gmx\"\n[provider.limits]\nconnections = 1\n"))
	require.NoError(t, err)
	r, err := ParseReply(StageRcpt, "550 requested action not taken: mailbox unavailable")
	require.NoError(t, err)
	require.Equal(t, "gmx/no-mailbox", over.Classify(table.Provider("gmx"), r, SenderIdentity{}).Rule)
}

func TestRefusedFiles(t *testing.T) {
	table := DefaultTable()
	for text, want := range map[string]string{
		"a = 1\n":                               `line 1: unknown key "a"`,
		"\n[defaults.limits]\nconections = 3\n": `line 3: unknown key "defaults.limits.conections"`,
		"[[provider]]\nid = \"google\"\n[provider.limits]\nrefusals_per_our = 3\n":                           `line 4: unknown key "provider.limits.refusals_per_our"`,
		"[[provider]]\nid = \"google\"\n[[provider.rule]]\nid = \"x\"\ntxet = \"y\"\nmeaning = \"policy\"\n": `line 5: unknown key "provider.rule.txet"`,
		"retry_schedule = [\"soon\"]":                                                       "retry_schedule",
		"retry_schedule = \"1m\"":                                                           "retry_schedule",
		"[[provider]]\nid = ":                                                               "line 2",
		"[defaults.limits]\nconnections = -1":                                               "connections = -1",
		"[[provider]]\nid = \"google\"\ntls = \"maybe\"":                                    "tls",
		"[[provider]]\nid = \"google\"\nprobe = \"perhaps\"":                                "probe",
		"[[provider]]\nid = \"new\"\n":                                                      "name is missing",
		"[[provider]]\nid = \"new\"\nname=\"N\"\n":                                          "mx is missing",
		"[[provider]]\nid = \"new\"\nname=\"N\"\nmx=[\".google.com\"]\n":                    `belongs to "google"`,
		"[[provider]]\nid = \"google\"\n[[provider]]\nid = \"google\"\n":                    "given twice",
		"[[rule]]\nid = \"x\"\ncode = \"550\"\nmeaning = \"no_mailbox\"\n":                  "needs an enhanced code or a text",
		"[[rule]]\nid = \"x\"\nmeaning = \"dead\"\n":                                        "meaning",
		"[[rule]]\nid = \"x\"\ncode = \"55\"\nmeaning = \"policy\"\n":                       "three digits",
		"[[rule]]\nid = \"x\"\nenhanced = \"5.1\"\nmeaning = \"policy\"\n":                  "three numbers",
		"[[rule]]\nid = \"x\"\ntext = \"(\"\nmeaning = \"policy\"\n":                        "error parsing regexp",
		"[[rule]]\nid = \"x\"\ntext = [\"(a|b\"]\nmeaning = \"policy\"\n":                   "parenthesis",
		"[[rule]]\nid = \"x\"\ntext = [\"a\"]\nmeaning = \"policy\"\n":                      "fewer than two letters",
		"[[rule]]\nid = \"x\"\ntext = [\"ab\"]\nmeaning = \"policy\"\naction = \"pause\"\n": "needs a duration",
		"[[rule]]\nid = \"x\"\ntext = [\"ab\"]\nmeaning = \"no_mailbox\"\nblame = \"us\"\n": "does not go with",
	} {
		_, err := table.Override([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestMailboxRuleBreaks(t *testing.T) {
	rule := DefaultTable().Provider("google").Mailbox
	for address, want := range map[string]bool{
		"abcdef@gmail.com":                     false,
		"abcde@gmail.com":                      true,
		"a.b.c.d.e.f@gmail.com":                false,
		"a.b.c.d.e@googlemail.com":             true,
		"abc_def@gmail.com":                    true,
		"abcdef+anything_goes@gmail.com":       false,
		"abc+def@gmail.com":                    true,
		strings.Repeat("a", 30) + "@gmail.com": false,
		strings.Repeat("a", 31) + "@gmail.com": true,
		"abc@example.com":                      false,
	} {
		local, domain, _ := strings.Cut(address, "@")
		require.Equal(t, want, rule.Breaks(newAddress(address, local, domain)), address)
	}
	require.False(t, (*MailboxRule)(nil).Breaks(newAddress("a@gmail.com", "a", "gmail.com")))
}

func TestSpeedup(t *testing.T) {
	shipped := DefaultTable()
	for file, want := range map[string]time.Duration{"": 24 * time.Hour, "speedup = 36000\n": 2400 * time.Millisecond,
		"speedup = 0.5": 48 * time.Hour,
		"speedup = 0":   1, "speedup = 1e9": 86400} {
		table, err := shipped.Override([]byte(file))
		require.NoError(t, err, file)
		require.Equal(t, want, table.Scaled(24*time.Hour), file)
		require.Zero(t, table.Scaled(0))
		again, err := table.Override([]byte("retry_schedule = []\n"))
		require.NoError(t, err)
		require.Equal(t, table.Speedup, again.Speedup, "a further file leaves it alone")
	}
	for _, file := range []string{"speedup = -1", "speedup = 0.0001", "speedup = 1e10", "speedup = nan",
		"speedup = inf", "speedup = \"2\""} {
		_, err := shipped.Override([]byte(file))
		require.Error(t, err, file)
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add([]byte("[[rule]]\nid = \"x\"\ntext = [\"no (such |)user\"]\nmeaning = \"no_mailbox\"\n"))
	f.Add([]byte("[[provider]]\nid = \"p\"\nname = \"P\"\nmx = [\".p.example\"]\n[provider.limits]\nconnections = 1\n"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		table, err := ParseTable(data)
		if err == nil {
			table.Classify(nil, Reply{Stage: StageRcpt, Code: 550, Lines: []string{string(data)}}, SenderIdentity{})
		}
	})
}
