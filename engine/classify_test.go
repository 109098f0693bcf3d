package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReplyThatQuotesUsIsAboutUs(t *testing.T) {
	table := DefaultTable()
	sender := SenderIdentity{MailFrom: "probe@check.example", EHLO: "mx1.check.example",
		Sources: []string{"192.0.2.77", "2001:db8::25"}}
	for raw, want := range map[string]Meaning{
		"550 5.1.1 <probe@check.example>: user unknown":          SenderRefused,
		"550 5.1.1 <PROBE@check.example> user unknown":           SenderRefused,
		"550-5.1.1 user unknown\n550 5.1.1 asked by 192.0.2.77.": SenderRefused,
		"550 5.1.1 no such user (mx1.check.example)":             SenderRefused,
		"550 5.1.1 no such user [2001:DB8::25]":                  SenderRefused,
		"550 5.1.1 no such user at 192.0.2.7":                    NoMailbox,
		"550 5.1.1 no such user at 192.0.2.771":                  NoMailbox,
		"550 5.1.1 no such user <other-probe@check.example>":     NoMailbox,
		"550 5.1.1 no such user <probe@check.example.org>":       NoMailbox,
		"550 5.1.1 no such user at xmx1.check.example":           NoMailbox,
		"450 4.2.0 greylisted probe@check.example":               Greylisted,
		"550 blocked by rbl.example for 192.0.2.77":              Blocked,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want, table.Classify(nil, r, sender).Meaning, raw)
	}
}

func TestPausesAreAsLongAsTheLimit(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]time.Duration{
		"421 too many messages in this connection":                   0, // of one connection
		"421 4.5.0 Too many errors, bye":                             10 * time.Second,
		"421 4.7.0 mx.example Error: too many errors":                10 * time.Second,
		"450 4.7.1 Error: too many recipients from 192.0.2.5":        2 * time.Minute, // of a minute
		"421 4.7.0 mx.example Error: too many connections from 1::5": 2 * time.Minute,
		"450 4.7.1 Too many recipients from your host this hour":     15 * time.Minute,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want, table.Classify(nil, r, SenderIdentity{}).Action.For, raw)
	}
}

func TestActions(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]ActionKind{
		"550 5.1.1 user unknown":                   ActionNone,
		"421 4.3.2 closing":                        ActionClose,
		"421 4.7.0 too many connections":           ActionClose,
		"450 4.7.0 rate limited":                   ActionPause,
		"554 5.7.1 blocked using zen.spamhaus.org": ActionQuarantineEverywhere,
		"550 Too many invalid recipients":          ActionQuarantine,
		"452 4.5.3 too many recipients":            ActionClose,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want.String(), table.Classify(nil, r, SenderIdentity{}).Action.Kind.String(), raw)
	}
}

// TestTemporaryNeverCondemns: a reply that condemns with 5xx does not condemn with 4xx.
func TestTemporaryNeverCondemns(t *testing.T) {
	table := DefaultTable()
	words := []string{"user", "unknown", "mailbox", "disabled", "no such", "5.1.1", "4.1.1", "not found",
		"<a@b.example>", "recipient", "does not exist", "inactive"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 6).Draw(t, "words"), " ")
		f := table.Classify(nil, Reply{Stage: StageRcpt, Code: 450, Lines: []string{text}}, SenderIdentity{})
		if f.Meaning == NoMailbox || f.Meaning == MailboxDisabled ||
			f.Blame == BlameRecipient && f.Meaning != MailboxFull {
			t.Fatalf("450 %s: %+v", text, f)
		}
	})
}

func TestUnknownUserInTemporaryReplyIsNamed(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]bool{
		"450 4.1.1 user unknown":     true,
		"450 4.2.1 mailbox disabled": false,
		"451 4.3.0 try again":        false,
		// Postfix verifies at the next host, and says "unverified address" in each 4xx: what follows says why.
		"450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: host mx.b.example[192.0.2.1] said: 550 5.1.1 <a@b.example>: Recipient address rejected: User unknown in virtual mailbox table (in reply to RCPT TO command)": true,
		"450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: host mx.b.example[private/dovecot-lmtp] said: 550 5.1.1 <a@b.example> User doesn't exist: a@b.example (in reply to RCPT TO command)":                         true,
		`450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: unknown user: "a"`:                                                                                                                                           true,
		"450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: Address verification in progress":                                                                                                                            false,
		"450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: connect to mx.b.example[192.0.2.1]:25: Connection timed out":                                                                                                 false,
		"450 4.1.1 <a@b.example>: Recipient address rejected: unverified address: host mx.b.example[192.0.2.1] said: 451 4.3.0 Temporary lookup failure (in reply to RCPT TO command)":                                                         false,
		"450 4.1.1 <a@b.example>: unverified address": false,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		f := table.Classify(nil, r, SenderIdentity{})
		require.Equal(t, Temporary, f.Meaning, raw)
		require.Equal(t, want, f.NamesUnknown, raw)
	}
}

func TestPhraseNotation(t *testing.T) {
	for notation, texts := range map[string][2]string{ // what it fits, what it does not
		"no such user":              {"No such user!", "no such username"},
		"grey* ~ later":             {"greylisted, come back later", "later greylisted"},
		"*haus*":                    {"see www.spamhaus.org", "hau s"},
		"(user|mailbox) (is |)gone": {"mailbox is gone", "mailbox was gone"},
		"@ rejected":                {"<a@b.example> rejected", "rejected a@b.example"},
		"邮箱(不存在|无效)":                {"该邮箱不存在。", "邮箱已满"},
		"user ~ unknown":            {"user a b c unknown", "user " + strings.Repeat("x ", 40) + " unknown"},
	} {
		table, err := ParseTable([]byte("[[rule]]\nid = \"x\"\ntext = [\"" + notation + "\"]\nmeaning = \"policy\"\n"))
		require.NoError(t, err, notation)
		for i, text := range texts {
			f := table.Classify(nil, Reply{Stage: StageRcpt, Code: 550, Lines: []string{text}}, SenderIdentity{})
			require.Equal(t, i == 0, f.Rule == "generic/x", "%s: %s", notation, text)
		}
	}
}

func TestClassifyDoesNotAllocate(t *testing.T) {
	table := DefaultTable()
	r, err := ParseReply(StageRcpt, "550 5.1.1 <nobody@example.com>: Recipient address rejected: User unknown in virtual mailbox table")
	require.NoError(t, err)
	sender := SenderIdentity{MailFrom: "probe@check.example", EHLO: "mx1.check.example"}
	require.Zero(t, testing.AllocsPerRun(100, func() { table.Classify(nil, r, sender) }))
}

func TestLinkWithOurAddressIsNotAboutUs(t *testing.T) {
	table := DefaultTable()
	sender := SenderIdentity{MailFrom: "probe@us.example", EHLO: "mx.us.example", Sources: []string{"192.0.2.7"}}
	for text, want := range map[string]Meaning{
		"550 5.1.1 No such user; see https://help.example.net/why?client=192.0.2.7&code=8": NoMailbox,
		"550 5.1.1 No such user as far as 192.0.2.7 may know":                              SenderRefused,
		"550 5.1.1 No such user (mx.us.example)":                                           SenderRefused,
	} {
		reply, err := ParseReply(StageRcpt, text)
		require.NoError(t, err)
		require.Equal(t, want, table.Classify(nil, reply, sender).Meaning, text)
	}
}

// A queue id, host or name that contains the letters of a blocklist's name is not a blocklist.
func TestBlocklistNameInsideAWordIsIgnored(t *testing.T) {
	table := DefaultTable()
	for text, provider := range map[string]string{
		"550 5.1.1 User unknown (mx1.marblehead.example)":                                 "",
		"550 5.1.1 https://support.google.com/mail/?p=NoSuchUser 41rbl5 - gsmtp":          "google",
		"550 5.1.1 https://support.google.com/mail/?p=NoSuchUser psblebk16s1i00 - gsmtp":  "google",
		"550 5.1.1 <ann@x.example>: User unknown [warbler.example] id 7xpsbl9 84wpbl-2b":  "",
		"550 5.1.1 No such user here, says 3f0spam7-b.mx.example":                         "",
		"550 5.1.1 https://support.google.com/mail/?p=NoSuchUser d9njabl7-ehlo9 - gsmtp":  "google",
		"550 5.1.1 Recipient address rejected: User unknown in virtual table; helo-ehlo3": "",
	} {
		reply, err := ParseReply(StageRcpt, text)
		require.NoError(t, err)
		require.Equal(t, NoMailbox, table.Classify(table.Provider(provider), reply, SenderIdentity{}).Meaning, text)
	}
}
