package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/detector"
)

// remarks are those of a file as "line key: what", the level first.
func remarks(t *testing.T, file string) []string {
	table, list := CheckProviders(engine.DefaultTable(), []byte(file))
	var out []string
	for _, r := range list {
		require.Equal(t, r.Severity == Fail, table == nil)
		out = append(out, fmt.Sprintf("%s %d %s: %s", r.Severity, r.Line, r.Key, r.Message))
	}
	if table == nil {
		require.NotEmpty(t, out)
	}
	return out
}

func TestProviderFileRemarks(t *testing.T) {
	detector.SpareByDay(t)
	for _, c := range []struct {
		name, file string
		want       []string // beginnings
	}{
		{"empty", "", nil},
		{"stricter", "[[provider]]\nid = \"google\"\nprobe = \"off\"\n[provider.limits]\nconnections = 1\n", nil},
		{"syntax", "retry_schedule = [\n\"1m\",\n[[provider]]\n", []string{"fail 3 "}},
		{"misspelt limit", "\n[[provider]]\nid = \"google\"\n[provider.limits]\nconnections = 1\nconections = 2\n",
			[]string{`fail 6 provider.limits.conections: unknown key`}},
		{"misspelt in the second of two", "[[provider]]\nid = \"yahoo\"\nprobe = \"off\"\n[[provider]]\nid = \"google\"\nprobes = \"off\"\n",
			[]string{`fail 6 provider.probes: unknown key`}},
		{"bad values, each at its line", "retry_schedule = [\n  \"soon\",\n]\n[[provider]]\nid = \"google\"\nprobe = \"perhaps\"\n[provider.limits]\nconnections = -1\nrefusals_per_hour = 9000000\n",
			[]string{"fail 1 retry_schedule: \"soon\"", "fail 6 provider.probe: ",
				"fail 8 provider.limits.connections: -1: from 0",
				"fail 9 provider.limits.refusals_per_hour: 9000000: from 0"}},
		{"wrong type", "[[provider]]\nid = \"google\"\n[provider.limits]\nconnections = \"many\"\n",
			[]string{"fail 4 provider.limits.connections: "}},
		{"a new one without mx", "[[provider]]\nid = \"mine\"\nname = \"Mine\"\n",
			[]string{`fail 1 provider: "mine": mx is missing`}},
		{"an mx of another", "[[provider]]\nid = \"mine\"\nname = \"Mine\"\nmx = [\".google.com\"]\n",
			[]string{`fail 1 provider: "mine": mx ".google.com" belongs to`}},
		{"a rule without an id", "[[provider]]\nid = \"google\"\n[[provider.rule]]\nmeaning = \"blocked\"\n",
			[]string{"fail 3 provider.rule: "}},
		{"a rule with a bad meaning", "[[rule]]\nid = \"x\"\n# why\nmeaning = \"dead\"\ntext = '''a # \" b'''\n",
			[]string{`fail 4 rule.meaning: "dead": one of `}},
		{"a rule with a bad action", "[[rule]]\nid = \"x\"\nmeaning = \"blocked\"\naction = \"run\"\n",
			[]string{"fail 4 rule.action: "}},
		{"bad vetoes", "[[veto]]\nid = \"v\"\nmeaning = \"no_mailbox\"\ntext = [\"abc def\"]\n[[veto]]\nid = \"w\"\nmeaning = \"policy\"\n", []string{
			"fail 3 veto.meaning: meaning no_mailbox: ", `fail 5 veto: "w": text is missing`}},
		{"given twice", "[[provider]]\nid = \"google\"\n[[provider]]\nid = \"google\"\n",
			[]string{`fail 3 provider: "google": given twice`}},
		{"all of one provider", `[[provider]]
id = "google"
probe = "maybe"
wide = 3
foo = 1
[provider.limits]
recipients_per_minute = "many"
connections = -1
[[provider.rule]]
id = "a"
meaning = "nonsense"
text = ["x"]
[[provider.rule]]
id = "b"
meaning = "no_mailbox"
[[provider.rule]]
id = "c"
meaning = "blocked"
action = "slow"
`, []string{`fail 3 provider.probe: ["maybe"]: on or off`, "fail 4 provider.wide: true or false is expected, found 3", "fail 5 provider.foo: unknown key", "fail 7 provider.limits.recipients_per_minute: a whole number is expected, found the text \"many\"",
			"fail 8 provider.limits.connections: -1: from 0", `fail 11 provider.rule.meaning: "nonsense": one of`,
			`fail 12 provider.rule.text: "x": fewer than two letters`,
			"fail 13 provider.rule: provider \"google\": rule \"google/b\": no_mailbox needs an enhanced code or a text", "fail 19 provider.rule.action: provider \"google\": rule \"google/c\": action slow needs a duration"}},
		{"all of one head", "[[provider]]\nid = \"mine\"\n",
			[]string{`fail 1 provider: "mine": name is missing`, `fail 1 provider: "mine": mx is missing`}},
		{"all of one head, behind an mx of another",
			"[[provider]]\nid = \"mine\"\nmx = [\".google.com\"]\nwide = 3\n[[provider.rule]]\nid = \"a\"\n[[provider.rule]]\nmeaning = \"blocked\"\n", []string{
				`fail 1 provider: "mine": name is missing`, `fail 1 provider: "mine": mx ".google.com" belongs to`,
				"fail 4 provider.wide: ", "fail 5 provider.rule: ", "fail 7 provider.rule: "}},
		{"given twice, and bad otherwise", "[[provider]]\nid = \"google\"\n[[provider]]\nid = \"google\"\nprobe = \"perhaps\"\n[[provider.rule]]\nid = \"a\"\n", []string{
			`fail 3 provider: "google": given twice`, "fail 5 provider.probe: ", "fail 6 provider.rule: "}},
		{"a head without a name above limits", "[[provider]]\nid = \"mine\"\n[provider.limits]\nconnections = 1\n[[provider.rule]]\nid = \"a\"\n", []string{
			`fail 1 provider: "mine": name is missing`, `fail 1 provider: "mine": mx is missing`,
			"fail 5 provider.rule: "}},
		{"a bad id and a bad rule", "[[provider]]\nid = \"Google Mail\"\n[[provider.rule]]\nid = \"a\"\n",
			[]string{"fail 2 provider.id: ", "fail 3 provider.rule: "}},
		{"a bad name and no mx", "[[provider]]\nid = \"mine\"\nname = 7\n",
			[]string{"fail 1 provider: ", "fail 3 provider.name: "}},
		{"a shipped provider's own mx", "[[provider]]\nid = \"google\"\nmx = [\".google.com\", \".googlemail.com\"]\n",
			nil},

		{"looser", "[[provider]]\nid = \"google\"\n[provider.limits]\nconnections = 50\nrefusals_per_hour = 0\n",
			[]string{"warn 4 provider.limits.connections: google: connections = 50 is looser than 5",
				"warn 5 provider.limits.refusals_per_hour: google: refusals_per_hour = 0 (no limit) is looser than 200"}},
		{"looser defaults", "[defaults.limits]\nconnections = 20\n",
			[]string{"warn 2 defaults.limits.connections: connections = 20 is looser than 2"}},
		{"hasty", "retry_schedule = [\"10s\", \"5m\"]\n", []string{"warn 1 retry_schedule: wait 1 is 10s, shipped 1m"}},
		{"for a simulated internet", "# why\nspeedup = 3600\n",
			[]string{"warn 2 speedup: pauses and quarantines last 1/3600"}},
		{"a narrow one made wide", "[[provider]]\nid = \"facebook\"\nwide = true\n",
			[]string{"warn 3 provider.wide: facebook: wide = true spreads it over all sources; the shipped limits are meant for one source of the whole fleet"}},
		{"a narrow one with tenants", "[[provider]]\nid = \"facebook\"\ntenants = true\nfleet_sources = 2\n",
			[]string{"warn 3 provider.tenants: facebook: tenants = true spreads it"}},
		{"tenants made wide", "[[provider]]\nid = \"proofpoint\"\nwide = true\n",
			[]string{"warn 3 provider.wide: proofpoint: wide = true spreads it over all sources; the shipped limits are meant for sources of which one asks each domain"}},
		{"narrower kinds", "[[provider]]\nid = \"google\"\ntenants = true\n[[provider]]\nid = \"mimecast\"\ntenants = false\n[[provider]]\nid = \"cisco\"\nfleet_sources = 3\n", nil},
		{"fleet_sources of a narrow one", "[[provider]]\nid = \"facebook\"\nfleet_sources = 2\n",
			[]string{"fail 3 provider.fleet_sources: provider \"facebook\": fleet_sources limits a provider with wide or tenants"}},
		{"of two kinds", "[[provider]]\nid = \"facebook\"\nwide = true\ntenants = true\n", []string{"fail "}},
		{"believes yahoo", "[[provider]]\nid = \"yahoo\"\naccept_all = false\n",
			[]string{"warn 3 provider.accept_all: yahoo: "}},
		{"no TLS", "[[provider]]\nid = \"orange\"\ntls = \"never\"\n", []string{"warn 3 provider.tls: orange: "}},
		{"untraceable", "[[provider]]\nid = \"mine\"\nname = \"Mine\"\nmx = [\".mine.org\"]\n",
			[]string{"warn 1 provider: mine: a new provider without"}},
		{"milder rule", "[[provider]]\nid = \"google\"\n\n[[provider.rule]]\nid = \"low-reputation\"\ntext = [\"low reputation\"]\nmeaning = \"blocked\"\naction = \"slow\"\nfor = \"1m\"\nsource = \"us\"\ndate = \"2025-01-01\"\n",
			[]string{"warn 4 google/low-reputation: slow for 1m is milder than quarantine for 6h"}},
		{"condemning rule", "[[provider]]\nid = \"google\"\n[[provider.rule]]\nid = \"low-reputation\"\ntext = [\"low reputation\"]\nmeaning = \"no_mailbox\"\naction = \"quarantine\"\nfor = \"6h\"\n",
			[]string{"warn 3 google/low-reputation: the rule has no source",
				"warn 3 google/low-reputation: condemns addresses (no_mailbox)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := remarks(t, c.file)
			require.Len(t, got, len(c.want), "%q", got)
			for i, want := range c.want {
				require.Truef(t, strings.HasPrefix(got[i], want), "got  %s\nwant %s", got[i], want)
			}
		})
	}
}

func TestShippedRulesHaveSourceAndDate(t *testing.T) {
	table := engine.DefaultTable()
	for _, p := range table.Providers {
		require.NotEmpty(t, p.Source, p.ID)
		require.NotEmpty(t, p.Date, p.ID)
		for _, r := range p.Rules {
			require.NotEmpty(t, r.Source, r.ID)
			require.NotEmpty(t, r.Date, r.ID)
		}
	}
	for _, r := range table.Generic {
		require.NotEmpty(t, r.Source, r.ID)
		require.NotEmpty(t, r.Date, r.ID)
	}
}

// FuzzCheckProviders holds that a refused file has mistakes at lines that it has.
func FuzzCheckProviders(f *testing.F) {
	f.Add("[[provider]]\nid = \"google\"\nlimits = {connections = \"x\"}\n[[provider.rule]]\nid = \"a\"\ntext = [\"(\"]\n[[veto]]\nexcept = [\"(\"]\n[rule]\nid = 1")
	f.Add("speedup = \"2\"\n[provider]\nid = 1\nrule = [{id = \"a\"}]\n[defaults]\nlimits = 3\nretry_schedule = [1]")
	shipped := engine.DefaultTable()
	f.Fuzz(func(t *testing.T, file string) {
		table, list := CheckProviders(shipped, []byte(file))
		if table == nil && len(list) == 0 {
			t.Fatalf("%q: refused without a remark", file)
		}
		for _, r := range list {
			if (r.Severity == Fail) != (table == nil) || r.Line < 0 || r.Line > 1+strings.Count(file, "\n") ||
				r.Message == "" {
				t.Fatalf("%q: %+v", file, r)
			}
		}
	})
}
