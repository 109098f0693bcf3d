package engine

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// phrase is a text condition: slots that must match one after the other.
type phrase []slot

// slot is one position of a phrase: one of its atoms must match there, right after the previous slot or a few words later.
type slot struct {
	atoms []atom
	gap   bool // up to maxGap bytes may come before it
}

// atom is a run of plain words. It begins and ends with a space where only whole words match.
type atom struct {
	words     string
	openLeft  bool // may begin in the middle of a word
	openRight bool // may end in the middle of a word
}

const (
	maxGap      = 48 // bytes that "~" may stand for
	maxSlots    = 6  // of one phrase
	maxVariants = 16 // phrases that one notation may stand for
)

// parsePhrases reads the phrase notation of the provider file: plain words; ~ stands for a few words,
// * at the edge of a word for the rest of that word, @ for any mail address, (a|b|) for a, b or nothing.
func parsePhrases(text string) ([]phrase, error) {
	var slots []slot
	var optional []bool
	gap := false
	for rest := text; rest != ""; {
		switch rest[0] {
		case '~':
			gap, rest = true, rest[1:]
		case '(':
			inside, after, closed := strings.Cut(rest[1:], ")")
			if !closed || strings.ContainsAny(inside, "(~") {
				return nil, errors.New("alternatives end with a parenthesis and hold words only")
			}
			s, empty, err := parseChoices(inside)
			if err != nil {
				return nil, err
			}
			s.gap = gap
			slots, optional = append(slots, s), append(optional, empty)
			gap, rest = false, after
		default:
			end := strings.IndexAny(rest, "~(")
			if end < 0 {
				end = len(rest)
			}
			runs, err := parseRuns(rest[:end], gap)
			if err != nil {
				return nil, err
			}
			if len(runs) > 0 {
				gap = false
			}
			slots, optional = append(slots, runs...), append(optional, make([]bool, len(runs))...)
			rest = rest[end:]
		}
	}
	return variants(slots, optional)
}

// parseChoices reads a|b|c; empty reports that one of the choices is empty.
func parseChoices(text string) (s slot, empty bool, err error) {
	for choice := range strings.SplitSeq(text, "|") {
		a := parseAtom(strings.TrimSpace(choice))
		switch {
		case a.words == "":
			empty = true
		case strings.Contains(strings.Trim(choice, " *"), "*"):
			return s, false, fmt.Errorf("%q: * stands at the edge of a choice", choice)
		default:
			s.atoms = append(s.atoms, a)
		}
	}
	if len(s.atoms) == 0 {
		return s, false, errors.New("no choice")
	}
	return s, empty, nil
}

// parseRuns reads words outside parentheses; a word with * ends a run, because a new word follows it.
func parseRuns(text string, gap bool) (slots []slot, err error) {
	var run []string
	flush := func() {
		if a := parseAtom(strings.Join(run, " ")); a.words != "" {
			slots = append(slots, slot{atoms: []atom{a}, gap: gap})
			gap = false
		}
		run = nil
	}
	for _, word := range strings.Fields(text) {
		if strings.Contains(strings.Trim(word, "*"), "*") {
			return nil, fmt.Errorf("%q: * stands at the edge of a word", word)
		}
		if strings.HasPrefix(word, "*") {
			flush()
		}
		run = append(run, word)
		if strings.HasSuffix(word, "*") {
			flush()
		}
	}
	flush()
	return slots, nil
}

// parseAtom normalises words as replies are. Scripts without spaces have no word edges.
func parseAtom(text string) atom {
	bare := strings.TrimSpace(strings.Trim(text, "*"))
	words := string(appendWords([]byte{' '}, bare))
	if strings.TrimSpace(words) == "" {
		return atom{}
	}
	a := atom{openLeft: strings.HasPrefix(text, "*"), openRight: strings.HasSuffix(text, "*")}
	first, _ := utf8.DecodeRuneInString(bare)
	last, _ := utf8.DecodeLastRuneInString(bare)
	if a.openLeft || spaceless(first) {
		words = strings.TrimPrefix(words, " ")
	}
	if a.openRight || spaceless(last) {
		words = strings.TrimSuffix(words, " ")
	}
	a.words = words
	return a
}

// spaceless reports the scripts of East Asia, which write words without spaces.
func spaceless(r rune) bool { return r >= 0x2e80 && r <= 0xffdc }

// variants lists a phrase with and without each of its optional slots.
func variants(slots []slot, optional []bool) ([]phrase, error) {
	phrases := []phrase{nil}
	gaps := []bool{false}
	for i, s := range slots {
		for k := range len(phrases) {
			before, gap := phrases[k], gaps[k]
			if optional[i] {
				phrases, gaps = append(phrases, before), append(gaps, gap || s.gap)
			}
			filled := s
			filled.gap = s.gap || gap
			phrases[k], gaps[k] = append(before[:len(before):len(before)], filled), false
		}
		if len(phrases) > maxVariants {
			return nil, fmt.Errorf("more than %d variants", maxVariants)
		}
	}
	for _, p := range phrases {
		if err := p.check(); err != nil {
			return nil, err
		}
	}
	return phrases, nil
}

func (p phrase) check() error {
	if len(p) == 0 || len(p) > maxSlots {
		return fmt.Errorf("a phrase has one to %d places", maxSlots)
	}
	for _, s := range p {
		for _, a := range s.atoms {
			if letters := strings.Trim(a.words, " "); len(p) == 1 && len(letters) < 2 {
				return errors.New("fewer than two letters would fit nearly everything")
			}
		}
	}
	return nil
}
