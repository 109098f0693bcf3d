package providerview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/internal/console"
	"probity/prober/doctor"
)

// View is the provider table as shown to the user.
type View struct {
	Hash          string         `json:"hash"`
	RetrySchedule []string       `json:"retry_schedule"`
	Defaults      map[string]int `json:"defaults"`
	Providers     []providerView `json:"providers"`
	Rules         []ruleView     `json:"rules"` // for all providers

	defaults engine.Limits
}

type providerView struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	MX           []string       `json:"mx"`
	Aliases      []string       `json:"aliases"`
	Probe        bool           `json:"probe"`
	Wide         bool           `json:"wide"`
	Kind         string         `json:"kind"` // narrow, wide or tenants
	FleetSources int            `json:"fleet_sources"`
	ByAddress    []string       `json:"by_address"`
	AcceptAll    bool           `json:"accept_all"`
	Parking      bool           `json:"parking"`
	OneDomain    bool           `json:"one_domain_per_transaction"`
	Silently     bool           `json:"accepts_silently"`
	TLS          string         `json:"tls"`
	Limits       map[string]int `json:"limits"` // 0 is no limit
	Source       string         `json:"source"`
	Date         string         `json:"date"`
	Terms        string         `json:"terms"`
	TermsForbid  bool           `json:"terms_forbid"`
	TermsSource  string         `json:"terms_source"`
	Mailbox      *mailboxView   `json:"mailbox"`
	Rules        []ruleView     `json:"rules"`

	limits engine.Limits
}

type mailboxView struct {
	Domains   []string `json:"domains"`
	Min       int      `json:"min"`
	Max       int      `json:"max"`
	Allowed   string   `json:"allowed"`
	Tag       string   `json:"tag"`
	NoDots    bool     `json:"dots_not_counted"`
	StartWith string   `json:"start_with"`
	Source    string   `json:"source"`
	Date      string   `json:"date"`
}

type ruleView struct {
	ID       string   `json:"id"`
	Stage    []string `json:"stage"` // conditions, as written in the file; an empty one always holds
	Code     []string `json:"code"`
	Enhanced []string `json:"enhanced"`
	Text     []string `json:"text"`
	Pattern  string   `json:"pattern"`
	Meaning  string   `json:"meaning"`
	Blame    string   `json:"blame"`
	Action   string   `json:"action"`
	For      string   `json:"for"`
	Source   string   `json:"source"`
	Date     string   `json:"date"`
}

// New shows a table.
func New(t *engine.Table) View {
	hash := t.Hash()
	v := View{Hash: fmt.Sprintf("%x", hash[:]), Defaults: LimitMap(t.Unknown.Limits), Rules: viewRules(t.Generic),
		defaults: t.Unknown.Limits}
	for _, wait := range t.Schedule {
		v.RetrySchedule = append(v.RetrySchedule, wait.String())
	}
	for _, p := range t.Providers {
		v.Providers = append(v.Providers, viewProvider(p))
	}
	return v
}

func viewProvider(p *engine.Provider) providerView {
	v := providerView{ID: p.ID, Name: p.Name, MX: p.MX, Aliases: notNil(p.Aliases), Probe: p.Probe,
		Wide: p.Kind == engine.KindWide, Kind: p.Kind.String(), FleetSources: p.FleetSources,
		ByAddress: notNil(p.ByAddress), AcceptAll: p.AcceptAll,
		Parking: p.Parking, OneDomain: p.OneDomain, Silently: p.AcceptsSilently, TLS: p.TLS.String(),
		Limits: LimitMap(p.Limits), Source: p.Source, Date: p.Date,
		Terms: p.Terms, TermsForbid: p.TermsForbid, TermsSource: p.TermsSource,
		Rules: viewRules(p.Rules), limits: p.Limits}
	if m := p.Mailbox; m != nil {
		view := mailboxView(*m)
		v.Mailbox = &view
	}
	return v
}

// notNil makes a nil list an empty one, for JSON.
func notNil(list []string) []string { return append([]string{}, list...) }

func viewRules(rules []engine.Rule) []ruleView {
	out := []ruleView{}
	for i := range rules {
		r := &rules[i]
		out = append(out, ruleView{ID: r.ID, Stage: notNil(r.When.Stage), Code: notNil(r.When.Code),
			Enhanced: notNil(r.When.Enhanced), Text: notNil(r.When.Text), Pattern: r.When.Pattern,
			Meaning: r.Meaning.String(), Blame: r.Blame.String(), Action: r.Action.Kind.String(),
			For: duration(r.Action.For), Source: r.Source, Date: r.Date})
	}
	return out
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// LimitMap returns limits by their keys in provider files; 0 is no limit.
func LimitMap(l engine.Limits) map[string]int {
	m := map[string]int{}
	for _, n := range doctor.NamedLimits(l) {
		m[n.Key] = n.Value
	}
	return m
}

// ForProvider narrows the view to one provider, or to one rule.
func (v View) ForProvider(t *engine.Table, id string) (View, error) {
	if strings.Contains(id, "/") {
		return v.forRule(id)
	}
	if id == "generic" {
		v.Providers = nil
		return v, nil
	}
	p := t.Provider(id)
	if p == nil {
		p = t.ProviderOfHint(id)
	}
	if p == t.Unknown {
		return v, fmt.Errorf("%w: no provider is known as %q%s; see probity providers show", console.ErrUsage, id,
			DidYouMean(Suggest(t, id, 2)))
	}
	v.Providers = slices.DeleteFunc(v.Providers, func(other providerView) bool { return other.ID != p.ID })
	v.Rules = nil
	return v, nil
}

// forRule narrows the view to the rule of an id, as a verdict names it.
func (v View) forRule(id string) (View, error) {
	rules := v.Rules
	for _, p := range v.Providers {
		rules = append(p.Rules, rules...)
	}
	v.Providers = nil
	i := slices.IndexFunc(rules, func(r ruleView) bool { return r.ID == id })
	if i >= 0 {
		v.Rules = rules[i : i+1]
		return v, nil
	}
	var near []string
	for _, r := range rules {
		if EditDistance(id, r.ID) <= 2 && len(near) < maxSuggestions {
			near = append(near, r.ID)
		}
	}
	return v, fmt.Errorf("%w: no rule of the table is %q%s; what begins with session/, dns/, policy/ or coordinator/ is the program's own", console.ErrUsage, id, DidYouMean(near))
}
