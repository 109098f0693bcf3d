package engine

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"probity/engine/phrase"
)

// genericRules is the first part of the ids of rules that no provider has.
const genericRules = "generic"

// Rule gives a meaning to replies that fit all of its conditions. It is data of the provider table, immutable once
// read.
type Rule struct {
	ID      string // "google/no-such-user", "generic/unknown-user"
	Meaning Meaning
	Blame   Blame
	Action  Action
	Source  string
	Date    string
	When    Conditions // as the file has them

	bare     bool   // a code that condemns only where there are no words
	stages   uint16 // bit per Stage; 0 is any
	codes    []codePattern
	enhanced []enhancedPattern
	phrases  []phrase.Phrase // any of them must occur
	pattern  *regexp.Regexp  // or this must match; nil and no phrases: no condition on the text
	owner    *Provider       // nil: for every provider
	rank     uint32          // lower wins
}

// Conditions are what a rule requires of a reply, in the notation of the provider file. All that are given must hold.
type Conditions struct {
	Stage, Code, Enhanced []string // one of them, each
	Text                  []string // phrases of which one must occur
	Pattern               string   // or a regular expression that a line must match
}

// condemns reports whether m is about the mailbox itself: only a reply to RCPT can have it.
func condemns(m Meaning) bool { return m == NoMailbox || m == MailboxFull || m == MailboxDisabled }

// fits checks every condition but the text. A rule that condemns, and does not name the enhanced code, does not fit a
// code that is about something else than the address or the mailbox (RFC 3463 section 3: systems, networks, protocols,
// policy).
func (r *Rule) fits(reply *Reply, enhanced Enhanced) bool {
	if r.stages != 0 && r.stages&(1<<reply.Stage) == 0 {
		return false
	}
	if condemns(r.Meaning) {
		if reply.Stage != StageRcpt {
			return false
		}
		if r.owner == nil && len(r.enhanced) == 0 && forbids(enhanced, r.Meaning) {
			return false
		}
	}
	codeFits := func(p codePattern) bool { return p.matches(reply.Code) }
	if len(r.codes) > 0 && !slices.ContainsFunc(r.codes, codeFits) {
		return false
	}
	enhancedFits := func(p enhancedPattern) bool { return enhanced != (Enhanced{}) && p.matches(enhanced) }
	return len(r.enhanced) == 0 || slices.ContainsFunc(r.enhanced, enhancedFits)
}

// forbids reports whether an enhanced code is about something that a condemning meaning cannot be of: system, network,
// protocol, policy. That a mailbox is full is no judgement of it, and some servers call it policy.
func forbids(e Enhanced, m Meaning) bool {
	switch e.Subject {
	case 3, 4:
		return true
	case 5, 7:
		return m != MailboxFull
	}
	return false
}

// finding returns what the rule says about a reply that fits it.
func (r *Rule) finding(reply *Reply) Finding {
	f := Finding{Meaning: r.Meaning, Blame: r.Blame, Rule: r.ID, Action: r.Action}
	if f.Blame == BlameRecipient && reply.Stage != StageRcpt {
		f.Blame = BlameSite
	}
	// A temporary refusal never condemns, whatever its words (RFC 5321 section 4.2.1).
	if reply.Code/100 != 5 && (f.Meaning == NoMailbox || f.Meaning == MailboxDisabled) {
		f.NamesUnknown = f.Meaning == NoMailbox
		f.Meaning, f.Blame = Temporary, BlameSite
	}
	return f
}

// codePattern is a basic code with x for any digit: "550", "55x", "4xx".
type codePattern [3]byte

func (p codePattern) matches(code int) bool {
	for i := 2; i >= 0; i, code = i-1, code/10 {
		if p[i] != 'x' && int(p[i]-'0') != code%10 {
			return false
		}
	}
	return code == 0
}

// enhancedPattern is an enhanced code with x for any number and a range in the last place: "5.1.1", "x.2.2",
// "5.7.606-649".
type enhancedPattern struct{ low, high Enhanced }

func (p enhancedPattern) matches(e Enhanced) bool {
	return between(e.Class, p.low.Class, p.high.Class) && between(e.Subject, p.low.Subject, p.high.Subject) &&
		between(e.Detail, p.low.Detail, p.high.Detail)
}

func between(v, low, high uint16) bool { return low <= v && v <= high }

// MailboxRule says which local parts a provider can have at all. It covers the named domains only,
// and contains only what the provider documents: a local part that breaks it cannot be a mailbox.
type MailboxRule struct {
	Domains   []string // the consumer domains that it covers
	Min, Max  int      // length in bytes without the tag and, with NoDots, without dots; 0 is no bound
	Allowed   string   // bytes allowed in addition to a-z and 0-9
	Tag       string   // separator of an ignored suffix, usually "+"; empty for none
	NoDots    bool     // dots are not counted in the length
	StartWith string   // "letter", "letter-or-digit" or empty
	Source    string
	Date      string
}

// Breaks reports whether a is an address of one of the rule's domains that cannot be a mailbox there.
func (m *MailboxRule) Breaks(a Address) bool {
	if m == nil || !slices.Contains(m.Domains, a.Domain()) {
		return false
	}
	local := a.Local()
	if m.Tag != "" {
		local, _, _ = strings.Cut(local, m.Tag)
	}
	n := len(local)
	if m.NoDots {
		n -= strings.Count(local, ".")
	}
	if n < m.Min || m.Max > 0 && n > m.Max {
		return true
	}
	if m.StartWith != "" && local != "" && !isLetter(local[0]) &&
		(m.StartWith != "letter-or-digit" || !isDigit(local[0])) {
		return true
	}
	for i := range len(local) {
		if c := local[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte(m.Allowed, c) < 0 {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// maxActionTime bounds how long a rule may stop a source: a mistake in a file must not stop it for months.
const maxActionTime = 31 * 24 * time.Hour
