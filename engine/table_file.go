package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"probity/engine/tomlfile"
)

// The bounds of a provider file; a file beyond them is refused.
const (
	maxTableBytes   = 1 << 20
	maxRetries      = 8
	maxRetryWait    = 24 * time.Hour
	maxLimit        = 1_000_000
	maxProviders    = 5000
	maxPhrasesARule = 1000
	minSpeedup      = 0.001
	maxSpeedup      = 1e9
)

// tableFile is a provider file as written: the shipped one and the operator's have the same keys.
type tableFile struct {
	Speedup       float64        `toml:"speedup"`
	RetrySchedule []string       `toml:"retry_schedule"`
	Defaults      defaultsFile   `toml:"defaults"`
	Providers     []providerFile `toml:"-"`
	Rules         []ruleFile     `toml:"rule"`
	Vetoes        []ruleFile     `toml:"veto"`

	lines tomlfile.Lines
}

type defaultsFile struct {
	Limits Limits `toml:"limits"`
}

type providerFile struct {
	ID                      string       `toml:"id"`
	Name                    string       `toml:"name"`
	MX                      []string     `toml:"mx"`
	Aliases                 []string     `toml:"aliases"`
	Wide                    bool         `toml:"wide"`
	Tenants                 bool         `toml:"tenants"`
	FleetSources            int          `toml:"fleet_sources"`
	ByAddress               []string     `toml:"by_address"`
	AcceptAll               bool         `toml:"accept_all"`
	Probe                   wordList     `toml:"probe"`
	Parking                 bool         `toml:"parking"`
	OneDomainPerTransaction bool         `toml:"one_domain_per_transaction"`
	AcceptsSilently         bool         `toml:"accepts_silently"`
	BlocksAsUnknown         bool         `toml:"blocks_as_unknown"`
	TLS                     string       `toml:"tls"`
	Limits                  Limits       `toml:"limits"`
	Mailbox                 *mailboxFile `toml:"mailbox"`
	Rules                   []ruleFile   `toml:"rule"`
	Source                  string       `toml:"source"`
	Date                    string       `toml:"date"`
	Terms                   string       `toml:"terms"`
	TermsForbid             bool         `toml:"terms_forbid"`
	TermsSource             string       `toml:"terms_source"`

	lines tomlfile.Lines
}

type mailboxFile struct {
	Domains   []string `toml:"domains"`
	Min       int      `toml:"min"`
	Max       int      `toml:"max"`
	Allowed   string   `toml:"allowed"`
	Tag       string   `toml:"tag"`
	NoDots    bool     `toml:"dots_not_counted"`
	StartWith string   `toml:"start_with"`
	Source    string   `toml:"source"`
	Date      string   `toml:"date"`
}

type ruleFile struct {
	ID       string   `toml:"id"`
	Stage    wordList `toml:"stage"`
	Code     wordList `toml:"code"`
	Enhanced wordList `toml:"enhanced"`
	Text     ruleText `toml:"text"`
	Bare     bool     `toml:"bare"`   // no words may stand next to the code
	Except   []string `toml:"except"` // of a veto: phrases inside which its words do not count
	Meaning  string   `toml:"meaning"`
	Blame    string   `toml:"blame"`
	Action   string   `toml:"action"`
	For      string   `toml:"for"`
	Source   string   `toml:"source"`
	Date     string   `toml:"date"`

	lines tomlfile.Lines
}

// wordList reads one word or a list of them; a number or a boolean counts as its text.
type wordList []string

// UnmarshalTOML implements unstable.Unmarshaler.
func (w *wordList) UnmarshalTOML(data []byte) error {
	var file struct {
		Value any `toml:"value"`
	}
	if err := toml.Unmarshal(append([]byte("value = "), data...), &file); err != nil {
		return err
	}
	list, ok := file.Value.([]any)
	if !ok {
		list = []any{file.Value}
	}
	*w = nil
	for _, item := range list {
		switch item := item.(type) {
		case string, int64, bool:
			*w = append(*w, fmt.Sprint(item))
		default:
			return fmt.Errorf("words are expected, found %v", item)
		}
	}
	return nil
}

// ruleText is a regular expression (a string) or phrases (a list).
type ruleText struct {
	Pattern string
	Phrases []string
}

// UnmarshalTOML implements unstable.Unmarshaler.
func (t *ruleText) UnmarshalTOML(data []byte) error {
	var words wordList
	if err := words.UnmarshalTOML(data); err != nil {
		return err
	}
	*t = ruleText{Phrases: words}
	if data[0] == '"' || data[0] == '\'' {
		*t = ruleText{Pattern: words[0]}
	}
	return nil
}

// ParseTable reads a whole provider table; the table keeps data. An error says where the mistake is.
func ParseTable(data []byte) (*Table, error) {
	f := tableFile{Speedup: 1}
	return f.apply(data, [][]byte{data})
}

// Override applies an operator's file to a table: in providers of a known id the file's keys are replaced, other
// providers are added; the rules of the file come before the shipped ones, or replace those of the same id.
// t itself is not changed; the new table keeps data. What is wrong with the file is an error of type tomlfile.Mistakes.
func (t *Table) Override(data []byte) (*Table, error) {
	f := t.file.clone()
	return f.apply(data, t.over(data))
}

// apply reads data over f and builds the table of these layers.
func (f *tableFile) apply(data []byte, layers [][]byte) (*Table, error) {
	var m tomlfile.Mistakes
	f.read(data, &m)
	return f.build(layers, &m)
}

// RespectTerms is the table that probes no provider whose terms forbid address verification, whatever an operator's
// file says. Its hash differs, so that a node with this setting is not mistaken for one without.
func (t *Table) RespectTerms() (*Table, error) {
	f := t.file.clone()
	for i := range f.Providers {
		if f.Providers[i].TermsForbid {
			f.Providers[i].Probe = wordList{"off"}
		}
	}
	return f.build(t.over(termsLayer), new(tomlfile.Mistakes))
}

// clone copies what reading another file may change.
func (f *tableFile) clone() tableFile {
	c := *f
	c.RetrySchedule = slices.Clone(f.RetrySchedule)
	c.Providers = slices.Clone(f.Providers)
	for i := range c.Providers {
		c.Providers[i].lines = nil
	}
	return c
}

// read applies data to f.
func (f *tableFile) read(data []byte, m *tomlfile.Mistakes) {
	if len(data) > maxTableBytes {
		m.Add(fmt.Errorf("provider file of %d bytes: at most %d", len(data), maxTableBytes))
		return
	}
	statements, err := tomlfile.Statements(data)
	if err != nil {
		m.Add(err)
		return
	}
	rules, vetoes := f.Rules, f.Vetoes
	f.Rules, f.Vetoes = nil, nil
	f.lines = nil
	var providers [][]tomlfile.Statement
	for _, s := range statements {
		if s.Header == "provider" && s.Key == "" && s.Array {
			providers = append(providers, nil)
		}
		if last := len(providers) - 1; last >= 0 && strings.HasPrefix(s.Header, "provider") {
			providers[last] = append(providers[last], s)
			continue
		}
		var table any
		switch s.Header {
		case "":
			table = f
		case "defaults":
			table = &f.Defaults
		case "defaults.limits":
			table = &f.Defaults.Limits
		case "provider": // as [provider]
			table = new([]providerFile)
		case "rule":
			table = &f.Rules
		case "veto":
			table = &f.Vetoes
		}
		m.Add(s.Decode(data, table))
		at := &f.lines
		if n := len(f.Rules); s.Header == "rule" && n > 0 {
			at = &f.Rules[n-1].lines
		} else if n := len(f.Vetoes); s.Header == "veto" && n > 0 {
			at = &f.Vetoes[n-1].lines
		}
		at.Note(s)
	}
	f.Rules = mergeRules(rules, f.Rules)
	for _, v := range f.Vetoes {
		if slices.ContainsFunc(vetoes, func(shipped ruleFile) bool { return shipped.ID == v.ID }) {
			tomlfile.Part{Mistakes: m, Lines: v.lines, Header: "veto",
				Words: fmt.Sprintf("veto %q: ", v.ID)}.Conflict("",
				"the shipped one of this id stays in force: choose another id for yours")
		}
	}
	f.Vetoes = append(f.Vetoes, vetoes...)
	for _, p := range providers {
		f.readProvider(data, p, m)
	}
}

// readProvider reads one [[provider]] over the provider of the same id, or over the defaults.
func (f *tableFile) readProvider(data []byte, statements []tomlfile.Statement, m *tomlfile.Mistakes) {
	var alone providerFile // what decides over which provider the statements are laid
	for _, s := range statements[1:] {
		if s.Header == "provider" && slices.Contains([]string{"id", "wide", "tenants"}, s.Key) {
			m.Add(s.Decode(data, &alone))
		}
	}
	i := slices.IndexFunc(f.Providers, func(p providerFile) bool { return p.ID == alone.ID })
	if i < 0 {
		f.Providers = append(f.Providers, providerFile{Limits: f.Defaults.Limits})
		i = len(f.Providers) - 1
	}
	twice := f.Providers[i].lines != nil
	if twice {
		f.Providers = append(f.Providers, f.Providers[i])
		i = len(f.Providers) - 1
	}
	p := f.Providers[i].clone()
	p.Rules = nil
	p.read(data, statements, m)
	if twice {
		p.part(m).Conflict("", "given twice")
	}
	if alone.Wide != alone.Tenants {
		p.Wide, p.Tenants = alone.Wide, alone.Tenants // a kind that is given here replaces that of the row
	}
	p.Rules = mergeRules(f.Providers[i].Rules, p.Rules)
	f.Providers[i] = p
}

// read applies the statements of one [[provider]] to p.
func (p *providerFile) read(data []byte, statements []tomlfile.Statement, m *tomlfile.Mistakes) {
	p.lines = tomlfile.Lines{"provider": statements[0].Line}
	for _, s := range statements[1:] {
		var table any
		switch s.Header {
		case "provider":
			table = p
		case "provider.limits":
			table = &p.Limits
		case "provider.mailbox":
			p.Mailbox = cmp.Or(p.Mailbox, new(mailboxFile))
			table = p.Mailbox
		case "provider.rule":
			table = &p.Rules
		}
		m.Add(s.Decode(data, table))
		at := &p.lines
		if n := len(p.Rules); s.Header == "provider.rule" && n > 0 {
			at = &p.Rules[n-1].lines
		}
		at.Note(s)
	}
}

// clone copies the lists, which the decoder would overwrite in the table.
func (p providerFile) clone() providerFile {
	p.MX, p.Aliases, p.ByAddress = slices.Clone(p.MX), slices.Clone(p.Aliases), slices.Clone(p.ByAddress)
	if p.Mailbox != nil {
		m := *p.Mailbox
		m.Domains = slices.Clone(m.Domains)
		p.Mailbox = &m
	}
	return p
}

// mergeRules puts the newer rules first and drops older ones with the same id.
func mergeRules(older, newer []ruleFile) []ruleFile {
	out := slices.Clone(newer)
	for _, r := range older {
		if !slices.ContainsFunc(newer, func(n ruleFile) bool { return n.ID == r.ID }) {
			out = append(out, r)
		}
	}
	return out
}
