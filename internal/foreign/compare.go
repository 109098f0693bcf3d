package foreign

import (
	"cmp"
	"io"
	"maps"
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

// Compare compares our result, whose e-mail column is named, with theirs, as ReadStatuses reads them. Of each pair of
// statuses it has up to so many examples.
func Compare(ours io.Reader, email string, theirs map[string]string, examples int) (*Comparison, error) {
	c := &Comparison{}
	receivers := map[string]*Receiver{}
	left := maps.Clone(theirs)
	seen := map[string]bool{}
	columns := slices.Clone(ourColumns)
	columns[0] = email
	err := Read(ours, columns, func(_ int, cells []string) error {
		status := cells[1]
		key := Key(cells[0])
		if status == "" || seen[key] { // a blank row, or a duplicate
			return nil
		}
		seen[key] = true
		other, both := theirs[key]
		if !both {
			c.OnlyOurs++
			return nil
		}
		delete(left, key)
		name := strings.Clone(cells[2])
		r := receivers[name]
		if r == nil {
			r = &Receiver{Receiver: name, Disagreements: []Disagreement{}}
			receivers[name] = r
		}
		c.Both++
		r.Both++
		if status == other {
			c.Agree++
			r.Agree++
			return nil
		}
		i := slices.IndexFunc(r.Disagreements, func(d Disagreement) bool {
			return d.Ours == status && d.Theirs == other
		})
		if i < 0 {
			i = len(r.Disagreements)
			r.Disagreements = append(r.Disagreements,
				Disagreement{Ours: strings.Clone(status), Theirs: other, Examples: []Evidence{}})
		}
		d := &r.Disagreements[i]
		d.Addresses++
		if len(d.Examples) < examples {
			d.Examples = append(d.Examples, Evidence{Email: cells[0], Reason: cells[3], Score: cells[4], Code: cells[5],
				Message: cells[6], Host: cells[7], Rule: cells[8], Control: cells[9]})
		}
		return nil
	})
	c.OnlyTheirs = len(left)
	for _, r := range receivers {
		slices.SortFunc(r.Disagreements, func(x, y Disagreement) int {
			return cmp.Or(cmp.Compare(y.Addresses, x.Addresses), cmp.Compare(x.Ours, y.Ours),
				cmp.Compare(x.Theirs, y.Theirs))
		})
		c.Receivers = append(c.Receivers, *r)
	}
	slices.SortFunc(c.Receivers, func(x, y Receiver) int {
		return cmp.Or(cmp.Compare(y.Both-y.Agree, x.Both-x.Agree), cmp.Compare(y.Both, x.Both),
			cmp.Compare(x.Receiver, y.Receiver))
	})
	return c, err
}
