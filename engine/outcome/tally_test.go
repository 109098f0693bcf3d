package outcome

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// receiver is a simulated receiver: how often verdicts of each kind of it are wrong.
type receiver struct {
	name   string
	weight int
	error  float64 // share of VALID and INVALID that is wrong
	taking float64 // share of RISKY and UNKNOWN that takes mail
}

var receivers = []receiver{{"gmail", 30, 0.01, 0.9}, {"outlook", 20, 0.04, 0.7}, {"yahoo", 15, 0.08, 0.55},
	{"other", 20, 0.02, 0.4}, {"gmx", 10, 0.15, 0.25},
	{"zoho", 5, 0.3, 0.1}}

var verdicts = []struct {
	status    engine.Status
	reason    engine.Reason
	low, high int
}{{engine.Valid, engine.ReasonNone, 90, 100}, {engine.Risky, engine.ReasonCatchAll, 54, 66},
	{engine.Unknown, engine.ReasonGreylisted, 41, 54},
	{engine.Invalid, engine.ReasonMailboxNotFound, 0, 9}}

// draw draws a verdict and the true probability that its address takes mail. Within its band a score says something.
func draw(r *rand.Rand) (b Bin, takes float64) {
	n := r.IntN(100)
	i := 0
	for n >= receivers[i].weight {
		n -= receivers[i].weight
		i++
	}
	of, v := receivers[i], verdicts[r.IntN(len(verdicts))]
	score := v.low + r.IntN(v.high-v.low+1)
	place := float64(score-v.low)/float64(v.high-v.low) - 0.5
	switch v.status {
	case engine.Valid:
		takes = 1 - of.error*(1-place)
	case engine.Invalid:
		takes = of.error * (1 + place)
	default:
		takes = of.taking + 0.1*place
	}
	return BinOf(of.name, v.status, v.reason, uint8(score)), takes
}

// TestProbabilitiesAreReliable: of 100,000 outcomes with known error rates, the probabilities that follow are within
// two points of what becomes of as many other addresses, in each tenth of them.
func TestProbabilitiesAreReliable(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 4))
	var own, all Tally
	for i := range 100_000 {
		b, takes := draw(r)
		kind := Bounced
		if r.Float64() < takes {
			kind = Delivered
		}
		all.Add(b, kind, 1)
		if i%10 == 0 { // one account of several
			own.Add(b, kind, 1)
		}
	}
	type prediction struct {
		p     float64
		takes bool
	}
	var later []prediction
	for range 100_000 {
		b, takes := draw(r)
		p, n, known := Probability(&own, &all, b)
		require.True(t, known, "%v: %d", b, n)
		later = append(later, prediction{p, r.Float64() < takes})
	}
	slices.SortStableFunc(later, func(x, y prediction) int { return int(math.Copysign(1, x.p-y.p)) })
	for i := range 10 {
		tenth := later[i*len(later)/10 : (i+1)*len(later)/10]
		said, was := 0.0, 0.0
		for _, one := range tenth {
			said += one.p / float64(len(tenth))
			if one.takes {
				was += 1 / float64(len(tenth))
			}
		}
		t.Logf("tenth %d: said %.3f, was %.3f", i+1, said, was)
		require.InDelta(t, was, said, 0.02)
	}
}

// TestBoundsHoldTheTruth: over 200 runs the bounds of the accuracy hold the true rate in 95 of 100 cases; and of no
// receiver in so few runs that chance would not explain it.
func TestBoundsHoldTheTruth(t *testing.T) {
	const runs = 200
	held, cases := map[string]int{}, map[string]int{}
	for run := range runs {
		r := rand.New(rand.NewPCG(uint64(run), 7))
		var all Tally
		for range 3000 {
			of := receivers[r.IntN(len(receivers))]
			kind := Delivered
			if r.Float64() < of.error {
				kind = Bounced
			}
			all.Add(BinOf(of.name, engine.Valid, engine.ReasonNone, 98), kind, 1)
		}
		for _, row := range all.Rows() {
			of := receivers[slices.IndexFunc(receivers, func(of receiver) bool { return of.name == row.Receiver })]
			cases[row.Receiver]++
			if row.Accuracy.Low <= 1-of.error && 1-of.error <= row.Accuracy.High {
				held[row.Receiver]++
			}
		}
	}
	const least = 182 // of 200 with 95 % each: fewer in less than one of 100 tests
	sum := 0
	for name, n := range cases {
		require.Equal(t, runs, n)
		t.Logf("%s: held in %d of %d", name, held[name], n)
		require.GreaterOrEqual(t, held[name], least, name)
		sum += held[name]
	}
	t.Logf("held in %d of %d", sum, runs*len(cases))
	require.GreaterOrEqual(t, sum*100, runs*len(cases)*95)
}

// TestFewOutcomesGiveNoProbability: nothing is said below 200 outcomes of the receiver, status and reason, and
// Unclear ones do not count.
func TestFewOutcomesGiveNoProbability(t *testing.T) {
	var own, all Tally
	b := BinOf("gmail", engine.Valid, engine.ReasonNone, 98)
	all.Add(b, Delivered, MinObservations-1)
	all.Add(b, Unclear, 1000)
	all.Add(BinOf("outlook", engine.Valid, engine.ReasonNone, 98), Delivered, 1000)
	_, n, known := Probability(&own, &all, b)
	require.False(t, known)
	require.EqualValues(t, MinObservations-1, n)
	all.Add(BinOf("gmail", engine.Valid, engine.ReasonNone, 91), Bounced, 1)
	p, n, known := Probability(&own, &all, b)
	require.True(t, known)
	require.EqualValues(t, MinObservations, n)
	require.InDelta(t, 0.995, p, 0.005)
}

// TestOwnOutcomesCount: an account whose mail fares otherwise than that of others is told so.
func TestOwnOutcomesCount(t *testing.T) {
	var own, all Tally
	b := BinOf("gmail", engine.Risky, engine.ReasonCatchAll, 60)
	all.Add(b, Delivered, 10_000)
	own.Add(b, Bounced, 500)
	all.Add(b, Bounced, 500)
	p, _, _ := Probability(&own, &all, b)
	require.Less(t, p, 0.3)
	p, _, _ = Probability(new(Tally), &all, b)
	require.Greater(t, p, 0.9)
}

func TestSharesHaveBounds(t *testing.T) {
	require.False(t, shareOf(0, 0).Known)
	for _, whole := range []int64{1, 2, 10, 1000, 1_000_000} {
		for _, part := range []int64{0, 1, whole / 2, whole - 1, whole} {
			s := shareOf(part, whole)
			name := fmt.Sprint(part, " of ", whole, ": ", s)
			require.True(t, 0 <= s.Low && s.Low <= s.Value && s.Value <= s.High && s.High <= 1, name)
		}
	}
	s := shareOf(81, 263) // Newcombe 1998, table I
	require.InDelta(t, 0.2535, s.Low, 0.0001)
	require.InDelta(t, 0.3682, s.High, 0.0001)
}

func TestRowsSayWhatAgrees(t *testing.T) {
	var all Tally
	bad := BinOf("gmx", engine.Invalid, engine.ReasonMailboxNotFound, 3)
	all.Add(bad, Bounced, 90)
	all.Add(bad, Complained, 10)
	all.Add(bad, Unclear, 5)
	all.Add(BinOf("gmx", engine.Risky, engine.ReasonCatchAll, 60), Delivered, 1)
	moved := BinOf("gmx", engine.Valid, engine.ReasonNone, 98)
	all.Add(moved, Delivered, 1)
	all.Add(moved, Delivered, -1)
	rows := all.Rows()
	require.Len(t, rows, 2)
	require.Equal(t, int64(100), rows[0].N)
	require.Equal(t, 0.9, rows[0].Accuracy.Value)
	require.Equal(t, 0.1, rows[0].Deliverable.Value)
	require.False(t, rows[1].Accuracy.Known)
}
