package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"probity/engine/phrase"
)

// scanner finds the phrases of all rules in one pass over a text: a dense automaton for the atoms (Aho and Corasick,
// 1975) over the few bytes that occur in them; a search tracks how far each phrase has matched. Immutable.
type scanner struct {
	class [256]uint8
	width int
	next  []uint16 // state x class -> state
	quiet int      // the first states, in which no atom ends
	first []uint32 // state - quiet -> the atoms that end there: hits[first[i]:first[i+1]]
	hits  []uint16
	atoms []scanAtom
	slots int // slots whose end a search stores
}

// scanAtom is an atom and every slot that it may fill, lowest rank first, and within a rule the later slots first.
type scanAtom struct {
	phrase.Atom
	places []place
}

// place is one slot of one phrase of a rule.
type place struct {
	rule  *Rule
	owner *Provider // as the rule has it
	rank  uint32
	slot  uint16 // where its end is stored
	prev  uint16 // the slot before it
	kind  placeKind
	gap   bool
}

type placeKind uint8

const (
	placeFirst placeKind = iota
	placeInner
	placeLast
	placeOnly
)

// The tiers of rules: words about the sender or us beat words about the recipient, a provider's rule beats a generic
// one.
const (
	tierProviderUs = iota
	tierGenericUs
	tierQuotesUs // not a rule: the reply quotes our address or name
	tierProvider
	tierGeneric
	tierNone
	tierShift = 16
)

func (r *Rule) tier() uint32 {
	us := r.Blame == BlameUs || r.Blame == BlameNetwork || // greylisting too: it is about our source
		r.Meaning == PolicyRefused && r.Blame == BlameRecipient // one recipient's refusal of us
	switch {
	case us && r.owner != nil:
		return tierProviderUs
	case us:
		return tierGenericUs
	case r.owner != nil:
		return tierProvider
	}
	return tierGeneric
}

// The bounds of all rules together.
const (
	maxStates     = 1 << 16
	maxSlotsInAll = 2048
)

// newScanner builds a scanner for the phrases of lists of rules.
func newScanner(lists ...[]Rule) (scanner, error) {
	var s scanner
	known := map[phrase.Atom]int{}
	for _, rules := range lists {
		for i := range rules {
			for _, p := range rules[i].phrases {
				s.addPhrase(&rules[i], p, known)
			}
		}
	}
	if s.slots > maxSlotsInAll {
		return s, fmt.Errorf("the phrases of all rules have %d places: at most %d", s.slots, maxSlotsInAll)
	}
	for i := range s.atoms {
		// The later slots of a phrase first: an atom that fits two neighbours fills the second before it overwrites the
		// first.
		slices.SortStableFunc(s.atoms[i].places, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.slot, a.slot))
		})
	}
	return s, s.compile()
}

// withoutPhrases returns the rules that have no phrases, best first.
func withoutPhrases(rules []Rule) (bare []*Rule) {
	for i := range rules {
		if len(rules[i].phrases) == 0 {
			bare = append(bare, &rules[i])
		}
	}
	slices.SortStableFunc(bare, func(a, b *Rule) int { return int(a.rank) - int(b.rank) })
	return bare
}

func (s *scanner) addPhrase(r *Rule, p phrase.Phrase, known map[phrase.Atom]int) {
	for i, sl := range p {
		at := place{rule: r, owner: r.owner, rank: r.rank, kind: kindOf(i, len(p)), gap: sl.Gap, slot: uint16(s.slots),
			prev: uint16(s.slots - 1)}
		if i+1 < len(p) {
			s.slots++
		}
		for _, a := range sl.Atoms {
			k, ok := known[a]
			if !ok {
				k = len(s.atoms)
				known[a] = k
				s.atoms = append(s.atoms, scanAtom{Atom: a})
			}
			s.atoms[k].places = append(s.atoms[k].places, at)
		}
	}
}

func kindOf(i, n int) placeKind {
	switch {
	case n == 1:
		return placeOnly
	case i == 0:
		return placeFirst
	case i+1 == n:
		return placeLast
	}
	return placeInner
}

// compile builds the automaton of the atoms.
func (s *scanner) compile() error {
	s.width = 1
	for _, a := range s.atoms {
		for _, c := range []byte(a.Words) {
			if s.class[c] == 0 {
				s.class[c] = uint8(s.width)
				s.width++
			}
		}
	}
	ends, err := s.buildTrie()
	if err != nil {
		return err
	}
	s.linkSuffixes(ends)
	return nil
}

// buildTrie builds the trie of the atoms; ends holds the atoms that end in each state.
func (s *scanner) buildTrie() (ends [][]uint16, err error) {
	s.next = make([]uint16, s.width)
	ends = make([][]uint16, 1)
	for i, a := range s.atoms {
		state := 0
		for _, c := range []byte(a.Words) {
			at := state*s.width + int(s.class[c])
			if s.next[at] == 0 {
				if len(ends) == maxStates {
					return nil, errors.New("the rules have too many words")
				}
				s.next[at] = uint16(len(ends))
				s.next = append(s.next, make([]uint16, s.width)...)
				ends = append(ends, nil)
			}
			state = int(s.next[at])
		}
		ends[state] = append(ends[state], uint16(i))
	}
	return ends, nil
}

// linkSuffixes turns the trie into an automaton, breadth first: a missing transition is that of the state's longest
// proper suffix.
func (s *scanner) linkSuffixes(ends [][]uint16) {
	suffix := make([]uint16, len(ends))
	queue := make([]uint16, 0, len(ends))
	for c := range s.width {
		if to := s.next[c]; to != 0 {
			queue = append(queue, to)
		}
	}
	for head := 0; head < len(queue); head++ {
		state := int(queue[head])
		back := int(suffix[state])
		ends[state] = append(ends[state], ends[back]...)
		for c := range s.width {
			at := state*s.width + c
			if to := s.next[at]; to != 0 {
				suffix[to] = s.next[back*s.width+c]
				queue = append(queue, to)
			} else {
				s.next[at] = s.next[back*s.width+c]
			}
		}
	}
	s.order(ends)
}

// order numbers the states anew: those in which atoms end come last, so that a search need not look up the others,
// which are most (BenchmarkClassify).
func (s *scanner) order(ends [][]uint16) {
	states := make([]int, 0, len(ends))
	for state := range ends {
		if len(ends[state]) == 0 {
			states = append(states, state)
		}
	}
	s.quiet = len(states)
	for state := range ends {
		if len(ends[state]) > 0 {
			states = append(states, state)
			s.first = append(s.first, uint32(len(s.hits)))
			s.hits = append(s.hits, ends[state]...)
		}
	}
	s.first = append(s.first, uint32(len(s.hits)))
	number := make([]uint16, len(ends))
	for i, state := range states {
		number[state] = uint16(i)
	}
	next := make([]uint16, 0, len(s.next))
	for _, state := range states {
		for _, to := range s.next[state*s.width : (state+1)*s.width] {
			next = append(next, number[to])
		}
	}
	s.next = next
}

// search is one reading of a text for the best rule.
type search struct {
	text     []byte
	provider *Provider
	reply    *Reply
	enhanced Enhanced
	best     *Rule
	rank     uint32
	ends     [maxSlotsInAll]int16 // where each slot was last filled, 0 nowhere
}

// run returns the best rule of which a phrase and all conditions fit, or the best rule so far.
func (s *scanner) run(w *search) *Rule {
	state := 0
	for i, c := range w.text {
		state = int(s.next[state*s.width+int(s.class[c])])
		if state < s.quiet {
			continue
		}
		for _, hit := range s.hits[s.first[state-s.quiet]:s.first[state-s.quiet+1]] {
			w.matchAtom(&s.atoms[hit], i+1)
		}
	}
	return w.best
}

// matchAtom fills every slot that an atom ending here may fill.
func (s *search) matchAtom(a *scanAtom, end int) {
	start := end - len(a.Words)
	if a.OpenLeft {
		start = bytes.LastIndexByte(s.text[:start], ' ')
	}
	if a.OpenRight {
		end += bytes.IndexByte(s.text[end:], ' ') + 1
	}
	for i := range a.places {
		p := &a.places[i]
		if p.rank >= s.rank {
			return // ranks rise from here
		}
		if p.owner != nil && p.owner != s.provider {
			continue
		}
		if (p.kind == placeInner || p.kind == placeLast) && !s.follows(p, start) {
			continue
		}
		if p.kind < placeLast {
			s.ends[p.slot] = int16(end)
		} else if p.rule.fits(s.reply, s.enhanced) {
			s.best, s.rank = p.rule, p.rank
		}
	}
}

// follows reports whether a word that starts here follows the previous slot. Neighbours share a space.
func (s *search) follows(p *place, start int) bool {
	before := int(s.ends[p.prev])
	if before == 0 || start < before-1 {
		return false
	}
	return start <= before || p.gap && phrase.InGap(s.text[before:start])
}

func rankOf(r *Rule) uint32 {
	if r == nil {
		return tierNone << tierShift
	}
	return r.rank
}
