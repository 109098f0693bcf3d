package engine

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"probity/engine/phrase"
)

// condemningPhrases are the phrases of all rules that may condemn a mailbox, with the provider that has them.
func condemningPhrases(t *Table) map[*Rule][]phrase.Phrase {
	phrases := map[*Rule][]phrase.Phrase{}
	lists := [][]Rule{t.Generic}
	for _, p := range t.Providers {
		lists = append(lists, p.Rules)
	}
	for _, rules := range lists {
		for i := range rules {
			if condemns(rules[i].Meaning) && len(rules[i].phrases) > 0 {
				phrases[&rules[i]] = rules[i].phrases
			}
		}
	}
	return phrases
}

// phraseText turns the normal form of a phrase back into a text that normalises to it, with one of the choices of each
// place.
func phraseText(p phrase.Phrase, choice int) string {
	narrow := slices.Clone(p)
	for i := range narrow {
		atoms := narrow[i].Atoms
		narrow[i].Atoms = atoms[min(choice, len(atoms)-1):]
	}
	return strings.TrimSpace(decode(narrow.Sample()))
}

// decode undoes what AppendWords does with other scripts, and writes an address where the phrase needs one.
func decode(words string) string {
	var b strings.Builder
	for i := 0; i < len(words); i++ {
		switch c := words[i]; {
		case c >= utf8.RuneSelf:
			const digits = "abcdefghijklmnopqrstuvwxyz012345"
			r := rune(c - utf8.RuneSelf)
			for _, d := range []byte(words[i+1 : i+3]) {
				r = r<<5 | rune(strings.IndexByte(digits, d))
			}
			b.WriteRune(r)
			i += 2
		case c == '@':
			b.WriteString("<ann@dom.example>")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Every veto phrase, in each of its choices, overrules each condemning rule; and every condemning phrase, in each of
// its choices, is overruled by each veto: before and after it, and next to an enhanced code that condemns by itself.
// Each is paired with the other's phrases in turn, because there are forty million pairs.
func TestVetoStopsEveryCondemningPhrase(t *testing.T) {
	table := DefaultTable()
	phrases := condemningPhrases(table)
	tried := 0
	for i := range table.vetoes.rules {
		veto := &table.vetoes.rules[i]
		for k, words := range veto.phrases {
			for choice := range longest(words) {
				said := phraseText(words, choice)
				require.True(t, table.vetoes.occurIn(string(phrase.AppendWords([]byte{' '}, said))),
					"%s: %q is not read as a veto", veto.ID, said)
				for rule, list := range phrases {
					tried += requireVetoWins(t, table, rule, phraseText(list[(k+choice)%len(list)], choice), said)
				}
			}
		}
		for rule, list := range phrases {
			for k, words := range list {
				for choice := range longest(words) {
					said := veto.phrases[(k+choice)%len(veto.phrases)]
					tried += requireVetoWins(t, table, rule, phraseText(words, choice), phraseText(said, choice))
				}
			}
		}
	}
	require.Greater(t, tried, 500_000)
}

func longest(p phrase.Phrase) (n int) {
	for _, place := range p {
		n = max(n, len(place.Atoms))
	}
	return n
}

func requireVetoWins(t *testing.T, table *Table, rule *Rule, condemning, veto string) (tried int) {
	for i, text := range [...]string{veto + ". " + condemning, condemning + ", " + veto} {
		for _, code := range [...]string{"550 ", [...]string{"550 5.1.1 ", "550 5.2.1 "}[i]} {
			r, err := ParseReply(StageRcpt, code+text)
			require.NoError(t, err)
			f := table.Classify(rule.owner, r, SenderIdentity{})
			if f.Meaning == NoMailbox || f.Meaning == MailboxDisabled {
				t.Errorf("%s condemns by %s: %s%s", rule.ID, f.Rule, code, text)
			}
			tried++
		}
	}
	return tried
}

func TestVetoes(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]Meaning{
		"550 5.1.1 <ann@dom.example>: user unknown":                                       NoMailbox,
		"550 5.1.1 User unknown; see https://help.example.net/later/sender/external":      NoMailbox,
		"550 User not found. Please verify the address of your recipient and send again":  NoMailbox,
		"550 5.1.1 Please check the recipient's address and try again":                    NoMailbox,
		"550 5.1.1 <busy@later.example>: user unknown at external.sender.example":         NoMailbox,
		"550 5.1.1 The mail for ann is not something that we do here":                     MeaningUnknown,
		"550 5.1.3 The mail for ann is not something that we do here":                     MeaningUnknown,
		"550 5.1.1 The mail for ann is not something that we do here at this time":        Temporary,
		"550 5.1.0 The mail for ann is not something that we do here":                     MeaningUnknown,
		"550 The mail for ann is not something that we do here":                           MeaningUnknown,
		"550 User unknown: could not check the recipient, try again":                      Temporary,
		"552 5.2.2 Mailbox full, try again later":                                         MailboxFull,
		"552 5.2.2 Your account is over its quota":                                        SenderRefused,
		"550 5.1.1 User unknown, as your address is":                                      SenderRefused,
		"550 5.2.1 This account is disabled for outside mail":                             PolicyRefused,
		"550 5.2.1 Dieses Postfach ist vorübergehend deaktiviert":                         Temporary,
		"550 5.1.1 Benutzer unbekannt":                                                    NoMailbox,
		"550 5.1.1 用户不存在":                                                                 NoMailbox,
		"550 5.1.1 用户不存在，请稍后重试":                                                           Temporary,
		"550 5.7.1 Sender address rejected: the user does not want mail from this sender": PolicyRefused,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want.String(), table.Classify(nil, r, SenderIdentity{}).Meaning.String(), raw)
	}
}

func TestOneRecipientsRefusalDoesNotQuarantine(t *testing.T) {
	table := DefaultTable()
	for raw, want := range map[string]ActionKind{
		"550 5.7.1 This user wants no mail from your domain":               ActionNone,
		"550 sender address rejected by the recipient":                     ActionNone,
		"550 5.7.1 Sender address rejected: we accept nothing from there":  ActionQuarantine,
		"550 5.7.1 [192.0.2.5] blocked by the recipient: zen.spamhaus.org": ActionQuarantineEverywhere,
	} {
		r, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err)
		require.Equal(t, want.String(), table.Classify(nil, r, SenderIdentity{}).Action.Kind.String(), raw)
	}
}

func TestVetoesAreChecked(t *testing.T) {
	for file, want := range map[string]string{
		"[[veto]]\nid = \"x\"\ntext = [\"words\"]\nmeaning = \"no_mailbox\"\n":                         "a veto says what else a reply means",
		"[[veto]]\nid = \"x\"\ncode = [\"550\"]\nmeaning = \"policy\"\n":                               "text is missing",
		"[[veto]]\nid = \"x\"\ntext = [\"words\"]\nexcept = [\"(\"]\nmeaning = \"policy\"\n":           "except",
		"[[veto]]\nid = \"for-now\"\ntext = [\"words\"]\nmeaning = \"policy\"\n":                       "choose another id",
		"[[rule]]\nid = \"x\"\ntext = [\"words\"]\nexcept = [\"other words\"]\nmeaning = \"policy\"\n": "only a veto has exceptions",
	} {
		_, err := DefaultTable().Override([]byte(file))
		require.ErrorContains(t, err, want)
	}
}
