package engine

import (
	"slices"

	"probity/engine/phrase"
)

// vetoes are the words that keep a reply from condemning a mailbox: what it says holds for now only, is about us, or is
// not about the mailbox. They are read after a rule has condemned, and their finding replaces that of the rule.
// Immutable.
//
// A veto inside a known phrase does not count: a phrase of a condemning rule, whose words are known to mean what the
// rule says, or an exception of the veto.
type vetoes struct {
	rules []Rule
	scan  scanner
	known []knownPhrase
}

// knownPhrase is a phrase inside which the words of a veto do not count.
type knownPhrase struct {
	rule  *Rule // the condemning rule that has it, nil for an exception of a veto
	words phrase.Phrase
	masks []bool // the places that are masked
}

func newVetoes(rules []Rule, files []ruleFile, condemning [][]Rule) (v vetoes, err error) {
	v.rules = rules
	if v.scan, err = newScanner(v.rules); err != nil {
		return v, err
	}
	for _, f := range files {
		for _, text := range f.Except {
			phrases, _ := phrase.Parse(text) // it is valid
			for _, p := range phrases {
				v.addKnown(nil, p)
			}
		}
	}
	for _, rules := range condemning {
		for i := range rules {
			if r := &rules[i]; condemns(r.Meaning) {
				v.addKnownPhrases(r)
			}
		}
	}
	return v, nil
}

// addKnownPhrases keeps the phrases of a condemning rule that contain a veto's words, each with only the choice that
// does.
func (v *vetoes) addKnownPhrases(r *Rule) {
	for _, p := range r.phrases {
		for i, place := range p {
			for _, choice := range place.Atoms {
				narrow := slices.Clone(p)
				narrow[i].Atoms = []phrase.Atom{choice}
				if v.occurIn(narrow.Sample()) {
					v.addKnown(r, narrow)
				}
			}
		}
	}
}

// addKnown keeps a known phrase. It masks the places that hold a veto by themselves, so that a word next to them still
// counts in another veto. Where only the whole phrase holds one, all of it is masked.
func (v *vetoes) addKnown(r *Rule, words phrase.Phrase) {
	masks := make([]bool, len(words))
	for i, place := range words {
		masks[i] = slices.ContainsFunc(place.Atoms, func(a phrase.Atom) bool {
			return v.occurIn(phrase.Phrase{{Atoms: []phrase.Atom{a}}}.Sample())
		})
	}
	if !slices.Contains(masks, true) {
		for i := range masks {
			masks[i] = true
		}
	}
	v.known = append(v.known, knownPhrase{r, words, masks})
}

func (v *vetoes) occurIn(text string) bool {
	for _, code := range [...]int{550, 450} {
		if v.scan.run(&search{text: []byte(text), reply: &Reply{Stage: StageRcpt, Code: code},
			rank: rankOf(nil)}) != nil {
			return true
		}
	}
	return false
}

// vetoFor finds the veto against a rule's finding for a reply to RCPT, nil if there is none. local is the recipient's
// local part; buffer is overwritten.
//
// A refusal of the sender is read for vetoes, too: what one recipient refuses is not the host's policy.
func (v *vetoes) vetoFor(condemned *Rule, w *search, local string, buffer []byte) *Rule {
	words := append(buffer[:0], ' ')
	for _, line := range w.reply.Lines {
		words = phrase.AppendWordsOutsideLinks(words, line)
	}
	words = phrase.BlankName(words, local)
	phrase.MaskHostNames(words)
	veto := v.find(condemned, words, w)
	if veto == nil {
		return nil
	}
	if rest, changed := v.withoutKnown(words, w); changed {
		return v.find(condemned, rest, w)
	}
	return veto
}

func (v *vetoes) find(condemned *Rule, words []byte, w *search) *Rule {
	veto := v.scan.run(&search{text: words, reply: w.reply, enhanced: w.enhanced, rank: rankOf(nil)})
	switch {
	case veto == nil:
	case condemned.Meaning == SenderRefused && veto.Blame != BlameRecipient:
		return nil // it is about us already
	case condemned.Meaning == MailboxFull && veto.Meaning == Temporary:
		return nil // a full mailbox is full for now: such words add nothing
	}
	return veto
}

// withoutKnown returns a copy of text in which the known phrases are masked.
func (v *vetoes) withoutKnown(text []byte, w *search) (rest []byte, changed bool) {
	rest = slices.Clone(text)
	for _, k := range v.known {
		if r := k.rule; r != nil && (r.owner != nil && r.owner != w.provider || !r.fits(w.reply, w.enhanced)) {
			continue
		}
		k.words.Each(text, func(spans [][2]int) {
			for i, span := range spans {
				if k.masks[i] {
					phrase.Mask(rest[span[0]:span[1]])
				}
			}
			changed = true
		})
	}
	return rest, changed
}
