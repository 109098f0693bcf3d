package foreign

import (
	"cmp"
	"io"
	"slices"
	"strings"
)

// Comparison is another verifier's results next to ours, by distinct addresses.
type Comparison struct {
	Both       int        `json:"both"` // addresses in both files
	Agree      int        `json:"agree"`
	OnlyOurs   int        `json:"only_ours"`
	OnlyTheirs int        `json:"only_theirs"`
	Receivers  []Receiver `json:"receivers"` // those with the most disagreements first
}

// Receiver is the addresses of one receiver.
type Receiver struct {
	Receiver      string         `json:"receiver"` // verify_smtp_provider
	Both          int            `json:"both"`
	Agree         int            `json:"agree"`
	Disagreements []Disagreement `json:"disagreements"`
}

// Disagreement is the addresses with one pair of statuses.
type Disagreement struct {
	Ours      string     `json:"ours"`
	Theirs    string     `json:"theirs"`
	Addresses int        `json:"addresses"`
	Examples  []Evidence `json:"examples"`
}

// Evidence is what our result rests on. All but the reason and the score need a result with details.
type Evidence struct {
	Email   string `json:"email"`
	Reason  string `json:"reason"`
	Score   string `json:"score"`
	Code    string `json:"smtp_code"`
	Message string `json:"smtp_message"`
	Host    string `json:"mx_host"`
	Rule    string `json:"rule"`
	Control string `json:"control"`
}

// ourColumns are the columns of our result; the e-mail column comes first.
var ourColumns = []string{"", "verify_status", "verify_smtp_provider", "verify_reason", "verify_score",
	"verify_smtp_code?", "verify_smtp_message?", "verify_mx_host?", "verify_rule?", "verify_control_smtp_message?"}

// Verdict is our result of an address.
type Verdict struct {
	Status, Receiver string
	Evidence
}

// Comparer compares our results with theirs one after another.
type Comparer struct {
	theirs    map[string]string // by Key
	examples  int               // of each pair of statuses
	found     Comparison
	receivers map[string]*Receiver
	seen      map[string]bool // of theirs
}

// NewComparer compares with their results, as ReadStatuses reads them. Of each pair of statuses it has up to so many
// examples.
func NewComparer(theirs map[string]string, examples int) *Comparer {
	return &Comparer{theirs: theirs, examples: examples, receivers: map[string]*Receiver{}, seen: map[string]bool{}}
}

// Add adds a result of ours, by Key of its address. It reports whether they have one. A second one of an address counts
// for nothing.
func (c *Comparer) Add(key string, v *Verdict) (both bool) {
	other, both := c.theirs[key]
	if !both || c.seen[key] {
		return both
	}
	c.seen[key] = true
	r := c.receivers[v.Receiver]
	if r == nil {
		r = &Receiver{Receiver: strings.Clone(v.Receiver), Disagreements: []Disagreement{}}
		c.receivers[r.Receiver] = r
	}
	c.found.Both++
	r.Both++
	if v.Status == other {
		c.found.Agree++
		r.Agree++
		return true
	}
	i := slices.IndexFunc(r.Disagreements, func(d Disagreement) bool {
		return d.Ours == v.Status && d.Theirs == other
	})
	if i < 0 {
		i = len(r.Disagreements)
		r.Disagreements = append(r.Disagreements,
			Disagreement{Ours: strings.Clone(v.Status), Theirs: other, Examples: []Evidence{}})
	}
	d := &r.Disagreements[i]
	d.Addresses++
	if len(d.Examples) < c.examples {
		d.Examples = append(d.Examples, v.Evidence)
	}
	return true
}

// Result returns what was found, of so many distinct addresses of ours.
func (c *Comparer) Result(ours int) *Comparison {
	found := c.found
	found.OnlyOurs = ours - found.Both
	found.OnlyTheirs = len(c.theirs) - found.Both
	found.Receivers = make([]Receiver, 0, len(c.receivers))
	for _, r := range c.receivers {
		slices.SortFunc(r.Disagreements, func(x, y Disagreement) int {
			return cmp.Or(cmp.Compare(y.Addresses, x.Addresses), cmp.Compare(x.Ours, y.Ours),
				cmp.Compare(x.Theirs, y.Theirs))
		})
		found.Receivers = append(found.Receivers, *r)
	}
	slices.SortFunc(found.Receivers, func(x, y Receiver) int {
		return cmp.Or(cmp.Compare(y.Both-y.Agree, x.Both-x.Agree), cmp.Compare(y.Both, x.Both),
			cmp.Compare(x.Receiver, y.Receiver))
	})
	return &found
}

// Compare compares our result in CSV, whose e-mail column is named, with theirs: see NewComparer.
func Compare(ours io.Reader, email string, theirs map[string]string, examples int) (*Comparison, error) {
	c := NewComparer(theirs, examples)
	others := map[string]bool{} // addresses of which they have no result
	columns := slices.Clone(ourColumns)
	columns[0] = email
	err := Read(ours, columns, func(_ int, cells []string) error {
		if cells[1] == "" {
			return nil // a blank row
		}
		key := Key(cells[0])
		both := c.Add(key, &Verdict{Status: cells[1], Receiver: cells[2], Evidence: Evidence{Email: cells[0],
			Reason: cells[3], Score: cells[4], Code: cells[5], Message: cells[6], Host: cells[7], Rule: cells[8],
			Control: cells[9]}})
		if !both {
			others[key] = true
		}
		return nil
	})
	return c.Result(len(c.seen) + len(others)), err
}
