package outcome

import (
	"strings"

	"probity/engine"
	"probity/engine/charset"
	"probity/engine/replyline"
)

// Kind is what became of a message, as far as it bears on the verdict. Of two outcomes of one verdict the greater
// counts.
type Kind uint8

// The kinds. The numbers are on disk: add at the end only.
const (
	Unclear    Kind = iota // refused for another reason than the mailbox, or for now
	Delivered              // the mailbox took it
	Complained             // its owner complained, so it exists
	Bounced                // there is no such mailbox, or it is disabled
)

// Kinds is how many kinds there are.
const Kinds = 4

var kindNames = [Kinds]string{"unclear", "delivered", "complained", "bounced"}

func (k Kind) String() string { return kindNames[k] }

// Reports are the words by which senders report.
var Reports = []string{"delivered", "bounced_hard", "bounced_soft", "complained"}

// MaxText is the length of a bounce text that is read, in bytes; the rest is not.
const MaxText = 2000

// Conclude returns the kind of a report, one of Reports, with the text of the bounce, empty if it is not known. ok is
// false for another word. hint leads to the receiver in the table: a domain.
func Conclude(table *engine.Table, report, text, hint string) (kind Kind, ok bool) {
	switch report {
	case "delivered":
		return Delivered, true
	case "complained":
		return Complained, true
	case "bounced_hard", "bounced_soft":
	default:
		return Unclear, false
	}
	byReport := Unclear
	code := "450 "
	if report == "bounced_hard" {
		byReport, code = Bounced, "550 "
	}
	if strings.TrimSpace(text) == "" {
		return byReport, true
	}
	switch meaningOf(table, text, code, hint) {
	case engine.NoMailbox, engine.MailboxDisabled:
		return Bounced, true
	case engine.MeaningUnknown:
		return byReport, true
	}
	return Unclear, true
}

// meaningOf classifies the text of a bounce as a reply to RCPT. A text without a code gets one.
func meaningOf(table *engine.Table, text, code, hint string) engine.Meaning {
	text = strings.TrimSpace(replyline.Escape(text[:min(len(text), MaxText)]))
	// the type of a diagnostic code (RFC 3464, section 2.3.6)
	if len(text) > 5 && strings.EqualFold(text[:5], "smtp;") {
		text = strings.TrimSpace(text[5:])
	}
	reply, err := engine.ParseReply(engine.StageRcpt, text)
	if err != nil {
		words := strings.Join(strings.Fields(text), " ")
		reply, err = engine.ParseReply(engine.StageRcpt, code+words)
	}
	if err != nil {
		return engine.MeaningUnknown
	}
	_, finding := charset.Read(table, table.ProviderOfHint(hint), reply, engine.SenderIdentity{})
	return finding.Meaning
}
