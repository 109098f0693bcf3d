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
		{"recipients_per_connection", l.RecipientsPerConnection},
		{"transactions_per_connection", l.TransactionsPerConnection},
		{"refusals_per_connection", l.RefusalsPerConnection}, {"refusals_per_hour", l.RefusalsPerHour},
	}
}

// warnings compares a valid table with the shipped one.
func (c *fileCheck) warnings(table *engine.Table) []Remark {
	var out []Remark
	if table.Speedup != 1 {
		out = append(out, c.warn("", "speedup", "remove it, unless this is for a simulated internet of that speed-up",
			"pauses and quarantines last 1/%v of their time; 0 is no time at all", table.Speedup))
	}
	for i, wait := range table.Schedule {
		if i < len(c.shipped.Schedule) && wait < c.shipped.Schedule[i] {
			out = append(out, c.warn("", "retry_schedule",
				"keep the shipped schedule: receivers that greylist refuse early retries, and count them",
				"wait %d is %s, shipped %s", i+1, formatDuration(wait), formatDuration(c.shipped.Schedule[i])))
			break
		}
	}
	out = append(out, c.warnLimits("", table.Unknown, c.shipped.Unknown)...)
	for _, p := range table.Providers {
		before := c.shipped.Provider(p.ID)
		if before == nil {
			before = c.shipped.Unknown
			if p.Source == "" || p.Date == "" { // it cannot be traced
				out = append(out, c.warn(p.ID, "provider", "add source and date (YYYY-MM-DD)",
					"a new provider without source and date"))
			}
		}
		// else reported once, of the defaults
		if table.Unknown.Limits == c.shipped.Unknown.Limits || p.Limits != table.Unknown.Limits {
			out = append(out, c.warnLimits(p.ID, p, before)...)
		}
		out = append(out, c.warnFlags(p, before)...)
		out = append(out, c.warnRules(p.ID, p.Rules, before.Rules)...)
	}
	out = append(out, c.warnRules("", table.Generic, c.shipped.Generic)...)
	slices.SortStableFunc(out, func(a, b Remark) int { return a.Line - b.Line })
	return out
}

// warn is a remark at the line of a key, or of the provider where the key is not in the file.
func (c *fileCheck) warn(provider, key, advice, format string, args ...any) Remark {
	line := c.line(provider, key)
	what := fmt.Sprintf(format, args...)
	if provider != "" {
		what = provider + ": " + what
	}
	return Remark{Line: line, Key: key, Severity: Warn, Message: what, Advice: advice}
}

// line finds a key of a provider, or of the file where provider is empty.
func (c *fileCheck) line(provider, path string) int {
	for _, block := range c.blocks {
		if idIn(c.data, block, "provider") != provider {
			continue
		}
		for _, s := range block {
			if s.Path() == path {
				return s.Line
			}
		}
		if provider != "" {
			return block[0].Line
		}
	}
	return 0
}

const keepShippedAdvice = "keep the shipped figure, unless the receiver has told you otherwise: name that in source and date"

// warnLimits warns of budgets that allow more than the shipped ones.
func (c *fileCheck) warnLimits(id string, now, before *engine.Provider) []Remark {
	key, basis := "provider.limits.", "shipped"
	if id == "" {
		key = "defaults.limits."
	} else if before.ID == "" {
		basis = "shipped for unknown receivers"
	}
	var out []Remark
	old := NamedLimits(before.Limits)
	for i, l := range NamedLimits(now.Limits) {
		if o := old[i].Value; o > 0 && (l.Value == 0 || l.Value > o) {
			out = append(out, c.warn(id, key+l.Key, keepShippedAdvice, "%s = %s is looser than %d, %s%s", l.Key,
				formatLimit(l.Value), o, basis, sourceSuffix(before.Source, before.Date)))
		}
	}
	return out
}

func formatLimit(n int) string {
	if n == 0 {
		return "0 (no limit)"
	}
	return fmt.Sprint(n)
}

func sourceSuffix(source, date string) string {
	if source == "" {
		return ""
	}
	return fmt.Sprintf(" (%s, %s)", source, date)
}

// warnFlags warns of a provider's flags that are less careful than before.
func (c *fileCheck) warnFlags(now, before *engine.Provider) []Remark {
	var out []Remark
	if now.Probe && !before.Probe {
		out = append(out, c.warn(now.ID, "provider.probe", "keep probe = \"off\" unless you have their permission",
			"asks a receiver that the shipped table does not ask: %s", before.Terms))
	}
	if before.ID != "" && now.Kind != before.Kind && now.Kind != engine.KindNarrow && before.Kind != engine.KindWide {
		out = append(out, c.warnKind(now, before))
	}
	if !now.AcceptAll && before.AcceptAll {
		out = append(out, c.warn(now.ID, "provider.accept_all",
			"be sure that it refuses unknown recipients at RCPT now",
			"an acceptance will be believed where the shipped table does not"))
	}
	if !now.AcceptsSilently && before.AcceptsSilently {
		out = append(out, c.warn(now.ID, "provider.accepts_silently", keepShippedAdvice,
			"acceptances past its threshold would be believed"))
	}
	if !now.OneDomain && before.OneDomain {
		out = append(out, c.warn(now.ID, "provider.one_domain_per_transaction", keepShippedAdvice,
			"several domains in one transaction, which it refuses"))
	}
	if now.TLS != engine.TLSRequired && before.TLS == engine.TLSRequired {
		out = append(out, c.warn(now.ID, "provider.tls", keepShippedAdvice, "tls = %q, where the receiver requires it",
			now.TLS))
	}
	return out
}

// warnKind warns of a kind that lets more sources ask than the shipped limits were made for.
func (c *fileCheck) warnKind(now, before *engine.Provider) Remark {
	meant := "one source of the whole fleet"
	if before.Kind == engine.KindTenants {
		meant = "sources of which one asks each domain"
	}
	return c.warn(now.ID, "provider."+now.Kind.String(),
		"leave it "+before.Kind.String()+", unless the receiver has told you otherwise: name that in source and date",
		"%s = true spreads it over all sources; the shipped limits are meant for %s", now.Kind, meant)
}

// formatDuration writes a duration without trailing zero units.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// warnRules warns of rules that are milder than the shipped ones of the same id, that condemn where those did not, or
// that have no source.
func (c *fileCheck) warnRules(id string, now, before []engine.Rule) []Remark {
	var out []Remark
	for i := range now {
		r := &now[i]
		k := slices.IndexFunc(before, func(b engine.Rule) bool { return b.ID == r.ID })
		if k < 0 || !sameRule(r, &before[k]) {
			var old *engine.Rule
			if k >= 0 {
				old = &before[k]
			}
			out = append(out, c.warnRule(id, r, old)...)
		}
	}
	return out
}

// sameRule compares what a rule does; which replies it matches is its author's decision.
func sameRule(a, b *engine.Rule) bool {
	return a.Meaning == b.Meaning && a.Action == b.Action && a.Source == b.Source && a.Date == b.Date
}

func (c *fileCheck) warnRule(provider string, now, before *engine.Rule) []Remark {
	line := c.ruleLine(provider, now.ID)
	var out []Remark
	report := func(advice, format string, args ...any) {
		out = append(out, Remark{Line: line, Key: now.ID, Severity: Warn, Message: fmt.Sprintf(format, args...),
			Advice: advice})
	}
	if now.Source == "" || now.Date == "" {
		report("add source and date (YYYY-MM-DD): verdicts are explained by them", "the rule has no source and date")
	}
	if before == nil {
		return out
	}
	if now.Action.Kind < before.Action.Kind || now.Action.Kind == before.Action.Kind &&
		now.Action.For < before.Action.For {
		report("keep the shipped action, unless the receiver has told you otherwise", "%s is milder than %s, shipped",
			actionWords(now.Action), actionWords(before.Action))
	}
	if rejectsAddress(now.Meaning) && !rejectsAddress(before.Meaning) {
		report("be sure that this reply is about the mailbox and never about us",
			"condemns addresses (%s), where the shipped rule says %s", now.Meaning, before.Meaning)
	}
	return out
}

func rejectsAddress(m engine.Meaning) bool {
	return m == engine.NoMailbox || m == engine.MailboxDisabled
}

func actionWords(a engine.Action) string {
	if a.For == 0 {
		return a.Kind.String()
	}
	return a.Kind.String() + " for " + formatDuration(a.For)
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
		for _, table := range splitAt(block, isHeader) {
			if table[0].Header == header && idIn(c.data, table, header) == own {
				return table[0].Line
			}
		}
	}
	return 0
}
