package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const oneEach = 40 // rows of the tests below

// oneByOne verifies rows at a far receiver that takes one recipient a transaction, and returns how long that took.
func oneByOne(t *testing.T, h *host) (took time.Duration) {
	table := strings.Replace(labTable, "recipients_per_transaction = 0", "recipients_per_transaction = 1", 1)
	h.slow = 100 * time.Millisecond
	h.rcpt = func(local string) string { return "550 5.1.1 User unknown" }
	inLab(t, table, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		var addrs []string
		for i := range oneEach {
			addrs = append(addrs, fmt.Sprintf("user%d@a.example", i))
		}
		start := time.Now()
		for _, r := range b.verify(time.Minute, b.rows(mxa, addrs...)...) {
			require.Equal(t, "INVALID mailbox_not_found", spell(r.Verdict))
		}
		took = time.Since(start)
	})
	return took
}

// TestTransactionsGoTogether asks for one recipient a transaction, and for many transactions a round trip.
func TestTransactionsGoTogether(t *testing.T) {
	h := &host{}
	took := oneByOne(t, h)
	require.Equal(t, 1, h.saw().crowd, "recipients in a transaction")
	require.Less(t, took, oneEach/4*h.slow, "a round trip each")
}

// TestTransactionsGoApart meets a receiver that closes at the third MAIL of a connection: nobody is blamed, everybody is answered,
// and no more than a first group is sent in vain.
func TestTransactionsGoApart(t *testing.T) {
	h := &host{mails: 2}
	oneByOne(t, h)
	saw := h.saw()
	require.Len(t, saw.rcpts, oneEach, "nobody is asked twice")
	mails := 0
	for _, what := range saw.log {
		if what == "MAIL" {
			mails++
		}
	}
	require.LessOrEqual(t, mails, oneEach+len(saw.dialed), "each connection hears of one MAIL too many")
}
