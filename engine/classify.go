package engine

import (
	"slices"
	"strings"

	"probity/engine/phrase"
)

// Classify says what one reply of a server of provider p means; nil is an unknown provider. It is a pure function.
//
//  1. The stage comes first: only a reply to RCPT can be about a mailbox (RFC 5321 section 3.3).
//  2. Words about the sender or us, in any line, beat words about the recipient.
//  3. The provider's rules beat the generic ones; a rule without words keeps its position in the file.
//     A reply that would condemn the mailbox is read again for vetoes: words that say for now, from you, or elsewhere.
//  4. No basic code condemns: a permanent refusal that no rule knows is MeaningUnknown, blame site.
//  5. A temporary refusal never condemns; a 421 always closes (RFC 5321 section 3.8).
func (t *Table) Classify(p *Provider, r Reply, sender SenderIdentity) Finding {
	if r.Code/100 == 2 {
		return positive(&r)
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

// positive classifies a 2xx. 252 promises nothing (RFC 5321 section 3.5.3); outside RCPT a 2xx says nothing about a recipient.
func positive(r *Reply) Finding {
	switch {
	case r.Stage != StageRcpt:
		return Finding{Rule: "default/positive"}
	case r.Code == 252:
		return Finding{Rule: "default/cannot-verify", Blame: BlameSite}
	}
	return Finding{Meaning: Accepted, Rule: "default/accepted"}
}

func (t *Table) refusal(p *Provider, r *Reply, sender SenderIdentity) Finding {
	var buffer [1024]byte
	words := append(buffer[:0], ' ')
	for _, line := range r.Lines {
		words = phrase.AppendWords(words, line)
	}
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
	if r.Stage == StageRcpt && (condemns(best.Meaning) || best.Meaning == SenderRefused) {
		if veto := t.vetoes.vetoFor(best, &reading, words); veto != nil {
			best = veto
		}
	}
	return best.finding(r)
}

// bestPlainRule finds the best rule without phrases that fits.
func (t *Table) bestPlainRule(p *Provider, r *Reply, enhanced Enhanced) (best *Rule) {
	for _, rules := range [2][]*Rule{p.plainRules, t.plainRules} {
		for _, rule := range rules {
			if rule.rank < rankOf(best) && rule.fits(r, enhanced) && (rule.pattern == nil || slices.ContainsFunc(r.Lines, rule.pattern.MatchString)) {
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
func (a *SenderIdentity) quotedBy(lines []string) bool {
	for _, line := range lines {
		if quotes(line, a.MailFrom) || quotes(line, a.EHLO) {
			return true
		}
		for _, source := range a.Sources {
			if quotes(line, source) {
				return true
			}
		}
	}
	return false
}

// quotes reports name in line, case ignored, not as part of a longer name. Names under four bytes do not count, nor
// does a name inside a link: some receivers put the client's address into the link of their help page in every refusal.
// It searches for the name's first punctuation character, because few lines have many of them.
func quotes(line, name string) bool {
	if len(name) < 4 {
		return false
	}
	sign := max(0, strings.IndexAny(name, ".@:-"))
	for i := 0; ; i++ {
		i = indexFold(line, name[sign], i+sign) - sign
		if i < 0 || i+len(name) > len(line) {
			return false
		}
		if strings.EqualFold(line[i:i+len(name)], name) && !joinsName(line, i-1) && !joinsName(line, i+len(name)) && !inLink(line[:i]) {
			return true
		}
	}
}

// indexFold finds a byte, or the same letter in the other case, at from or later; -1 without one.
func indexFold(line string, c byte, from int) int {
	if from > len(line) {
		return -1
	}
	i := strings.IndexByte(line[from:], c)
	if isLetter(c) {
		if j := strings.IndexByte(line[from:], c^0x20); i < 0 || 0 <= j && j < i {
			i = j
		}
	}
	if i < 0 {
		return -1
	}
	return from + i
}

// inLink reports text that ends inside a link.
func inLink(before string) bool {
	return strings.Contains(before[strings.LastIndexAny(before, " \t<(")+1:], "://")
}

// joinsName reports a byte that makes a name longer. A dot that ends a sentence does not.
func joinsName(line string, i int) bool {
	if i < 0 || i >= len(line) {
		return false
	}
	c := line[i]
	if c == '.' {
		return i > 0 && i+1 < len(line) && (isLetter(line[i+1]) || isDigit(line[i+1]))
	}
	return isLetter(c) || isDigit(c) || c == '-' || c == '_' || c == '+' || c == '@'
}
