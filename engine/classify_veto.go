package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// vetoes are the words that keep a reply from condemning a mailbox: what it says holds for now only, is about us, or is not about
// the mailbox. They are read after a rule has condemned, and their finding replaces that of the rule. Immutable.
//
// A veto inside a known phrase does not count: a phrase of a condemning rule, whose words are known to mean what the rule says, or
// an exception of the veto.
type vetoes struct {
	rules []Rule
	scan  scanner
	known []knownPhrase
}

// knownPhrase is a phrase inside which the words of a veto do not count.
type knownPhrase struct {
	rule  *Rule // the condemning rule that has it, nil for an exception of a veto
	words phrase
}

func newVetoes(files []ruleFile, condemning [][]Rule) (v vetoes, err error) {
	if v.rules, err = buildRules("veto", nil, files); err != nil {
		return v, err
	}
	for i := range v.rules {
		if err := v.addVeto(&v.rules[i], files[i].Except); err != nil {
			return v, fmt.Errorf("veto %q: %w", files[i].ID, err)
		}
	}
	if v.scan, err = newScanner(v.rules); err != nil {
		return v, err
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

// addVeto checks a veto and adds its exceptions.
func (v *vetoes) addVeto(r *Rule, except []string) error {
	switch {
	case condemns(r.Meaning) || r.Meaning == Accepted || r.Meaning == MeaningUnknown:
		return fmt.Errorf("meaning %s: a veto says what else a reply means", r.Meaning)
	case len(r.phrases) == 0:
		return errors.New("text is missing: a list of phrases")
	}
	for _, text := range except {
		phrases, err := parsePhrases(text)
		if err != nil {
			return fmt.Errorf("except %q: %w", text, err)
		}
		for _, p := range phrases {
			v.known = append(v.known, knownPhrase{words: p})
		}
	}
	return nil
}

// addKnownPhrases keeps the phrases of a condemning rule that contain a veto's words, each with only the choice that does.
func (v *vetoes) addKnownPhrases(r *Rule) {
	for _, p := range r.phrases {
		for i, place := range p {
			for _, choice := range place.atoms {
				narrow := slices.Clone(p)
				narrow[i].atoms = []atom{choice}
				if v.occurIn(narrow.sample()) {
					v.known = append(v.known, knownPhrase{r, narrow})
				}
			}
		}
	}
}

func (v *vetoes) occurIn(text string) bool {
	for _, code := range [...]int{550, 450} {
		if v.scan.run(&search{text: []byte(text), reply: &Reply{Stage: StageRcpt, Code: code}, rank: rankOf(nil)}) != nil {
			return true
		}
	}
	return false
}

// sample is a text that fits the phrase: the first choice of each slot.
func (p phrase) sample() string {
	text := " "
	for _, place := range p {
		if place.gap {
			text = strings.TrimSuffix(text, " ") + " x "
		}
		words := place.atoms[0].words
		if strings.HasSuffix(text, " ") {
			words = strings.TrimPrefix(words, " ")
		}
		text += words
	}
	return text + " "
}

// vetoFor finds the veto against a rule's finding for a reply to RCPT, nil if there is none. buffer is overwritten.
//
// A refusal of the sender is read for vetoes, too: what one recipient refuses is not the host's policy.
func (v *vetoes) vetoFor(condemned *Rule, w *search, buffer []byte) *Rule {
	words := append(buffer[:0], ' ')
	for _, line := range w.reply.Lines {
		words = appendWordsOutsideLinks(words, line)
	}
	maskHostNames(words)
	veto := v.find(condemned, words, w)
	if veto == nil {
		return nil
	}
	if clear, changed := v.withoutKnown(words, w); changed {
		return v.find(condemned, clear, w)
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
func (v *vetoes) withoutKnown(text []byte, w *search) (clear []byte, changed bool) {
	clear = slices.Clone(text)
	for _, k := range v.known {
		if r := k.rule; r != nil && (r.owner != nil && r.owner != w.provider || !r.fits(w.reply, w.enhanced)) {
			continue
		}
		k.words.each(text, func(spans [][2]int) {
			for _, span := range spans {
				maskWords(clear[span[0]:span[1]])
			}
			changed = true
		})
	}
	return clear, changed
}

// maskHostNames masks names of three labels and more: a host that is called "temporary" says nothing. Two words joined by
// a dot may be the end of one sentence and the beginning of the next.
func maskHostNames(words []byte) {
	for start := 0; start < len(words); {
		end := start + bytes.IndexByte(words[start:], ' ')
		if bytes.Count(words[start:end], []byte{'.'}) >= 2 {
			maskWords(words[start:end])
		}
		start = end + 1
	}
}

func maskWords(words []byte) {
	for i, c := range words {
		if c != ' ' {
			words[i] = 2 // occurs in no phrase
		}
	}
}

// each visits every occurrence of the phrase in text, with the bounds of each slot.
func (p phrase) each(text []byte, visit func(spans [][2]int)) {
	var spans [maxSlots][2]int
	var fill func(i int)
	fill = func(i int) {
		if i == len(p) {
			visit(spans[:i])
			return
		}
		for _, a := range p[i].atoms {
			a.each(text, func(start, end int) {
				if i > 0 {
					before := spans[i-1][1]
					if start < before-1 || start > before && (!p[i].gap || start > before+maxGap) {
						return
					}
				}
				spans[i] = [2]int{start, end}
				fill(i + 1)
			})
		}
	}
	fill(0)
}

// each visits every occurrence of the atom in text; open ends extend to the edge of their words.
func (a *atom) each(text []byte, visit func(start, end int)) {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(a.words))
		if i < 0 {
			return
		}
		start := from + i
		end := start + len(a.words)
		from = start + 1
		if a.openLeft {
			start = bytes.LastIndexByte(text[:start], ' ')
		}
		if a.openRight {
			end += bytes.IndexByte(text[end:], ' ') + 1
		}
		visit(max(start, 0), end)
	}
}

// appendWordsOutsideLinks is appendWords without the links of a line, whose paths are not the server's words.
func appendWordsOutsideLinks(dst []byte, line string) []byte {
	for {
		i := strings.Index(line, "://")
		if i < 0 {
			return appendWords(dst, line)
		}
		start := strings.LastIndexAny(line[:i], " \t<([\"") + 1
		end := strings.IndexAny(line[i:], " \t>)]\"")
		dst = appendWords(dst, line[:start])
		if end < 0 {
			return dst
		}
		line = line[i+end:]
	}
}
