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
	"probity/engine/tomlfile"
)

// build checks a whole file and makes the table that it describes. m are the mistakes of reading it.
func (f tableFile) build(layers [][]byte, m *tomlfile.Mistakes) (*Table, error) {
	whole := tomlfile.Part{Mistakes: m, Lines: f.lines}
	if len(layers) > maxLayers {
		return nil, fmt.Errorf("%d provider files one over the other: at most %d", len(layers), maxLayers)
	}
	hash := hashOf(layers)
	t := &Table{file: f, layers: layers, hash: hash, Speedup: f.Speedup,
		Unknown: &Provider{ID: "", Name: "other", Probe: true, Limits: f.Defaults.Limits, hash: hash}}
	checkLimits(&t.Unknown.Limits, "defaults.limits", whole)
	if s := f.Speedup; s != 0 && !(s >= minSpeedup && s <= maxSpeedup) {
		whole.Wrong("speedup", "speedup = %v: 0, or from %v to %v", s, minSpeedup, maxSpeedup)
	}
	t.Schedule = readSchedule(f.RetrySchedule, whole)
	if len(f.Providers) > maxProviders {
		return nil, fmt.Errorf("%d providers: at most %d", len(f.Providers), maxProviders)
	}
	// two with one MX suffix: which of them won would depend on the order of the file
	owners := map[string]*providerFile{}
	for i := range f.Providers {
		p := &f.Providers[i]
		t.Providers = append(t.Providers, p.build(hash, m))
		for _, suffix := range p.MX {
			if other := owners[suffix]; other == nil {
				owners[suffix] = p
			} else if other.ID != p.ID {
				if p.lines == nil {
					p, other = other, p
				}
				p.part(m).Conflict("", "mx %q belongs to %q already", suffix, other.ID)
			}
		}
	}
	t.Generic = buildRules(genericRules, "rule", nil, f.Rules, m)
	vetoRules := buildRules("veto", "veto", nil, f.Vetoes, m)
	err := m.Err()
	if err != nil {
		return nil, err
	}
	t.index()
	lists := [][]Rule{t.Generic}
	for _, p := range t.Providers {
		p.plainRules = withoutPhrases(p.Rules)
		lists = append(lists, p.Rules)
	}
	t.plainRules, t.rules = withoutPhrases(t.Generic), map[string]*Rule{}
	for _, rules := range append(lists, t.Unknown.Rules) {
		for i := range rules {
			t.rules[rules[i].ID] = &rules[i]
		}
	}
	if t.scan, err = newScanner(lists...); err != nil {
		return nil, err
	}
	if t.vetoes, err = newVetoes(vetoRules, f.Vetoes, lists); err != nil {
		return nil, err
	}
	return t, nil
}

func readSchedule(words []string, p tomlfile.Part) []time.Duration {
	if len(words) > maxRetries {
		p.Wrong("retry_schedule", "retry_schedule: %d waits: at most %d", len(words), maxRetries)
	}
	waits := make([]time.Duration, 0, len(words))
	for _, w := range words {
		d, err := time.ParseDuration(w)
		if err != nil || d < 0 || d > maxRetryWait {
			p.Wrong("retry_schedule", "retry_schedule: %q is not a duration from 0s to %v", w, maxRetryWait)
			continue
		}
		waits = append(waits, d)
	}
	return waits
}

func checkLimits(l *Limits, table string, p tomlfile.Part) {
	l.each(func(name string, value int) {
		if value < 0 || value > maxLimit {
			p.Wrong(table+"."+name, "%s: %s = %d: from 0 (no limit) to %d", table, name, value, maxLimit)
		}
	})
}

func (f *providerFile) part(m *tomlfile.Mistakes) tomlfile.Part {
	return tomlfile.Part{Mistakes: m, Lines: f.lines, Header: "provider", Words: fmt.Sprintf("provider %q: ", f.ID)}
}

func (f *providerFile) build(hash [8]byte, m *tomlfile.Mistakes) *Provider {
	p := &Provider{ID: f.ID, Name: f.Name, MX: f.MX, Aliases: f.Aliases, ByAddress: f.ByAddress,
		FleetSources: f.FleetSources, AcceptAll: f.AcceptAll, Parking: f.Parking, OneDomain: f.OneDomainPerTransaction,
		AcceptsSilently: f.AcceptsSilently, BlocksAsUnknown: f.BlocksAsUnknown, Limits: f.Limits, Source: f.Source,
		Date:  f.Date,
		Terms: f.Terms, TermsForbid: f.TermsForbid, TermsSource: f.TermsSource, hash: hash}
	is := f.part(m)
	if f.ID == "" || strings.Trim(f.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		is.Wrong("id", "id: lower-case letters, digits and hyphens")
	} else { // else it may be meant for another provider, which has them
		if f.Name == "" {
			is.Wrong("name", "name is missing")
		}
		if len(f.MX) == 0 {
			is.Wrong("mx", "mx is missing: at least one host-name suffix")
		}
	}
	switch {
	case f.Wide && f.Tenants:
		is.Conflict("wide", "wide and tenants: a provider is of one kind; leave one of them out")
	case f.Wide:
		p.Kind = KindWide
	case f.Tenants:
		p.Kind = KindTenants
	}
	switch n := f.FleetSources; {
	case n < 0 || n > maxLimit:
		is.Wrong("fleet_sources", "fleet_sources = %d: from 0 (no limit) to %d", n, maxLimit)
	case n > 0 && !f.Tenants && !f.Wide:
		is.Conflict("fleet_sources", "fleet_sources limits a provider with wide or tenants = true: add one, or leave it out")
	}
	for key, names := range map[string][]string{"mx": f.MX, "by_address": f.ByAddress, "aliases": f.Aliases} {
		for _, name := range names {
			if name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, " \t@") ||
				strings.Trim(name, ".") == "" {
				is.Wrong(key, "%q is not a lower-case name", name)
			}
		}
	}
	var err error
	if p.Probe, err = readSwitch(f.Probe); err != nil {
		is.Wrong("probe", "probe: %v", err)
	}
	tls, err := readName(tlsNames[:], cmp.Or(f.TLS, "opportunistic"))
	if err != nil {
		is.Wrong("tls", "tls: %v", err)
	}
	p.TLS = TLSPolicy(tls)
	checkLimits(&p.Limits, "limits", is)
	p.Mailbox = f.Mailbox.build(is)
	p.Rules = buildRules(f.ID, "provider.rule", p, f.Rules, m)
	return p
}

func (f *mailboxFile) build(provider tomlfile.Part) *MailboxRule {
	if f == nil {
		return nil
	}
	if len(f.Domains) == 0 {
		provider.Wrong("mailbox.domains", "mailbox: domains is missing")
	}
	if f.Min < 0 || f.Max < 0 || f.Max > 0 && f.Max < f.Min {
		provider.Wrong("mailbox.max", "mailbox: min %d and max %d do not fit", f.Min, f.Max)
	}
	if !slices.Contains([]string{"", "letter", "letter-or-digit"}, f.StartWith) {
		provider.Wrong("mailbox.start_with", "mailbox: start_with %q: letter or letter-or-digit", f.StartWith)
	}
	return &MailboxRule{Domains: f.Domains, Min: f.Min, Max: f.Max, Allowed: f.Allowed, Tag: f.Tag, NoDots: f.NoDots,
		StartWith: f.StartWith, Source: f.Source, Date: f.Date}
}

func buildRules(prefix, header string, owner *Provider, files []ruleFile, m *tomlfile.Mistakes) []Rule {
	rules := make([]Rule, 0, len(files))
	for i := range files {
		f := &files[i]
		is := tomlfile.Part{Mistakes: m, Lines: f.lines, Header: header,
			Words: fmt.Sprintf("rule %q: ", prefix+"/"+f.ID)}
		switch {
		case owner != nil:
			is.Words = fmt.Sprintf("provider %q: ", owner.ID) + is.Words
		case prefix == "veto":
			is.Words = fmt.Sprintf("veto %q: ", f.ID)
		}
		r := f.build(prefix, owner, is)
		if f.ID != "" && slices.ContainsFunc(rules, func(other Rule) bool { return other.ID == r.ID }) {
			is.Conflict("", "given twice")
		}
		r.rank = r.tier()<<tierShift | uint32(i)
		rules = append(rules, r)
	}
	return rules
}

func (f *ruleFile) build(prefix string, owner *Provider, is tomlfile.Part) Rule {
	r := Rule{ID: prefix + "/" + f.ID, Source: f.Source, Date: f.Date, bare: f.Bare, owner: owner,
		When: Conditions{Stage: f.Stage, Code: f.Code, Enhanced: f.Enhanced, Text: f.Text.Phrases,
			Pattern: f.Text.Pattern}}
	if f.ID == "" {
		is.Wrong("id", "id is missing")
	}
	if len(f.Except) > 0 && prefix != "veto" {
		is.Wrong("except", "except: only a veto has exceptions")
	}
	f.readWhen(&r, is)
	f.readText(&r, is)
	f.readMeaning(&r, is)
	f.readAction(&r, is)
	if is.HasMistake() {
		return r
	}
	// A basic code says too little about a mailbox: blocks, policies and unknown users all get 550.
	if condemns(r.Meaning) && len(r.enhanced) == 0 && r.pattern == nil && len(r.phrases) == 0 {
		is.Conflict("", "%s needs an enhanced code or a text", r.Meaning)
	}
	if prefix != "veto" {
		return r
	}
	switch {
	case condemns(r.Meaning) || r.Meaning == Accepted || r.Meaning == MeaningUnknown:
		is.Wrong("meaning", "meaning %s: a veto says what else a reply means", r.Meaning)
	case len(r.phrases) == 0:
		is.Wrong("", "text is missing: a list of phrases")
	}
	for _, text := range f.Except {
		if _, err := phrase.Parse(text); err != nil {
			is.Wrong("except", "except %q: %v", text, err)
		}
	}
	return r
}

func (f *ruleFile) readWhen(r *Rule, is tomlfile.Part) {
	for _, w := range f.Stage {
		bits, err := readStage(w)
		if err != nil {
			is.Wrong("stage", "stage: %v", err)
			continue
		}
		r.stages |= bits
	}
	for _, w := range f.Code {
		if len(w) != 3 || strings.Trim(w, "0123456789x") != "" {
			is.Wrong("code", "code %q: three digits, x for any", w)
			continue
		}
		r.codes = append(r.codes, codePattern([]byte(w)))
	}
	for _, w := range f.Enhanced {
		p, err := readEnhancedPattern(w)
		if err != nil {
			is.Wrong("enhanced", "enhanced %q: %v", w, err)
			continue
		}
		r.enhanced = append(r.enhanced, p)
	}
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

func (f *ruleFile) readText(r *Rule, is tomlfile.Part) {
	if f.Text.Pattern != "" {
		re, err := regexp.Compile("(?is)" + f.Text.Pattern)
		if err != nil {
			is.Wrong("text", "%v", err)
		}
		r.pattern = re
		return
	}
	if len(f.Text.Phrases) > maxPhrasesARule {
		is.Wrong("text", "text: %d phrases: at most %d", len(f.Text.Phrases), maxPhrasesARule)
		return
	}
	for _, w := range f.Text.Phrases {
		p, err := phrase.Parse(w)
		if err != nil {
			is.Wrong("text", "text %q: %v", w, err)
			continue
		}
		r.phrases = append(r.phrases, p...)
	}
}

// usualBlame is the blame of a meaning when the rule does not say.
var usualBlame = [...]Blame{MeaningUnknown: BlameSite, Accepted: BlameNone, NoMailbox: BlameRecipient,
	MailboxFull: BlameRecipient, MailboxDisabled: BlameRecipient, Greylisted: BlameUs, RateLimited: BlameUs,
	Blocked: BlameUs, SenderRefused: BlameUs, PolicyRefused: BlameSite, RelayDenied: BlameSite, Temporary: BlameSite,
	SyntaxRefused: BlameSite, ProtocolFault: BlameSite}

func (f *ruleFile) readMeaning(r *Rule, is tomlfile.Part) {
	m, err := readName(meaningNames[:], f.Meaning)
	if err != nil {
		is.Wrong("meaning", "meaning: %v", err)
		return
	}
	r.Meaning = Meaning(m)
	r.Blame = usualBlame[r.Meaning]
	if f.Blame == "" {
		return
	}
	b, err := readName(blameNames[:], f.Blame)
	if err != nil {
		is.Wrong("blame", "blame: %v", err)
		return
	}
	r.Blame = Blame(b)
	if condemns(r.Meaning) != (r.Blame == BlameRecipient) && r.Meaning != RateLimited && r.Meaning != PolicyRefused {
		is.Conflict("blame", "blame %s does not go with meaning %s", r.Blame, r.Meaning)
	}
}

func (f *ruleFile) readAction(r *Rule, is tomlfile.Part) {
	k, err := readName(actionNames[:], cmp.Or(f.Action, "none"))
	if err != nil {
		is.Wrong("action", "action: %v", err)
	}
	r.Action.Kind = ActionKind(k)
	if f.For != "" {
		d, err := time.ParseDuration(f.For)
		if err != nil || d <= 0 || d > maxActionTime {
			is.Wrong("for", "for: %q is not a duration up to %v", f.For, maxActionTime)
			return
		}
		r.Action.For = d
	}
	lasts := r.Action.Kind != ActionNone && r.Action.Kind != ActionClose
	if lasts && r.Action.For == 0 && !is.HasMistake() {
		is.Conflict("action", "action %s needs a duration: for", r.Action.Kind)
	}
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
