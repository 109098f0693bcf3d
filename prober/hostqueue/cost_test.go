package hostqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/budget"
)

// TestTransactionCost counts transactions of rows of long jobs (l), others (s) and decoys for either. Replies: 2, 4, 5
// by their first digit, "-" for none, "u" for not asked without SMTPUTF8.
func TestTransactionCost(t *testing.T) {
	for _, x := range []struct {
		asks, replies string
		pipelined     bool
		mail          int
		want          budget.Cost
	}{
		{"llss", "2255", true, 250, budget.Cost{Recipients: 4, Accepted: 2, Long: 2}},
		{"llss", "5522", true, 250, budget.Cost{Recipients: 4, Accepted: 2, Long: 2, LongRefused: 2}},
		{"llss", "4--5", true, 250, budget.Cost{Recipients: 4, Deferred: 1, Long: 2, LongRefused: 1}},
		{"llss", "5---", true, 250, budget.Cost{Recipients: 4, Long: 2, LongRefused: 2}},
		// those behind are short rows: both long ones count
		{"llss", "5---", false, 250, budget.Cost{Recipients: 4, Unsent: 2, Long: 2, LongRefused: 2}},
		{"sslll", "55---", false, 250, budget.Cost{Recipients: 5, Unsent: 2, Long: 3, LongRefused: 1}},
		{"slsl", "----", false, 550, budget.Cost{Recipients: 4, Unsent: 4, Long: 2}},
		{"slsl", "----", true, 550, budget.Cost{Recipients: 4, Long: 2, LongRefused: 2}},
		{"lsls", "uu55", true, 250, budget.Cost{Recipients: 4, Unsent: 2, Long: 2, LongRefused: 1}},
		{"lsls", "u5u-", false, 250, budget.Cost{Recipients: 4, Unsent: 2, Long: 2}},
		{"lsls", "u---", false, 250, budget.Cost{Recipients: 4, Unsent: 3, Long: 2}},
	} {
		require.Equal(t, x.want, costOfReplies(x.asks, x.replies, x.pipelined, x.mail), "%+v", x)
	}
}

// TestPacingChargesAsTheWindowDoes: where all are for long jobs, what counts as refused is what the window keeps.
func TestPacingChargesAsTheWindowDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replies := rapid.StringMatching(`[245-u]{1,12}`).Draw(t, "replies")
		recipients := rapid.StringMatching(`[ls]{12}`).Draw(t, "asks")[:len(replies)]
		pipelined, mail := rapid.Bool().Draw(t, "pipelined"), rapid.SampledFrom([]int{250, 550}).Draw(t, "MAIL")
		all := costOfReplies(string(make([]byte, len(replies))), replies, pipelined, mail)
		window := len(replies) - all.Unsent - all.Accepted - all.Deferred
		mixed := costOfReplies(recipients, replies, pipelined, mail)
		others := costOfReplies(swapClasses(recipients), replies, pipelined, mail)
		require.Equal(t, window, mixed.LongRefused+others.LongRefused)
	})
}

// swapClasses has the long jobs' rows be others', and others' theirs.
func swapClasses(recipients string) string {
	out := []byte(recipients)
	for i := range out {
		out[i] ^= 'l' ^ 's'
	}
	return string(out)
}

func costOfReplies(recipients, replies string, pipelined bool, mail int) budget.Cost {
	var all []Recipient
	var seen []Answer
	o := smtp.Outcome{Mail: engine.Reply{Stage: engine.StageMail, Code: mail}}
	for i := range replies {
		all = append(all, Recipient{LongJob: recipients[i] == 'l'})
		switch c := replies[i]; c {
		case 'u':
			o.NoUTF8 = append(o.NoUTF8, i)
		case '-':
		default:
			seen = append(seen, Answer{Recipient: i,
				Reply: engine.Reply{Stage: engine.StageRcpt, Code: int(c-'0')*100 + 50}})
		}
	}
	return (&Group{Recipients: all}).Cost(seen, &o, pipelined)
}
