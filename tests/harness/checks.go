package harness

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/referee"
	"probity/bench/sim/score"
	"probity/bench/sim/world"
)

// RequireCorrect compares a result with the truth: every row there, in its place, its cells unchanged, and no verdict
// that an honest verifier would not give.
func RequireCorrect(t *testing.T, w *world.World, list, result []byte) {
	t.Helper()
	var truth bytes.Buffer
	require.NoError(t, score.WriteTruth(&truth, w, bytes.NewReader(list)))
	s, err := score.Compare(&truth, bytes.NewReader(result))
	require.NoError(t, err)
	RequireScore(t, s)
}

// RequireScore requires a result that agrees with the truth: no false verdict, no lost row, no changed cell.
func RequireScore(t *testing.T, s score.Scores) {
	t.Helper()
	t.Logf("score: %+v", s)
	require.Zero(t, s.FalseValid, "false VALID")
	require.Zero(t, s.FalseInvalid, "false INVALID")
	require.Zero(t, s.UnexpectedUnknown, "unexpected UNKNOWN")
	require.Zero(t, s.MissingRows+s.ExtraRows+s.OrderErrors, "missing, extra or misplaced rows")
	require.Zero(t, s.ChangedCells, "changed cells")
	require.LessOrEqual(t, (s.WrongStatus+s.WrongReason)*1000, s.Rows, "honest, but less than could be known")
}

// RequireWithinLimits requires that no receiver's limit was exceeded.
func RequireWithinLimits(t *testing.T, r referee.Report) {
	t.Helper()
	t.Logf("referee: %d connections, %d recipients, %d refused, %d excesses", r.Connections, r.Recipients, r.Refused,
		r.Excesses)
	for _, u := range r.Routes {
		if u.FirstExcess != nil {
			t.Logf("first excess of routes of %s: %+v", u.Persona, *u.FirstExcess)
		}
	}
	require.Empty(t, r.By, "excesses")
}

// RequireRoutes requires that the referee has counted narrow routes over all sources, and logs their use; their
// excesses are among the others. It returns how many routes moved from one source to another.
func RequireRoutes(t *testing.T, r referee.Report) (moved int) {
	t.Helper()
	routes, most := 0, map[string]string{}
	for _, u := range r.Routes {
		routes, moved = routes+u.Routes, moved+u.Moved
		for _, e := range u.Peaks {
			if e.Limit > 0 && 2*e.Seen > e.Limit && e.Limit > 1 {
				most[u.Persona+" "+e.Kind] = fmt.Sprintf("%d of %d", e.Seen, e.Limit)
			}
		}
	}
	t.Logf("referee: %d narrow routes, %d asked by one source after another; most used over all sources: %v", routes,
		moved, most)
	require.NotZero(t, routes)
	return moved
}

// SourcesOf lists the sources that used each provider, from the referee's report.
func SourcesOf(r referee.Report) map[string]map[string]bool {
	by := map[string]map[string]bool{}
	for _, e := range r.Peaks {
		if by[e.Persona] == nil {
			by[e.Persona] = map[string]bool{}
		}
		by[e.Persona][e.Source] = true
	}
	return by
}
