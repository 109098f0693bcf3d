package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
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
	TLS                     string       `toml:"tls"`
	Limits                  Limits       `toml:"limits"`
	Mailbox                 *mailboxFile `toml:"mailbox"`
	Rules                   []ruleFile   `toml:"rule"`
	Source                  string       `toml:"source"`
	Date                    string       `toml:"date"`
	Terms                   string       `toml:"terms"`
	TermsForbid             bool         `toml:"terms_forbid"`
	TermsSource             string       `toml:"terms_source"`
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
	Except   []string `toml:"except"` // of a veto: phrases inside which its words do not count
	Meaning  string   `toml:"meaning"`
	Blame    string   `toml:"blame"`
	Action   string   `toml:"action"`
	For      string   `toml:"for"`
	Source   string   `toml:"source"`
	Date     string   `toml:"date"`
}

// wordList reads one word or a list of them; a number or a boolean counts as its text.
type wordList []string

// UnmarshalTOML implements toml.Unmarshaler.
func (w *wordList) UnmarshalTOML(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	*w = nil
	for _, item := range list {
		switch item := item.(type) {
		case string:
			*w = append(*w, item)
		case int64:
			*w = append(*w, strconv.FormatInt(item, 10))
		case bool:
			*w = append(*w, strconv.FormatBool(item))
		default:
			return fmt.Errorf("%v is not a word", item)
		}
	}
	return nil
}

// ruleText is a regular expression (a string) or phrases (a list).
type ruleText struct {
	Pattern string
	Phrases []string
}

// UnmarshalTOML implements toml.Unmarshaler.
func (t *ruleText) UnmarshalTOML(v any) error {
	if s, ok := v.(string); ok {
		*t = ruleText{Pattern: s}
		return nil
	}
	var words wordList
	if err := words.UnmarshalTOML(v); err != nil {
		return err
	}
	*t = ruleText{Phrases: words}
	return nil
}

// ParseTable reads a whole provider table; the table keeps data. An error says where the mistake is.
func ParseTable(data []byte) (*Table, error) {
	f := tableFile{Speedup: 1}
	if err := f.read(data); err != nil {
		return nil, err
	}
	return f.build([][]byte{data})
}

// Override applies an operator's file to a table: in providers of a known id the file's keys are replaced, other
// providers are added; the rules of the file come before the shipped ones, or replace those of the same id.
// t itself is not changed; the new table keeps data.
func (t *Table) Override(data []byte) (*Table, error) {
	f := t.file.clone()
	if err := f.read(data); err != nil {
		return nil, err
	}
	return f.build(t.over(data))
}

// RespectTerms is the table that probes no provider whose terms forbid address verification, whatever an operator's file says.
// Its hash differs, so that a node with this setting is not mistaken for one without.
func (t *Table) RespectTerms() (*Table, error) {
	f := t.file.clone()
	for i := range f.Providers {
		if f.Providers[i].TermsForbid {
			f.Providers[i].Probe = wordList{"off"}
		}
	}
	return f.build(t.over(termsLayer))
}

// clone copies what reading another file may change.
func (f *tableFile) clone() tableFile {
	c := *f
	c.RetrySchedule = slices.Clone(f.RetrySchedule)
	c.Providers = slices.Clone(f.Providers)
	return c
}

// read applies data to f.
func (f *tableFile) read(data []byte) error {
	if len(data) > maxTableBytes {
		return fmt.Errorf("provider file of %d bytes: at most %d", len(data), maxTableBytes)
	}
	rules, vetoes := f.Rules, f.Vetoes
	f.Rules, f.Vetoes = nil, nil
	over := struct {
		*tableFile
		Provider []toml.Primitive `toml:"provider"`
	}{tableFile: f}
	md, err := toml.Decode(string(data), &over)
	if err != nil {
		return atLine(err)
	}
	f.Rules = mergeRules(rules, f.Rules)
	for _, v := range f.Vetoes {
		if slices.ContainsFunc(vetoes, func(shipped ruleFile) bool { return shipped.ID == v.ID }) {
			return fmt.Errorf("veto %q: the shipped one of this id stays in force: choose another id for yours", v.ID)
		}
	}
	f.Vetoes = append(f.Vetoes, vetoes...)
	named := map[string]bool{}
	for _, p := range over.Provider {
		if err := f.readProvider(&md, p, named); err != nil {
			return err
		}
	}
	return unknownKey(&md, data)
}

// readProvider decodes one [[provider]] over the provider of the same id, or over the defaults.
func (f *tableFile) readProvider(md *toml.MetaData, raw toml.Primitive, named map[string]bool) error {
	var key struct {
		ID      string `toml:"id"`
		Wide    bool   `toml:"wide"`
		Tenants bool   `toml:"tenants"`
	}
	if err := md.PrimitiveDecode(raw, &key); err != nil {
		return atLine(err)
	}
	if named[key.ID] {
		return fmt.Errorf("provider %q: given twice", key.ID)
	}
	named[key.ID] = true
	i := slices.IndexFunc(f.Providers, func(p providerFile) bool { return p.ID == key.ID })
	if i < 0 {
		f.Providers = append(f.Providers, providerFile{Limits: f.Defaults.Limits})
		i = len(f.Providers) - 1
	}
	p := f.Providers[i].clone()
	rules := p.Rules
	p.Rules = nil
	if err := md.PrimitiveDecode(raw, &p); err != nil {
		return fmt.Errorf("provider %q: %w", key.ID, atLine(err))
	}
	if key.Wide != key.Tenants {
		p.Wide, p.Tenants = key.Wide, key.Tenants // a kind that is given here replaces that of the row
	}
	p.Rules = mergeRules(rules, p.Rules)
	f.Providers[i] = p
	return nil
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

// DecodeTOML reads an operator's file into a value. A key without a field in the value is an error; each error names its line.
func DecodeTOML(data []byte, into any) error {
	md, err := toml.Decode(string(data), into)
	if err != nil {
		return atLine(err)
	}
	return unknownKey(&md, data)
}

// atLine adds the line to an error of the parser.
func atLine(err error) error {
	var parse toml.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("line %d: %s", parse.Position.Line, parse.Message)
	}
	return err
}

// unknownKey refuses a file with an unknown key: a misspelt limit must not be ignored.
func unknownKey(md *toml.MetaData, data []byte) error {
	undecoded := md.Undecoded()
	if len(undecoded) == 0 {
		return nil
	}
	key := undecoded[0].String()
	if line := lineOf(key, string(data)); line > 0 {
		return fmt.Errorf("line %d: unknown key %q", line, key)
	}
	return fmt.Errorf("unknown key %q", key)
}

// lineOf finds the first line that sets a dotted key, 0 if it finds none. The decoder keeps no positions.
func lineOf(key, data string) int {
	table, n := "", 0
	for line := range strings.Lines(data) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && !strings.Contains(line, "=") {
			head, _, _ := strings.Cut(line, "#")
			table = strings.Trim(head, " []\t")
			if table == key {
				return n
			}
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		name = strings.Trim(name, " \t\"'")
		if ok && (name == key && table == "" || table+"."+name == key) {
			return n
		}
	}
	return 0
}
