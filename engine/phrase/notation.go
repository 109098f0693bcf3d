package phrase

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Phrase is a text condition: slots that must match one after the other.
type Phrase []Slot

// Slot is one position of a phrase: one of its atoms must match there, right after the previous slot or a few words
// later.
type Slot struct {
	Atoms []Atom
	Gap   bool // up to MaxGap bytes may come before it
}

// Atom is a run of plain words. It begins and ends with a space where only whole words match.
type Atom struct {
	Words     string
	OpenLeft  bool // may begin in the middle of a word
	OpenRight bool // may end in the middle of a word
}

// MaxGap is how many letters "~" may stand for.
const MaxGap = 48

// InGap reports whether "~" may stand for these bytes: at most MaxGap letters, of whichever script.
func InGap(text []byte) bool {
	if len(text) <= MaxGap || len(text) > codedBytes*MaxGap {
		return len(text) <= MaxGap
	}
	letters := len(text)
	for _, c := range text {
		if c >= codedLetter {
			letters -= codedBytes - 1
		}
	}
	return letters <= MaxGap
}

const (
	maxSlots    = 6  // of one phrase
	maxVariants = 16 // phrases that one notation may stand for
)

// Parse reads the phrase notation of the provider file: plain words; ~ stands for a few words,
// * at the edge of a word for the rest of that word, @ for any mail address, (a|b|) for a, b or nothing.
func Parse(text string) ([]Phrase, error) {
	var slots []Slot
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
			s.Gap = gap
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
func parseChoices(text string) (s Slot, empty bool, err error) {
	for choice := range strings.SplitSeq(text, "|") {
		a := parseAtom(strings.TrimSpace(choice))
		switch {
		case a.Words == "":
			empty = true
		case strings.Contains(strings.Trim(choice, " *"), "*"):
			return s, false, fmt.Errorf("%q: * stands at the edge of a choice", choice)
		default:
			s.Atoms = append(s.Atoms, a)
		}
	}
	if len(s.Atoms) == 0 {
		return s, false, errors.New("no choice")
	}
	return s, empty, nil
}

// parseRuns reads words outside parentheses; a word with * ends a run, because a new word follows it.
func parseRuns(text string, gap bool) (slots []Slot, err error) {
	var run []string
	flush := func() {
		if a := parseAtom(strings.Join(run, " ")); a.Words != "" {
			slots = append(slots, Slot{Atoms: []Atom{a}, Gap: gap})
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
func parseAtom(text string) Atom {
	bare := strings.TrimSpace(strings.Trim(text, "*"))
	words := string(AppendWords([]byte{' '}, bare))
	if strings.TrimSpace(words) == "" {
		return Atom{}
	}
	a := Atom{OpenLeft: strings.HasPrefix(text, "*"), OpenRight: strings.HasSuffix(text, "*")}
	first, _ := utf8.DecodeRuneInString(bare)
	last, _ := utf8.DecodeLastRuneInString(bare)
	if a.OpenLeft || spaceless(first) {
		words = strings.TrimPrefix(words, " ")
	}
	if a.OpenRight || spaceless(last) {
		words = strings.TrimSuffix(words, " ")
	}
	a.Words = words
	return a
}

// firstOfEastAsia is where the characters of China, Japan and Korea begin.
const firstOfEastAsia = 0x2e80

// spaceless reports whether r is of a script that writes words without spaces: Thai, Lao, Burmese, Khmer, and those of
// East Asia.
func spaceless(r rune) bool {
	return r >= firstOfEastAsia && r <= 0xffdc || r >= 0x0e00 && r <= 0x0eff || r >= 0x1000 && r <= 0x109f ||
		r >= 0x1780 && r <= 0x17ff
}

// variants lists a phrase with and without each of its optional slots.
func variants(slots []Slot, optional []bool) ([]Phrase, error) {
	phrases := []Phrase{nil}
	gaps := []bool{false}
	for i, s := range slots {
		for k := range len(phrases) {
			before, gap := phrases[k], gaps[k]
			if optional[i] {
				phrases, gaps = append(phrases, before), append(gaps, gap || s.Gap)
			}
			filled := s
			filled.Gap = s.Gap || gap
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

func (p Phrase) check() error {
	if len(p) == 0 || len(p) > maxSlots {
		return fmt.Errorf("a phrase has one to %d places", maxSlots)
	}
	for _, s := range p {
		for _, a := range s.Atoms {
			if letters := strings.Trim(a.Words, " "); len(p) == 1 && len(letters) < 2 {
				return errors.New("fewer than two letters would fit nearly everything")
			}
		}
	}
	return nil
}

// Sample is a text that fits the phrase: the first choice of each slot.
func (p Phrase) Sample() string {
	text := " "
	for _, place := range p {
		if place.Gap {
			text = strings.TrimSuffix(text, " ") + " x "
		}
		words := place.Atoms[0].Words
		if strings.HasSuffix(text, " ") {
			words = strings.TrimPrefix(words, " ")
		}
		text += words
	}
	return text + " "
}

// Each visits every occurrence of the phrase in text, with the bounds of each slot.
func (p Phrase) Each(text []byte, visit func(spans [][2]int)) {
	var spans [maxSlots][2]int
	var fill func(i int)
	fill = func(i int) {
		if i == len(p) {
			visit(spans[:i])
			return
		}
		for _, a := range p[i].Atoms {
			a.each(text, func(start, end int) {
				if i > 0 {
					before := spans[i-1][1]
					if start < before-1 || start > before && (!p[i].Gap || !InGap(text[before:start])) {
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
func (a *Atom) each(text []byte, visit func(start, end int)) {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(a.Words))
		if i < 0 {
			return
		}
		start := from + i
		end := start + len(a.Words)
		from = start + 1
		if a.OpenLeft {
			start = bytes.LastIndexByte(text[:start], ' ')
		}
		if a.OpenRight {
			end += bytes.IndexByte(text[end:], ' ') + 1
		}
		visit(max(start, 0), end)
	}
}
