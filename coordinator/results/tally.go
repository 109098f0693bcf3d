package results

import (
	"probity/engine"
	"probity/store"
)

// tally counts rows by provider and score, and knows where those of each status are.
type tally struct {
	providers []providerRows
	scores    [store.ScoreSteps]int64
	spans     [4]store.Span      // by status
	recent    [64]recentProvider // by reference modulo its length
}

// recentProvider is where the provider with a reference to its name is counted.
type recentProvider struct {
	ref   uint32
	place uint32 // in providers, plus one
}

type providerRows struct {
	name   string
	status [4]int64
}

// add counts a row by its number, from 1; rows come in their order. ref is the reference to the provider's name; it
// spares most rows the search by name.
func (t *tally) add(row int64, ref uint32, provider string, s engine.Status, score uint8) {
	slot := &t.recent[int(ref)%len(t.recent)]
	if slot.ref != ref || slot.place == 0 {
		*slot = recentProvider{ref, uint32(t.placeOf(provider)) + 1}
	}
	t.providers[slot.place-1].status[s]++
	span := &t.spans[s]
	if span[0] == 0 {
		span[0] = row
	}
	span[1] = row
	t.scores[min(score/(100/store.ScoreSteps), store.ScoreSteps-1)]++
}

func (t *tally) placeOf(provider string) int {
	for i := range t.providers {
		if t.providers[i].name == provider {
			return i
		}
	}
	t.providers = append(t.providers, providerRows{name: provider})
	return len(t.providers) - 1
}

// clear makes it the tally of no rows.
func (t *tally) clear() {
	*t = tally{providers: t.providers[:0]}
}

// addAll adds the rows of another tally, which come after its own.
func (t *tally) addAll(of *tally) {
	for _, p := range of.providers {
		sum := &t.providers[t.placeOf(p.name)]
		for s, n := range p.status {
			sum.status[s] += n
		}
	}
	for i, n := range of.scores {
		t.scores[i] += n
	}
	for s, after := range of.spans {
		if after[0] == 0 {
			continue
		}
		if t.spans[s][0] == 0 {
			t.spans[s][0] = after[0]
		}
		t.spans[s][1] = after[1]
	}
}

// Tally returns the number of rows by provider and by score, and the span of each status; after Write.
func (a *Assembly) Tally() *store.Tally {
	t := &store.Tally{Providers: map[string]map[string]int64{}, Scores: a.tally.scores, Spans: map[string]store.Span{}}
	for s, span := range a.tally.spans {
		if span != (store.Span{}) {
			t.Spans[engine.Status(s).String()] = span
		}
	}
	for _, p := range a.tally.providers {
		of := map[string]int64{}
		for s, n := range p.status {
			if n > 0 {
				of[engine.Status(s).String()] = n
			}
		}
		t.Providers[p.name] = of
	}
	return t
}
