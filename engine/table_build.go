package engine

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"probity/engine/phrase"
)

// build checks a whole file and makes the table that it describes.
func (f tableFile) build(layers [][]byte) (*Table, error) {
	if len(layers) > maxLayers {
		return nil, fmt.Errorf("%d provider files one over the other: at most %d", len(layers), maxLayers)
	}
	hash := hashOf(layers)
	t := &Table{file: f, layers: layers, hash: hash, Speedup: f.Speedup, Unknown: &Provider{ID: "", Name: "other", Probe: true, Limits: f.Defaults.Limits, hash: hash}}
	if err := checkLimits(&t.Unknown.Limits); err != nil {
		return nil, fmt.Errorf("defaults.limits: %w", err)
	}
	if s := f.Speedup; s != 0 && !(s >= minSpeedup && s <= maxSpeedup) {
		return nil, fmt.Errorf("speedup = %v: 0, or from %v to %v", s, minSpeedup, maxSpeedup)
	}
	var err error
	if t.Schedule, err = readSchedule(f.RetrySchedule); err != nil {
		return nil, fmt.Errorf("retry_schedule: %w", err)
	}
	if len(f.Providers) > maxProviders {
		return nil, fmt.Errorf("%d providers: at most %d", len(f.Providers), maxProviders)
	}
	for i := range f.Providers {
		p, err := f.Providers[i].build(hash)
		if err != nil {
			return nil, fmt.Errorf("provider %q: %w", f.Providers[i].ID, err)
		}
		t.Providers = append(t.Providers, p)
	}
	if t.Generic, err = buildRules("generic", nil, f.Rules); err != nil {
		return nil, err
	}
	if err := t.checkNames(); err != nil {
		return nil, err
	}
	t.index()
	lists := [][]Rule{t.Generic}
	for _, p := range t.Providers {
		p.plainRules = withoutPhrases(p.Rules)
		lists = append(lists, p.Rules)
	}
	t.plainRules = withoutPhrases(t.Generic)
	if t.scan, err = newScanner(lists...); err != nil {
		return nil, err
	}
	if t.vetoes, err = newVetoes(f.Vetoes, lists); err != nil {
		return nil, err
	}
	return t, nil
}

func readSchedule(words []string) ([]time.Duration, error) {
	if len(words) > maxRetries {
		return nil, fmt.Errorf("%d waits: at most %d", len(words), maxRetries)
	}
	waits := make([]time.Duration, 0, len(words))
	for _, w := range words {
		d, err := time.ParseDuration(w)
		if err != nil || d < 0 || d > maxRetryWait {
			return nil, fmt.Errorf("%q is not a duration from 0s to %v", w, maxRetryWait)
		}
		waits = append(waits, d)
	}
	return waits, nil
}

func checkLimits(l *Limits) (err error) {
	l.each(func(name string, value int) {
		if value < 0 || value > maxLimit {
			err = fmt.Errorf("%s = %d: from 0 (no limit) to %d", name, value, maxLimit)
		}
	})
	return err
}

// checkNames refuses two providers with one MX suffix: which of them won would depend on the order of the file.
func (t *Table) checkNames() error {
	owners := map[string]string{}
	for _, p := range t.Providers {
		for _, suffix := range p.MX {
			if other, taken := owners[suffix]; taken {
				return fmt.Errorf("provider %q: mx %q belongs to %q already", p.ID, suffix, other)
			}
			owners[suffix] = p.ID
		}
	}
	return nil
}

func (f *providerFile) build(hash [8]byte) (*Provider, error) {
	p := &Provider{ID: f.ID, Name: f.Name, MX: f.MX, Aliases: f.Aliases, Kind: f.kind(), ByAddress: f.ByAddress, FleetSources: f.FleetSources, AcceptAll: f.AcceptAll,
		Parking: f.Parking, OneDomain: f.OneDomainPerTransaction, AcceptsSilently: f.AcceptsSilently, Limits: f.Limits, Source: f.Source, Date: f.Date,
		Terms: f.Terms, TermsForbid: f.TermsForbid, TermsSource: f.TermsSource, hash: hash}
	if err := f.check(); err != nil {
		return nil, err
	}
	var err error
	if p.Probe, err = readSwitch(f.Probe); err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	tls, err := readName(tlsNames[:], cmp.Or(f.TLS, "opportunistic"))
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	p.TLS = TLSPolicy(tls)
	if err := checkLimits(&p.Limits); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if p.Mailbox, err = f.Mailbox.build(); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	p.Rules, err = buildRules(f.ID, p, f.Rules)
	return p, err
}

func (f *providerFile) kind() Kind {
	switch {
	case f.Wide:
		return KindWide
	case f.Tenants:
		return KindTenants
	}
	return KindNarrow
}

func (f *providerFile) check() error {
	switch {
	case f.ID == "" || strings.Trim(f.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return errors.New("id: lower-case letters, digits and hyphens")
	case f.Name == "":
		return errors.New("name is missing")
	case len(f.MX) == 0:
		return errors.New("mx is missing: at least one host-name suffix")
	case f.Wide && f.Tenants:
		return errors.New("wide and tenants: a provider is of one kind; leave one of them out")
	case f.FleetSources < 0 || f.FleetSources > maxLimit:
		return fmt.Errorf("fleet_sources = %d: from 0 (no limit) to %d", f.FleetSources, maxLimit)
	case f.FleetSources > 0 && !f.Tenants:
		return errors.New("fleet_sources limits a provider with tenants = true: add that, or leave it out")
	}
	for _, name := range slices.Concat(f.MX, f.ByAddress, f.Aliases) {
		if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " \t@") || strings.Trim(name, ".") == "" {
			return fmt.Errorf("%q is not a lower-case name", name)
		}
	}
	return nil
}

func (f *mailboxFile) build() (*MailboxRule, error) {
	if f == nil {
		return nil, nil
	}
	switch {
	case len(f.Domains) == 0:
		return nil, errors.New("domains is missing")
	case f.Min < 0 || f.Max < 0 || f.Max > 0 && f.Max < f.Min:
		return nil, fmt.Errorf("min %d and max %d do not fit", f.Min, f.Max)
	case !slices.Contains([]string{"", "letter", "letter-or-digit"}, f.StartWith):
		return nil, fmt.Errorf("start_with %q: letter or letter-or-digit", f.StartWith)
	}
	return &MailboxRule{Domains: f.Domains, Min: f.Min, Max: f.Max, Allowed: f.Allowed, Tag: f.Tag, NoDots: f.NoDots,
		StartWith: f.StartWith, Source: f.Source, Date: f.Date}, nil
}

func buildRules(prefix string, owner *Provider, files []ruleFile) ([]Rule, error) {
	rules := make([]Rule, 0, len(files))
	for i := range files {
		r, err := files[i].build(prefix, owner)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", prefix+"/"+files[i].ID, err)
		}
		if slices.ContainsFunc(rules, func(other Rule) bool { return other.ID == r.ID }) {
			return nil, fmt.Errorf("rule %q: given twice", r.ID)
		}
		r.rank = r.tier()<<tierShift | uint32(i)
		rules = append(rules, r)
	}
	return rules, nil
}

func (f *ruleFile) build(prefix string, owner *Provider) (Rule, error) {
	r := Rule{ID: prefix + "/" + f.ID, Source: f.Source, Date: f.Date, owner: owner,
		When: Conditions{Stage: f.Stage, Code: f.Code, Enhanced: f.Enhanced, Text: f.Text.Phrases, Pattern: f.Text.Pattern}}
	switch {
	case f.ID == "":
		return r, errors.New("id is missing")
	case len(f.Except) > 0 && prefix != "veto":
		return r, errors.New("except: only a veto has exceptions")
	}
	for _, read := range []func(*Rule) error{f.readWhen, f.readText, f.readMeaning, f.readAction} {
		if err := read(&r); err != nil {
			return r, err
		}
	}
	// A basic code says too little about a mailbox: blocks, policies and unknown users all get 550.
	if condemns(r.Meaning) && len(r.enhanced) == 0 && r.pattern == nil && len(r.phrases) == 0 {
		return r, fmt.Errorf("%s needs an enhanced code or a text", r.Meaning)
	}
	return r, nil
}

func (f *ruleFile) readWhen(r *Rule) error {
	for _, w := range f.Stage {
		bits, err := readStage(w)
		if err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		r.stages |= bits
	}
	for _, w := range f.Code {
		if len(w) != 3 || strings.Trim(w, "0123456789x") != "" {
			return fmt.Errorf("code %q: three digits, x for any", w)
		}
		r.codes = append(r.codes, codePattern([]byte(w)))
	}
	for _, w := range f.Enhanced {
		p, err := readEnhancedPattern(w)
		if err != nil {
			return fmt.Errorf("enhanced %q: %w", w, err)
		}
		r.enhanced = append(r.enhanced, p)
	}
	return nil
}

// readStage reads a stage name; "session" is every stage but rcpt.
func readStage(word string) (uint16, error) {
	const all = 1<<len(stageNames) - 1
	switch word {
	case "any":
		return all, nil
	case "session":
		return all &^ (1 << StageRcpt), nil
	}
	i, err := readName(stageNames[:], word)
	return 1 << i, err
}

func readEnhancedPattern(word string) (p enhancedPattern, err error) {
	fields := strings.Split(word, ".")
	if len(fields) != 3 {
		return p, errors.New("three numbers")
	}
	low := [3]*uint16{&p.low.Class, &p.low.Subject, &p.low.Detail}
	high := [3]*uint16{&p.high.Class, &p.high.Subject, &p.high.Detail}
	for i, field := range fields {
		if *low[i], *high[i], err = readRange(field); err != nil {
			return p, err
		}
	}
	return p, nil
}

func readRange(word string) (low, high uint16, err error) {
	if word == "x" {
		return 0, 999, nil
	}
	first, last, isRange := strings.Cut(word, "-")
	a, err := strconv.ParseUint(first, 10, 16)
	if err != nil || a > 999 {
		return 0, 0, fmt.Errorf("%q is not a number from 0 to 999, a range or x", word)
	}
	if !isRange {
		return uint16(a), uint16(a), nil
	}
	b, err := strconv.ParseUint(last, 10, 16)
	if err != nil || b < a || b > 999 {
		return 0, 0, fmt.Errorf("%q is not a range", word)
	}
	return uint16(a), uint16(b), nil
}

func (f *ruleFile) readText(r *Rule) error {
	if f.Text.Pattern != "" {
		re, err := regexp.Compile("(?is)" + f.Text.Pattern)
		r.pattern = re
		return err
	}
	if len(f.Text.Phrases) > maxPhrasesARule {
		return fmt.Errorf("text: %d phrases: at most %d", len(f.Text.Phrases), maxPhrasesARule)
	}
	for _, w := range f.Text.Phrases {
		p, err := phrase.Parse(w)
		if err != nil {
			return fmt.Errorf("text %q: %w", w, err)
		}
		r.phrases = append(r.phrases, p...)
	}
	return nil
}

// usualBlame is the blame of a meaning when the rule does not say.
var usualBlame = [...]Blame{MeaningUnknown: BlameSite, Accepted: BlameNone, NoMailbox: BlameRecipient, MailboxFull: BlameRecipient,
	MailboxDisabled: BlameRecipient, Greylisted: BlameUs, RateLimited: BlameUs, Blocked: BlameUs, SenderRefused: BlameUs,
	PolicyRefused: BlameSite, RelayDenied: BlameSite, Temporary: BlameSite, SyntaxRefused: BlameSite, ProtocolFault: BlameSite}

func (f *ruleFile) readMeaning(r *Rule) error {
	m, err := readName(meaningNames[:], f.Meaning)
	if err != nil {
		return fmt.Errorf("meaning: %w", err)
	}
	r.Meaning = Meaning(m)
	r.Blame = usualBlame[r.Meaning]
	if f.Blame == "" {
		return nil
	}
	b, err := readName(blameNames[:], f.Blame)
	if err != nil {
		return fmt.Errorf("blame: %w", err)
	}
	r.Blame = Blame(b)
	if condemns(r.Meaning) != (r.Blame == BlameRecipient) && r.Meaning != RateLimited && r.Meaning != PolicyRefused {
		return fmt.Errorf("blame %s does not go with meaning %s", r.Blame, r.Meaning)
	}
	return nil
}

func (f *ruleFile) readAction(r *Rule) error {
	k, err := readName(actionNames[:], cmp.Or(f.Action, "none"))
	if err != nil {
		return fmt.Errorf("action: %w", err)
	}
	r.Action.Kind = ActionKind(k)
	if f.For != "" {
		d, err := time.ParseDuration(f.For)
		if err != nil || d <= 0 || d > maxActionTime {
			return fmt.Errorf("for: %q is not a duration up to %v", f.For, maxActionTime)
		}
		r.Action.For = d
	}
	if lasts := r.Action.Kind != ActionNone && r.Action.Kind != ActionClose; lasts && r.Action.For == 0 {
		return fmt.Errorf("action %s needs a duration: for", r.Action.Kind)
	}
	return nil
}

// readSwitch reads on/off or true/false; the default is on.
func readSwitch(words []string) (bool, error) {
	switch strings.Join(words, " ") {
	case "", "on", "true":
		return true, nil
	case "off", "false":
		return false, nil
	}
	return false, fmt.Errorf("%q: on or off", words)
}

func readName(names []string, word string) (uint8, error) {
	i := slices.Index(names, word)
	if i < 0 {
		return 0, fmt.Errorf("%q: one of %s", word, strings.Join(names, ", "))
	}
	return uint8(i), nil
}
