package outcome

import (
	"cmp"
	"math"
	"slices"

	"probity/engine"
)

// MinObservations is how many outcomes of a receiver, status and reason there must be for a probability.
const MinObservations = 200

// bandWidth is how many scores one band has.
const bandWidth = 3

// allBands is the band of the bin that has all outcomes of a receiver, status and reason.
const allBands = 255

// Bin is the verdicts that are counted together.
type Bin struct {
	Receiver string // smtp_provider
	Status   engine.Status
	Reason   engine.Reason
	Band     uint8 // of the score
}

// BinOf returns the bin of a verdict.
func BinOf(receiver string, status engine.Status, reason engine.Reason, score uint8) Bin {
	return Bin{receiver, status, reason, score / bandWidth}
}

// wide is the bin of all bands.
func (b Bin) wide() Bin {
	b.Band = allBands
	return b
}

// Counts are outcomes by Kind.
type Counts [Kinds]int64

// exists returns how many outcomes show that the mailbox takes mail.
func (c *Counts) exists() int64 { return c[Delivered] + c[Complained] }

// conclusive returns how many show that it does or does not.
func (c *Counts) conclusive() int64 { return c.exists() + c[Bounced] }

// Tally counts outcomes. The zero value has none. It has no lock.
type Tally struct{ bins map[Bin]*Counts }

// Add adds n outcomes; n may be less than zero.
func (t *Tally) Add(b Bin, k Kind, n int64) {
	if t.bins == nil {
		t.bins = make(map[Bin]*Counts)
	}
	for _, bin := range [...]Bin{b, b.wide()} {
		if t.bins[bin] == nil {
			t.bins[bin] = new(Counts)
		}
		t.bins[bin][k] += n
	}
}

func (t *Tally) counts(b Bin) Counts {
	if c := t.bins[b]; c != nil {
		return *c
	}
	return Counts{}
}

// shrinkage is how many outcomes a wider bin weighs in a narrower one: the share of fewer is mostly chance.
const shrinkage = MinObservations

// Probability returns how probable it is that an address with a verdict of the bin takes mail. n is on how many
// outcomes it rests; known is false if there are too few. own are the account's outcomes, all those of the
// installation, which have the account's too.
//
// It begins with the share of the receiver, status and reason, and goes on to the band and to the account's own
// outcomes in it. Each narrower share is pulled towards the one before with the weight of 200 outcomes, so that few of
// them change little.
func Probability(own, all *Tally, b Bin) (p float64, n int64, known bool) {
	wide := all.counts(b.wide())
	n = wide.conclusive()
	if n < MinObservations {
		return 0, n, false
	}
	p = (float64(wide.exists()) + 0.5) / float64(n+1)
	for _, c := range [...]Counts{all.counts(b), own.counts(b)} {
		p = (float64(c.exists()) + shrinkage*p) / float64(c.conclusive()+shrinkage)
	}
	return p, n, true
}

// Row is the outcomes of a receiver, status and reason.
type Row struct {
	Bin
	Counts
	N           int64 // outcomes that show whether the mailbox takes mail
	Deliverable Share // of those that show that it does
	Accuracy    Share // of those that agree with the verdict; not Known for RISKY and UNKNOWN, which claim nothing
}

// Rows returns the rows, those with the most outcomes first.
func (t *Tally) Rows() []Row {
	var rows []Row
	for b, c := range t.bins {
		if b.Band != allBands || *c == (Counts{}) {
			continue
		}
		r := Row{Bin: b, Counts: *c, N: c.conclusive()}
		r.Deliverable = shareOf(c.exists(), r.N)
		switch b.Status {
		case engine.Valid:
			r.Accuracy = r.Deliverable
		case engine.Invalid:
			r.Accuracy = shareOf(c[Bounced], r.N)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(cmp.Compare(y.N, x.N), cmp.Compare(x.Receiver, y.Receiver), cmp.Compare(x.Status, y.Status),
			cmp.Compare(x.Reason, y.Reason))
	})
	return rows
}

// Share is a part of all, with the bounds between which the true share lies in 95 of 100 cases.
type Share struct {
	Known       bool // false of nothing
	Value       float64
	Low, High   float64
	Part, Whole int64
}

// shareOf returns part of whole with the bounds of Wilson's score interval, corrected for continuity, so that few
// outcomes do not promise more than they show.
func shareOf(part, whole int64) Share {
	if whole == 0 {
		return Share{}
	}
	const z = 1.959964 // of 95 %
	n, p := float64(whole), float64(part)/float64(whole)
	s := Share{Known: true, Value: p, High: 1, Part: part, Whole: whole}
	below := z*math.Sqrt(z*z-2-1/n+4*p*(n*(1-p)+1)) + 1
	above := z*math.Sqrt(z*z+2-1/n+4*p*(n*(1-p)-1)) + 1
	if part > 0 {
		s.Low = max(0, (2*n*p+z*z-below)/(2*(n+z*z)))
	}
	if part < whole {
		s.High = min(1, (2*n*p+z*z+above)/(2*(n+z*z)))
	}
	return s
}
