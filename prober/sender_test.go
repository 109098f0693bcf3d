package prober

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

const calloutFailed = "451 4.1.8 Sender callout could not be completed, try later"

// TestDeferredSenderIsRetried: a temporary refusal of the sender follows the retry schedule, and its route is asked on
// meanwhile.
func TestDeferredSenderIsRetried(t *testing.T) {
	var born time.Time
	h := &fakeServer{rcpt: func(local string) string {
		if local == "ann" && time.Since(born) < 30*time.Second {
			return calloutFailed
		}
		return acceptsOnly("ann", "bob")(local)
	}}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		born = time.Now()
		rows := b.rows(mxA, "ann@a.example", "bob@a.example")
		got := b.verify(10*time.Minute, rows...)
		require.Equal(t, wire.Deferred, got[rows[0].Number].Outcome)
		require.Equal(t, "VALID", verdictText(got[rows[1].Number].Verdict))
		time.Sleep(time.Minute)
		rows[0].Attempt = 1
		got = b.verify(10*time.Minute, rows[0])
		require.Equal(t, "VALID", verdictText(got[rows[0].Number].Verdict))
	})
}

// TestRefusedSenderQuarantinesAfterLastAttempt: where the last attempt is refused too, the source asks nothing more of
// that receiver for a while.
func TestRefusedSenderQuarantinesAfterLastAttempt(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { return calloutFailed }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		row := b.rows(mxA, "ann@a.example")
		row[0].Attempt = 2
		require.Equal(t, "UNKNOWN blocked", verdictText(b.verify(10*time.Minute, row...)[row[0].Number].Verdict))
		asked := len(h.snapshot().rcptTimes)
		other := b.rows(mxA, "bob@a.example")
		require.Equal(t, "UNKNOWN blocked", verdictText(b.verify(10*time.Minute, other...)[other[0].Number].Verdict))
		require.Len(t, h.snapshot().rcptTimes, asked)
	})
}

// TestOneRefusedSenderDoesNotStopTheRoute: whatever a host says to one recipient of four, the mailbox is not condemned
// by words about us, for now or elsewhere, and its neighbours are VALID.
func TestOneRefusedSenderDoesNotStopTheRoute(t *testing.T) {
	for _, refusal := range []string{
		"550 Your message was rejected by this user and was not delivered",
		"550 This mailbox is only available to members",
		"550 noreply mailbox does not accept mail",
		"550 mailbox busy",
		"550 Could not complete recipient verify callout",
		"550 收件人拒收您的邮件",
		"550 Der Empfänger möchte keine Nachrichten von Ihnen erhalten",
		"550 5.2.1 Account temporarily disabled",
		"550 account temporarily suspended, try later",
		"550 5.2.1 please try again",
		"550 5.1.1 MapiExceptionMailboxInTransit",
		"550 Mailbox disabled for external senders",
		"550 mailbox closed for external mail",
		"550 Your account is suspended",
		"550 You are not a member of this list",
		"550 You are not a registered user of this system",
		"550 The address you are sending from is not valid",
		"550 Ihre Adresse ist unbekannt",
		"550 Votre adresse est inconnue",
		"550 El usuario no acepta mensajes de desconocidos",
		"550 Endereço de origem inexistente",
		"550-Requested action not taken: mailbox unavailable\r\n550 invalid DNS MX or A/AAAA resource record",
		"450-Requested mail action not taken: mailbox unavailable\r\n450 Mail send limit exceeded.",
		"452 quota of the day is used up",
		calloutFailed,
	} {
		h := &fakeServer{rcpt: func(local string) string {
			if local == "odd" {
				return refusal
			}
			return acceptsOnly("ann", "bob", "cem")(local)
		}}
		withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			rows := b.rows(mxA, "ann@a.example", "odd@a.example", "bob@a.example", "cem@a.example")
			rows[1].Attempt = 1 // its last but one: what is deferred comes back when the others are done
			got := b.verify(2*time.Hour, rows...)
			for i, r := range rows {
				v := verdictText(got[r.Number].Verdict)
				if i != 1 {
					require.Equal(t, "VALID", v, refusal)
					continue
				}
				require.NotContains(t, v, "INVALID", refusal)
				require.NotContains(t, v, "mailbox_full", refusal)
			}
		})
	}
}

// TestSecondConnectionRefusedKeepsTheFirst: a second connection that gets "too many" at once takes nothing from the
// first.
func TestSecondConnectionRefusedKeepsTheFirst(t *testing.T) {
	h := &fakeServer{rcpt: acceptsAnn, replyDelay: 200 * time.Millisecond, maxConns: 1,
		tooManyReply: "421 Too many concurrent SMTP connections; please try again later."}
	table := strings.Replace(testTable, "recipients_per_transaction = 0", "recipients_per_transaction = 2", 1)
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		began := time.Now()
		rows := b.rows(mxA, numberedAddresses(60, "a.example")...)
		for _, r := range b.verify(time.Hour, rows...) {
			require.Equal(t, "INVALID mailbox_not_found", verdictText(r.Verdict))
		}
		require.Less(t, time.Since(began), time.Minute)
		require.Greater(t, h.snapshot().peak, 1)
	})
}
