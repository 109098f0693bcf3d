package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// phrase is a text condition: parts that must occur in this order, each at most maxGap bytes after the one before.
// A part begins and ends with a space where only whole words will do.
type phrase struct{ parts []string }

const maxGap = 48 // bytes between two parts of a phrase

// parsePhrase reads the phrase notation of the provider file: words as they would be said; ~ stands for a few words,
// * at the edge of a word for the rest of that word, @ for any mail address.
func parsePhrase(text string) (phrase, error) {
	var p phrase
	open := false // the part begins in the middle of a word
	for rest, more := text, true; more; {
		i := strings.IndexAny(rest, "~*")
		part := rest
		if more = i >= 0; more {
			part = rest[:i]
		}
		cut := more && rest[i] == '*'
		if words := partWords(part, open, cut); words != "" {
			p.parts = append(p.parts, words)
		}
		if open = cut; more {
			rest = rest[i+1:]
		}
	}
	for _, part := range p.parts {
		if len(strings.Trim(part, " ")) < 2 {
			return p, errors.New("a part of fewer than two letters would fit nearly everything")
		}
	}
	if len(p.parts) == 0 || len(p.parts) > 4 {
		return p, errors.New("a phrase has one to four parts")
	}
	return p, nil
}

// partWords normalises one part as replies are. An open edge does not end at a word's edge; nor do scripts without spaces have one.
func partWords(part string, openLeft, openRight bool) string {
	words := string(appendWords([]byte{' '}, part))
	if strings.TrimSpace(words) == "" {
		return ""
	}
	if openLeft && !strings.HasPrefix(part, " ") || words[1] >= 0xe0 {
		words = strings.TrimPrefix(words, " ")
	}
	if openRight && !strings.HasSuffix(part, " ") || words[len(words)-2] >= 0x80 && words[1] >= 0xe0 {
		words = strings.TrimSuffix(words, " ")
	}
	return words
}

// occurs reports whether the parts stand in text in their order and near enough to each other.
// At most 32 places of each part are followed, so that a hostile text costs no more than a long one.
func (p *phrase) occurs(text []byte) bool {
	var ends, before [32]int
	count := 0
	for k, part := range p.parts {
		before = ends
		known := count
		count = 0
		for at := 0; count < len(ends); {
			i := bytes.Index(text[at:], []byte(part))
			if i < 0 {
				break
			}
			start := at + i
			at = start + 1
			if k == 0 || follows(before[:known], start) {
				ends[count] = start + len(part)
				count++
			}
		}
		if count == 0 {
			return false
		}
	}
	return true
}

// follows reports whether a part that starts here follows one that ended at one of ends; two parts may share a space.
func follows(ends []int, start int) bool {
	return slices.ContainsFunc(ends, func(end int) bool { return start >= end-1 && start <= end+maxGap })
}

// key is the longest part: the one that the scanner looks for.
func (p *phrase) key() string {
	return slices.MaxFunc(p.parts, func(a, b string) int { return len(a) - len(b) })
}

// scanner finds all phrases of all rules in one pass over a text (Aho and Corasick, 1975): a dense automaton over the
// few bytes that occur in phrases. Immutable.
type scanner struct {
	class   [256]uint8
	width   int
	next    []uint16 // state x class -> state
	first   []uint32 // state -> its hits: hits[first[s]:first[s+1]]
	hits    []uint16 // indexes of told
	told    []told
	bare    []*Rule // generic rules without phrases
	matches int
}

// told is one phrase of one rule.
type told struct {
	rule   *Rule
	phrase phrase
}

// The tiers of rules: what speaks about the sender or us beats what speaks about the recipient, a provider's rule beats a generic one.
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
	us := r.Blame == BlameUs || r.Blame == BlameNetwork
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

const (
	maxStates  = 1 << 16
	maxPhrases = 8192
)

func newScanner(t *Table) (scanner, error) {
	var s scanner
	for _, p := range t.Providers {
		p.bare = s.add(p.Rules)
	}
	s.bare = s.add(t.Generic)
	if len(s.told) > maxPhrases {
		return s, fmt.Errorf("%d phrases in all rules: at most %d", len(s.told), maxPhrases)
	}
	return s, s.compile()
}

// add ranks rules, takes up their phrases, and gives back the rules that have none.
func (s *scanner) add(rules []Rule) (bare []*Rule) {
	for i := range rules {
		r := &rules[i]
		r.rank = r.tier()<<tierShift | uint32(i)
		if len(r.phrases) == 0 {
			bare = append(bare, r)
		}
		for _, p := range r.phrases {
			s.told = append(s.told, told{r, p})
		}
	}
	slices.SortStableFunc(bare, func(a, b *Rule) int { return int(a.rank) - int(b.rank) })
	return bare
}

// compile builds the automaton from the keys of the phrases.
func (s *scanner) compile() error {
	s.width = 1
	for _, w := range s.told {
		for _, c := range []byte(w.phrase.key()) {
			if s.class[c] == 0 {
				s.class[c] = uint8(s.width)
				s.width++
			}
		}
	}
	ends, err := s.plant()
	if err != nil {
		return err
	}
	s.link(ends)
	return nil
}

// plant makes the trie of the keys; ends holds the phrases that end in each state.
func (s *scanner) plant() (ends [][]uint16, err error) {
	s.next = make([]uint16, s.width)
	ends = make([][]uint16, 1)
	for i, w := range s.told {
		state := 0
		for _, c := range []byte(w.phrase.key()) {
			at := state*s.width + int(s.class[c])
			if s.next[at] == 0 {
				if len(ends) == maxStates {
					return nil, errors.New("the rules have too many phrases")
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

// link turns the trie into an automaton, breadth first: a state without a way on takes that of its longest proper suffix.
func (s *scanner) link(ends [][]uint16) {
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
	s.first = make([]uint32, 0, len(ends)+1)
	for _, hits := range ends {
		s.first = append(s.first, uint32(len(s.hits)))
		s.hits = append(s.hits, hits...)
	}
	s.first = append(s.first, uint32(len(s.hits)))
}

// search gives the best rule of provider p whose phrase and conditions fit, or best itself.
// A phrase of several parts is looked at once.
func (s *scanner) search(text []byte, p *Provider, reply *Reply, enhanced Enhanced, best *Rule) *Rule {
	var seen [maxPhrases / 64]uint64
	rank := rankOf(best)
	state := 0
	for _, c := range text {
		state = int(s.next[state*s.width+int(s.class[c])])
		for _, hit := range s.hits[s.first[state]:s.first[state+1]] {
			w := &s.told[hit]
			r := w.rule
			if r.rank >= rank || r.owner != nil && r.owner != p || seen[hit/64]&(1<<(hit%64)) != 0 {
				continue
			}
			seen[hit/64] |= 1 << (hit % 64)
			if r.fits(reply, enhanced) && (len(w.phrase.parts) == 1 || w.phrase.occurs(text)) {
				best, rank = r, r.rank
			}
		}
	}
	return best
}

func rankOf(r *Rule) uint32 {
	if r == nil {
		return tierNone << tierShift
	}
	return r.rank
}
