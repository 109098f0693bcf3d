package wire

import (
	"math"
	"time"

	"github.com/zeebo/xxh3"
)

// BudgetUse is what an identity has used of the refusals of an hour at one narrow route, reservations included.
type BudgetUse struct {
	Route  uint64 // RouteID of its key
	Egress string
	Used   int
}

// RouteID names a route in the budget reports of nodes.
func RouteID(key string) uint64 { return xxh3.HashString(key) }

// MaxBudgetUses bounds a node's budget report: the most used come first.
const MaxBudgetUses = 4096

// UsedByOthers is what other sources have used of the refusals of an hour at a narrow route. A source that takes it over has so
// much less.
type UsedByOthers struct {
	Used int
	Left time.Duration // until all of it is over an hour old
}

func budgetUseFrames(all []BudgetUse, ids []IdentityStatus) (frames []*SpentFrame) {
	at := map[string]uint32{}
	for i, id := range ids {
		at[id.Name] = uint32(i)
	}
	for _, s := range all[:min(len(all), MaxBudgetUses)] {
		if i, ok := at[s.Egress]; ok {
			frames = append(frames, &SpentFrame{Route: s.Route, Egress: i, Used: count(s.Used)})
		}
	}
	return frames
}

func readBudgetUses(frames []*SpentFrame, ids []IdentityStatus) (all []BudgetUse) {
	for _, f := range frames[:min(len(frames), MaxBudgetUses)] {
		if i := int(f.GetEgress()); i < len(ids) {
			all = append(all, BudgetUse{f.GetRoute(), ids[i].Name, int(f.GetUsed())})
		}
	}
	return all
}

// addTo adds what other sources have used of the route to its frame.
func (e UsedByOthers) addTo(f *RouteFrame) *RouteFrame {
	if e.Used > 0 {
		f.Elsewhere, f.ElsewhereMs = count(e.Used), uint32(min(max(e.Left.Milliseconds(), 1), math.MaxInt32))
	}
	return f
}

// usedByOthers reads what addTo wrote; no peer can make it last longer than the hour that it is about.
func (f *RouteFrame) usedByOthers() UsedByOthers {
	return UsedByOthers{Used: int(f.GetElsewhere()), Left: min(time.Duration(f.GetElsewhereMs())*time.Millisecond, time.Hour)}
}
