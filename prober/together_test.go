package prober

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const rowsPerTest = 40 // rows of the tests below

// verifyOneByOne verifies rows at a far receiver that takes one recipient a transaction, and returns how long that
// took.
func verifyOneByOne(t *testing.T, h *fakeServer) (took time.Duration) {
	table := strings.Replace(testTable, "recipients_per_transaction = 0", "recipients_per_transaction = 1", 1)
	h.replyDelay = 100 * time.Millisecond
	h.rcpt = func(_ string) string { return "550 5.1.1 User unknown" }
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		var addrs []string
		for i := range rowsPerTest {
			addrs = append(addrs, fmt.Sprintf("user%d@a.example", i))
		}
		start := time.Now()
		for _, r := range b.verify(time.Minute, b.rows(mxA, addrs...)...) {
			require.Equal(t, "INVALID mailbox_not_found", verdictText(r.Verdict))
		}
		took = time.Since(start)
	})
	return took
}

// TestTransactionsArePipelined asks for one recipient a transaction, and for many transactions a round trip.
func TestTransactionsArePipelined(t *testing.T) {
	h := &fakeServer{}
	took := verifyOneByOne(t, h)
	require.Equal(t, 1, h.snapshot().largestTransaction, "recipients in a transaction")
	require.Less(t, took, rowsPerTest/4*h.replyDelay, "a round trip each")
}

// TestTransactionsAreSplitAfterAnEarlyClose meets a receiver that closes at the third MAIL of a connection: no
// recipient is blamed, every one is answered, and no more than a first group is sent in vain.
func TestTransactionsAreSplitAfterAnEarlyClose(t *testing.T) {
	h := &fakeServer{maxMails: 2}
	verifyOneByOne(t, h)
	saw := h.snapshot()
	require.Len(t, saw.rcptTimes, rowsPerTest, "nobody is asked twice")
	mails := 0
	for _, what := range saw.log {
		if what == "MAIL" {
			mails++
		}
	}
	require.LessOrEqual(t, mails, rowsPerTest+len(saw.dialTimes), "each connection hears of one MAIL too many")
}
