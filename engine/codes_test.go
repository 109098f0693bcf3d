package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// registeredCodes are the details of each subject in the registry of enhanced codes (RFC 3463 and the RFCs that add to
// it, as registered with IANA): subject to the greatest detail.
var registeredCodes = map[uint16]uint16{0: 0, 1: 10, 2: 4, 3: 6, 4: 7, 5: 6, 6: 10, 7: 30}

// rcptCodes are the codes with which RCPT may be answered (RFC 5321 section 4.3.2, RFC 7504 section 4), and those that
// servers use all the same.
var rcptCodes = []int{421, 450, 451, 452, 455, 500, 501, 502, 503, 504, 521, 541, 550, 551, 552, 553, 554, 555, 556}

// TestEveryCodeIsReadWithAndAgainstWords gives each enhanced code alone, with the words of an unknown user, and with
// words that no rule knows.
func TestEveryCodeIsReadWithAndAgainstWords(t *testing.T) {
	table := DefaultTable()
	alone := []string{"5.1.1", "5.1.3", "5.1.6", "5.1.10", "5.2.1"} // condemn where nothing is said
	// of another subject, but a rule names them: they are what servers give for no code
	agree := []string{"5.3.0", "5.5.0"}
	classify := func(code int, text string) Finding {
		return table.Classify(nil, Reply{Stage: StageRcpt, Code: code, Lines: []string{text}}, SenderIdentity{})
	}
	condemned := func(f Finding) bool { return f.Meaning == NoMailbox || f.Meaning == MailboxDisabled }
	n := 0
	for subject, most := range registeredCodes {
		for detail := range most + 1 {
			n++
			code := fmt.Sprintf("5.%d.%d", subject, detail)
			require.Equal(t, slices.Contains(alone, code), condemned(classify(550, code+" <ann@dom.example>")),
				"%s alone", code)
			require.False(t, condemned(classify(550, code+" We would rather talk about the weather")),
				"%s with words that no rule knows", code)
			if f := classify(550, code+" <ann@dom.example>: no such user here"); condemned(f) {
				other := subject == 3 || subject == 4 || subject == 5 || subject == 7
				require.True(t, !other || slices.Contains(agree, code), "%s against the words: %s", code, f.Rule)
			} else {
				require.False(t, subject <= 2 && code != "5.1.7" && code != "5.1.8" && code != "5.1.9",
					"%s with the words: %s by %s", code, f.Meaning, f.Rule)
			}
			for _, text := range []string{"4" + code[1:], "4" + code[1:] + " no such user here"} {
				require.False(t, condemned(classify(450, text)), "a temporary refusal: %s", text)
			}
		}
	}
	require.Equal(t, 81, n)
}

func TestNoBasicCodeCondemnsWithoutWords(t *testing.T) {
	table := DefaultTable()
	for _, code := range rcptCodes {
		for _, text := range []string{"", "<ann@dom.example>", "refused", "We would rather talk about the weather"} {
			f := table.Classify(nil, Reply{Stage: StageRcpt, Code: code, Lines: []string{text}}, SenderIdentity{})
			require.False(t, f.Meaning == NoMailbox || f.Meaning == MailboxDisabled, "%d %s: %s", code, text, f.Rule)
			require.NotEqual(t, Accepted, f.Meaning)
			require.NotEmpty(t, f.Rule)
		}
	}
}

// TestAcceptanceInWordsOfAnUnknownUser is neither an acceptance nor a refusal, as 252 is.
func TestAcceptanceInWordsOfAnUnknownUser(t *testing.T) {
	table := DefaultTable()
	for text, want := range map[string]Meaning{
		"2.1.5 Ok": Accepted, "2.1.5 <ann@dom.example> recipient ok": Accepted,
		"recipient <ann@dom.example> accepted, go ahead please": Accepted,
		"2.1.5 OK, completed queueing for delivery to the user": Accepted,
		"User unknown; held for review":                         MeaningUnknown,
		"2.1.5 no such user here, message will be dropped":      MeaningUnknown,
		"Empfänger unbekannt, wird trotzdem angenommen":         MeaningUnknown,
		"2.0.0 this mailbox does not exist":                     MeaningUnknown,
	} {
		require.Equal(t, want, table.Classify(nil, Reply{Stage: StageRcpt, Code: 250, Lines: []string{text}},
			SenderIdentity{}).Meaning, text)
	}
	forwards := Reply{Stage: StageRcpt, Code: 251,
		Lines: []string{"User not local; will forward to <ann@other.example>"}}
	require.Equal(t, Accepted, table.Classify(nil, forwards, SenderIdentity{}).Meaning)
}

// TestOwnNameIsNotRead gives the recipient a name whose words would decide.
func TestOwnNameIsNotRead(t *testing.T) {
	table := DefaultTable()
	for _, c := range []struct {
		local, text string
		want        Meaning
	}{
		{"guest", "User guest unknown", NoMailbox},
		{"monday", "monday: no such user", NoMailbox},
		{"sender", "sender: no such user here", NoMailbox},
		{"later", "5.1.1 later... User unknown", NoMailbox},
		{"blocked", "blocked does not exist here", NoMailbox},
		{"unknown.user", "unknown.user: not today", MeaningUnknown},
	} {
		r := Reply{Stage: StageRcpt, Code: 550, Lines: []string{c.text}}
		require.Equal(t, c.want, table.Classify(nil, r, SenderIdentity{Local: c.local}).Meaning, c.text)
	}
}

// TestRecipientCalloutIsJudgedByTheInnerReply: what the server behind Exim said of the recipient, of the weaker class
// of both replies.
func TestRecipientCalloutIsJudgedByTheInnerReply(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]Meaning{
		"550-Callout verification failed:\n550 550 5.1.1 <ann@in.example>: Recipient address rejected: User unknown": NoMailbox,
		"550-Callout verification failed:\n550-550 no such\n550 550 mailbox here":                                    NoMailbox,
		"550 Callout verification failed: 550 Benutzer unbekannt":                                                    NoMailbox,
		"550-Callout verification failed:\n550 552 5.2.2 mailbox is full":                                            MailboxFull,
		"550-Callout verification failed:\n550 451 4.3.2 try again later":                                            Temporary,
		"450-Callout verification failed:\n450 550 no such user":                                                     Temporary,
		"550-Callout verification failed:\n550 550 5.7.1 192.0.2.7 is listed at zen.example.net":                     Blocked,
		"550-Verification failed for <probe@sender.example>\n550 Sender verify failed":                               SenderRefused,
		"550 Sender callout verification failed: 550 user unknown":                                                   SenderRefused,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want, table.Classify(nil, r, SenderIdentity{}).Meaning, raw)
	}
}

// TestOnePersonsListIsPolicy does not quarantine the route.
func TestOnePersonsListIsPolicy(t *testing.T) {
	table := DefaultTable()
	for _, text := range []string{
		"5.7.1 you were blacklisted by the recipient", "the user has you on a personal blocklist",
		"5.7.1 this mailbox owner's private deny list holds your domain",
		"Vom Empfänger auf die persönliche Sperrliste gesetzt", "l'expéditeur figure sur la liste noire personnelle",
		"el usuario le tiene en su lista negra",
		"vom Benutzer auf seine Blacklist gesetzt", "адрес в личном черном списке получателя", "您在收件人的黑名单中",
	} {
		f := table.Classify(nil, Reply{Stage: StageRcpt, Code: 550, Lines: []string{text}}, SenderIdentity{})
		require.Equal(t, PolicyRefused, f.Meaning, "%s: %s", text, f.Rule)
		require.Equal(t, BlameRecipient, f.Blame, text)
		require.Equal(t, ActionNone, f.Action.Kind, text)
	}
}

// TestQuotaOfSomethingElseIsNoFullMailbox: queues, servers, clients and senders have quotas too.
func TestQuotaOfSomethingElseIsNoFullMailbox(t *testing.T) {
	table := DefaultTable()
	for raw, full := range map[string]bool{
		"452 4.2.2 The mailbox has used all of its 2 GB": true, "552 5.2.2 over quota": true,
		"452 mailbox quota exceeded": true, "552 user is over his disk quota": true,
		"452 4.3.1 spool quota exceeded": false, "450 4.7.3 quota of the tenant exceeded, queue quota": false,
		"451 your quota is used up":                    false,
		"451 4.7.1 quota exceeded for your connection": false, "450 client quota exceeded": false,
		"452 the server quota is exceeded": false,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		f := table.Classify(nil, r, SenderIdentity{})
		require.Equal(t, full, f.Meaning == MailboxFull, "%s: %s by %s", raw, f.Meaning, f.Rule)
	}
}
