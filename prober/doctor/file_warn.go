package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"probity/engine"
)

// NamedLimit is one limit with its key in a provider file. Zero is no limit.
type NamedLimit struct {
	Key   string
	Value int
}

// NamedLimits lists limits in the order of a provider file.
func NamedLimits(l engine.Limits) []NamedLimit {
	return []NamedLimit{
		{"connections", l.Connections}, {"connections_per_minute", l.ConnectionsPerMinute},
		{"recipients_per_minute", l.RecipientsPerMinute}, {"recipients_per_transaction", l.RecipientsPerTransaction},
		{"recipients_per_connection", l.RecipientsPerConnection}, {"transactions_per_connection", l.TransactionsPerConnection},
		{"refusals_per_connection", l.RefusalsPerConnection}, {"refusals_per_hour", l.RefusalsPerHour},
	}
}

// warnings compares a good table with the shipped one.
func (c *fileCheck) warnings(table *engine.Table) []Remark {
	out := append(c.speedup(table), c.schedule(table)...)
	out = append(out, c.limits("", table.Unknown, c.shipped.Unknown)...)
	for _, p := range table.Providers {
		before := c.shipped.Provider(p.ID)
		if before == nil {
			out = append(out, c.newcomer(p)...)
			before = c.shipped.Unknown
		}
		if table.Unknown.Limits == c.shipped.Unknown.Limits || p.Limits != table.Unknown.Limits { // else told once, of the defaults
			out = append(out, c.limits(p.ID, p, before)...)
		}
		out = append(out, c.switches(p, before)...)
		out = append(out, c.rules(p.ID, p.Rules, before.Rules)...)
	}
	out = append(out, c.rules("", table.Generic, c.shipped.Generic)...)
	slices.SortStableFunc(out, func(a, b Remark) int { return a.Line - b.Line })
	return out
}

// warn is a remark at the line of a key, or of the provider where the key is not in the file.
func (c *fileCheck) warn(provider, key, do, format string, args ...any) Remark {
	line := c.line(provider, key)
	what := fmt.Sprintf(format, args...)
	if provider != "" {
		what = provider + ": " + what
	}
	return Remark{Line: line, Key: key, Level: Warn, What: what, Do: do}
}

// line finds a key of a provider, or of the file where provider is empty.
func (c *fileCheck) line(provider, path string) int {
	for _, block := range c.blocks {
		if idIn(c.data, block, "provider") != provider {
			continue
		}
		for _, s := range block {
			if s.path() == path {
				return s.line
			}
		}
		if provider != "" {
			return block[0].line
		}
	}
	return 0
}

const sure = "keep the shipped figure, unless the receiver has told you otherwise: name that in source and date"

// limits warns of budgets that allow more than the shipped ones.
func (c *fileCheck) limits(id string, now, before *engine.Provider) []Remark {
	key, than := "provider.limits.", "shipped"
	if id == "" {
		key = "defaults.limits."
	} else if before.ID == "" {
		than = "shipped for unknown receivers"
	}
	var out []Remark
	old := NamedLimits(before.Limits)
	for i, l := range NamedLimits(now.Limits) {
		if o := old[i].Value; o > 0 && (l.Value == 0 || l.Value > o) {
			out = append(out, c.warn(id, key+l.Key, sure, "%s = %s is looser than %d, %s%s", l.Key, amount(l.Value), o, than, sourced(before.Source, before.Date)))
		}
	}
	return out
}

func amount(n int) string {
	if n == 0 {
		return "0 (no limit)"
	}
	return fmt.Sprint(n)
}

func sourced(source, date string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf(" (%s, %s)", source, date)
}

// switches warns of a provider's flags that are less careful than before.
func (c *fileCheck) switches(now, before *engine.Provider) []Remark {
	var out []Remark
	if now.Probe && !before.Probe {
		out = append(out, c.warn(now.ID, "provider.probe", "keep probe = \"off\" unless you have their leave", "asks a receiver that the shipped table does not ask: %s", before.Terms))
	}
	if before.ID != "" && now.Kind != before.Kind && now.Kind != engine.KindNarrow && before.Kind != engine.KindWide {
		out = append(out, c.widened(now, before))
	}
	if !now.AcceptAll && before.AcceptAll {
		out = append(out, c.warn(now.ID, "provider.accept_all", "be sure that it refuses unknown recipients at RCPT now", "an acceptance will be believed where the shipped table does not"))
	}
	if !now.AcceptsSilently && before.AcceptsSilently {
		out = append(out, c.warn(now.ID, "provider.accepts_silently", sure, "acceptances past its threshold would be believed"))
	}
	if !now.OneDomain && before.OneDomain {
		out = append(out, c.warn(now.ID, "provider.one_domain_per_transaction", sure, "several domains in one transaction, which it refuses"))
	}
	if now.TLS != engine.TLSRequired && before.TLS == engine.TLSRequired {
		out = append(out, c.warn(now.ID, "provider.tls", sure, "tls = %q, where the receiver requires it", now.TLS))
	}
	return out
}

// widened warns of a kind that lets more sources ask than the shipped limits were made for.
func (c *fileCheck) widened(now, before *engine.Provider) Remark {
	meant := "one source of the whole fleet"
	if before.Kind == engine.KindTenants {
		meant = "sources of which one asks each domain"
	}
	return c.warn(now.ID, "provider."+now.Kind.String(), "leave it "+before.Kind.String()+", unless the receiver has told you otherwise: name that in source and date",
		"%s = true spreads it over all sources; the shipped limits are meant for %s", now.Kind, meant)
}

// newcomer warns of a new provider without source or date: it cannot be traced.
func (c *fileCheck) newcomer(p *engine.Provider) []Remark {
	if p.Source != "" && p.Date != "" {
		return nil
	}
	return []Remark{c.warn(p.ID, "provider", "add source and date (YYYY-MM-DD)", "a new provider without source and date")}
}

// schedule warns of retries that come sooner than before.
func (c *fileCheck) schedule(table *engine.Table) []Remark {
	for i, wait := range table.Schedule {
		if i < len(c.shipped.Schedule) && wait < c.shipped.Schedule[i] {
			return []Remark{c.warn("", "retry_schedule", "keep the shipped schedule: receivers that greylist refuse early retries, and count them",
				"wait %d is %s, shipped %s", i+1, short(wait), short(c.shipped.Schedule[i]))}
		}
	}
	return nil
}

// speedup warns of a table that is not for real receivers.
func (c *fileCheck) speedup(table *engine.Table) []Remark {
	if table.Speedup == 1 {
		return nil
	}
	return []Remark{c.warn("", "speedup", "remove it, unless this is for a pretend internet of that speed-up",
		"pauses and quarantines last 1/%v of their time; 0 is no time at all", table.Speedup)}
}

// short writes a duration without trailing zero units.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// rules warns of rules that are milder than the shipped ones of the same id, that condemn where those did not, or that have no source.
func (c *fileCheck) rules(id string, now, before []engine.Rule) []Remark {
	var out []Remark
	for i := range now {
		r := &now[i]
		k := slices.IndexFunc(before, func(b engine.Rule) bool { return b.ID == r.ID })
		if k < 0 || !sameRule(r, &before[k]) {
			var old *engine.Rule
			if k >= 0 {
				old = &before[k]
			}
			out = append(out, c.rule(id, r, old)...)
		}
	}
	return out
}

// sameRule compares what a rule does; one that is only asked of other replies is a matter of its author.
func sameRule(a, b *engine.Rule) bool {
	return a.Meaning == b.Meaning && a.Action == b.Action && a.Source == b.Source && a.Date == b.Date
}

func (c *fileCheck) rule(provider string, now, before *engine.Rule) []Remark {
	line := c.ruleLine(provider, now.ID)
	var out []Remark
	say := func(do, format string, args ...any) {
		out = append(out, Remark{Line: line, Key: now.ID, Level: Warn, What: fmt.Sprintf(format, args...), Do: do})
	}
	if now.Source == "" || now.Date == "" {
		say("add source and date (YYYY-MM-DD): verdicts are explained by them", "the rule has no source and date")
	}
	if before == nil {
		return out
	}
	if now.Action.Kind < before.Action.Kind || now.Action.Kind == before.Action.Kind && now.Action.For < before.Action.For {
		say("keep the shipped action, unless the receiver has told you otherwise", "%s is milder than %s, shipped", actionWords(now.Action), actionWords(before.Action))
	}
	if condemns(now.Meaning) && !condemns(before.Meaning) {
		say("be sure that this reply is about the mailbox and never about us", "condemns addresses (%s), where the shipped rule says %s", now.Meaning, before.Meaning)
	}
	return out
}

func condemns(m engine.Meaning) bool { return m == engine.NoMailbox || m == engine.MailboxDisabled }

func actionWords(a engine.Action) string {
	if a.For == 0 {
		return a.Kind.String()
	}
	return a.Kind.String() + " for " + short(a.For)
}

// ruleLine finds a rule's header by its id, "provider/id" or "generic/id".
func (c *fileCheck) ruleLine(provider, id string) int {
	_, own, _ := strings.Cut(id, "/")
	header := "rule"
	if provider != "" {
		header = "provider.rule"
	}
	for _, block := range c.blocks {
		if idIn(c.data, block, "provider") != provider {
			continue
		}
		for _, table := range tablesOf(block) {
			if table[0].header == header && idIn(c.data, table, header) == own {
				return table[0].line
			}
		}
	}
	return 0
}
