package engine

import (
	"slices"

	"probity/engine/phrase"
	"probity/engine/replyline"
)

// Classify says what one reply of a server of provider p means; nil is an unknown provider. It is a pure function.
//
//  1. The stage comes first: only a reply to RCPT can be about a mailbox (RFC 5321 section 3.3).
//  2. Words about the sender or us, in any line, beat words about the recipient.
//  3. The provider's rules beat the generic ones; a rule without words keeps its position in the file.
//     A reply that would condemn the mailbox is read again for vetoes: words that say for now, from you, or elsewhere.
//  4. Words and code agree before anything condemns: no basic code condemns, an enhanced code alone does only where
//     there are no words, and a code of another subject forbids. A permanent refusal that no rule knows is
//     MeaningUnknown, blame site.
//  5. A temporary refusal never condemns; a 421 always closes (RFC 5321 section 3.8).
//  6. An acceptance in the words of an unknown user is neither an acceptance nor a refusal.
func (t *Table) Classify(p *Provider, r Reply, sender SenderIdentity) Finding {
	if r.Code/100 == 2 {
		return t.positive(p, &r, sender)
	}
	f := t.refusal(t.ownProvider(p), &r, sender)
	if r.Code == 421 && f.Action.Kind < ActionClose {
		f.Action.Kind = ActionClose
	}
	return f
}

// ownProvider finds p in this table: a route may outlive the table it was made with.
func (t *Table) ownProvider(p *Provider) *Provider {
	if p == nil {
		return t.Unknown
	}
	if p.hash == t.hash {
		return p
	}
	if q := t.Provider(p.ID); q != nil {
		return q
	}
	return t.Unknown
}

// positive classifies a 2xx. 252 promises nothing (RFC 5321 section 3.5.3); outside RCPT a 2xx says nothing about a
// recipient. 251 is not read: "user not local, will forward" is what it is for (section 3.4).
func (t *Table) positive(p *Provider, r *Reply, sender SenderIdentity) Finding {
	switch {
	case r.Stage != StageRcpt:
		return Finding{Rule: "default/positive"}
	case r.Code == 252:
		return Finding{Rule: "default/cannot-verify", Blame: BlameSite}
	case r.Code != 251 && saysMuch(r.Lines):
		refused := Reply{Lines: r.Lines, Code: 550, Stage: StageRcpt}
		if condemns(t.refusal(t.ownProvider(p), &refused, sender).Meaning) {
			return Finding{Rule: "default/accepts-unknown", Blame: BlameSite}
		}
	}
	return Finding{Meaning: Accepted, Rule: "default/accepted"}
}

// saysMuch reports whether an acceptance has more than the two words that nearly all have: those are not read.
func saysMuch(lines []string) bool {
	n := 0
	for _, line := range lines {
		n += phrase.CountWords(line)
	}
	return n > 2
}

func (t *Table) refusal(p *Provider, r *Reply, sender SenderIdentity) Finding {
	if code, quoted := replyline.Callout(r.Lines); code != 0 && r.Stage == StageRcpt {
		inner := Reply{Stage: StageRcpt, Code: code, Lines: quoted, Enhanced: EnhancedOf(quoted, code)}
		if r.Code/100 == 4 {
			inner.Code = r.Code
		}
		r = &inner
	}
	var buffer [1024]byte
	words := append(buffer[:0], ' ')
	for _, line := range r.Lines {
		words = phrase.AppendWords(words, line)
	}
	words = phrase.BlankName(words, sender.Local)
	enhanced := r.Enhanced
	if enhanced == (Enhanced{}) {
		enhanced = EnhancedOf(r.Lines, r.Code)
	}
	best := t.bestPlainRule(p, r, enhanced)
	reading := search{text: words, provider: p, reply: r, enhanced: enhanced, best: best, rank: rankOf(best)}
	best = t.scan.run(&reading)
	if rankOf(best) > tierQuotesUs<<tierShift && r.Code/100 == 5 && sender.quotedBy(r.Lines) {
		return Finding{Meaning: SenderRefused, Blame: BlameUs, Rule: "default/quotes-us"}
	}
	if best == nil {
		return defaultFinding(r)
	}
	bare := best.bare && !phrase.OnlyCodes(words)
	if r.Stage == StageRcpt && (condemns(best.Meaning) || best.Meaning == SenderRefused) {
		veto := t.vetoes.vetoFor(best, &reading, sender.Local, words)
		if veto != nil {
			return veto.finding(r)
		}
	}
	if bare { // a code that condemns only without words, next to words that no rule knows
		return defaultFinding(r)
	}
	return best.finding(r)
}

// bestPlainRule finds the best rule without phrases that fits.
func (t *Table) bestPlainRule(p *Provider, r *Reply, enhanced Enhanced) (best *Rule) {
	for _, rules := range [2][]*Rule{p.plainRules, t.plainRules} {
		for _, rule := range rules {
			if rule.rank < rankOf(best) && rule.fits(r, enhanced) &&
				(rule.pattern == nil || slices.ContainsFunc(r.Lines, rule.pattern.MatchString)) {
				best = rule
				break
			}
		}
	}
	return best
}

// defaultFinding classifies a refusal that no rule matches, by stage and class alone, as mildly as possible.
func defaultFinding(r *Reply) Finding {
	switch {
	case r.Code/100 == 4:
		return Finding{Meaning: Temporary, Blame: BlameSite, Rule: "default/temporary"}
	case r.Code/100 != 5:
		return Finding{Meaning: ProtocolFault, Blame: BlameSite, Rule: "default/out-of-place"}
	case r.Stage == StageRcpt:
		return Finding{Meaning: MeaningUnknown, Blame: BlameSite, Rule: "default/unknown-refusal"}
	case r.Stage == StageMail:
		return Finding{Meaning: SenderRefused, Blame: BlameUs, Rule: "default/mail-refused"}
	case r.Stage == StageTLS || r.Stage == StageReset || r.Stage == StageQuit:
		return Finding{Meaning: ProtocolFault, Blame: BlameSite, Rule: "default/command-refused"}
	}
	return Finding{Meaning: Blocked, Blame: BlameUs, Rule: "default/session-refused"}
}

// quotedBy reports lines that name our reverse-path, our EHLO name or one of our addresses, as whole words.
func (s *SenderIdentity) quotedBy(lines []string) bool {
	for _, line := range lines {
		if phrase.Quotes(line, s.MailFrom) || phrase.Quotes(line, s.EHLO) {
			return true
		}
		for _, source := range s.Sources {
			if phrase.Quotes(line, source) {
				return true
			}
		}
	}
	return false
}
