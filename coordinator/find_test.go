package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// shownRow is what the tests of searches need of a row.
type shownRow struct {
	Row      int64  `json:"row"`
	Email    string `json:"email"`
	Status   string `json:"status"`
	Score    int    `json:"score"`
	Provider string `json:"smtp_provider"`
}

// rowsOf returns all rows of a job that are not blank, and the lines that they were read from.
func rowsOf(t testing.TB, w *testEnv, job string) (rows []shownRow, lines []string) {
	for line := range strings.Lines(w.results(t, job, results.Filter{Form: results.Form{Format: results.JSONL}})) {
		var r shownRow
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Email != "" {
			rows, lines = append(rows, r), append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return rows, lines
}

// TestSearchFindsWhatTheResultsHave compares searches, in parts, with all rows.
func TestSearchFindsWhatTheResultsHave(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	list := bytes.NewBufferString("id,email,note\n")
	for i := range 9000 { // several frames
		switch {
		case i%500 == 3:
			fmt.Fprintf(list, "%d,,blank york\n", i)
		case i%1000 == 7:
			fmt.Fprintf(list, "%d,\"\"\"Q%d\"\"@Shop.example\",quoted\n", i, i)
		case i%9 == 2:
			fmt.Fprintf(list, "%d,U%d@shop.example,again\n", i, i/3)
		case i%3000 == 4:
			fmt.Fprintf(list, "%d,%d@,broken\n", i, i)
		default:
			fmt.Fprintf(list, "%d,u%d@shop.example,%s\n", i, i, strings.Repeat("york ", 10))
		}
	}
	j := w.finish(t, w.accept(t, list.String()).ID)
	rows, lines := rowsOf(t, w, j.ID)
	for _, text := range []string{"", "u12", "U4444@", `"q`, "@SHOP", "york", "zz", "004@", "é"} {
		for _, status := range [][]engine.Status{nil, {engine.Invalid}, {engine.Valid, engine.Unknown}} {
			for _, limit := range []int{1, 100} {
				if limit == 1 && text != `"q` {
					continue
				}
				var want, got []string
				for i, r := range rows {
					of := func(s engine.Status) bool { return s.String() == r.Status }
					if strings.Contains(strings.ToLower(r.Email), strings.ToLower(text)) &&
						(status == nil || slices.ContainsFunc(status, of)) {
						want = append(want, lines[i])
					}
				}
				for after := int64(0); after < j.Rows; {
					found, err := w.c.Find(t.Context(), j.ID, results.Filter{Status: status, From: uint32(after) + 1},
						results.Search{Text: text, Limit: limit})
					require.NoError(t, err)
					require.LessOrEqual(t, len(found.Rows), limit)
					require.Greater(t, found.Last, after, "each part goes on")
					after = found.Last
					for _, row := range found.Rows {
						got = append(got, string(row))
					}
				}
				require.Equal(t, want, got, "%q %v", text, status)
			}
		}
	}
	whole, err := w.c.Find(t.Context(), j.ID, results.Filter{}, results.Search{Text: "zz", Limit: 1, For: time.Minute})
	require.NoError(t, err)
	require.Equal(t, results.Found{Last: j.Rows}, whole, "a search with time enough ends at the end")
	require.NoError(t, w.close(t))
}

// TestSearchByStatusEndsWithItsLastRow: a search by status begins with the first row that has it and is over with the
// last one. It has no time here, so that it looks at the fewest rows. A record of an earlier version has counts only.
func TestSearchByStatusEndsWithItsLastRow(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	list := bytes.NewBufferString("email,note\n")
	write := func(n int, wanted engine.Status) {
		for i := 0; n > 0; i++ {
			text := fmt.Sprintf("u%d@%s.example", i, wanted)
			a, err := engine.Parse(text)
			require.NoError(t, err)
			if verdict := fakeVerdict(a); verdict.Status == wanted {
				fmt.Fprintf(list, "%s,%s\n", text, strings.Repeat("york ", 10))
				n--
			}
		}
	}
	write(20_000, engine.Valid) // more than the first part of a search
	write(2, engine.Invalid)
	write(9_998, engine.Unknown)
	j := w.finish(t, w.accept(t, list.String()).ID)
	find := func(from uint32, limit int, text string, status ...engine.Status) results.Found {
		found, err := w.c.Find(t.Context(), j.ID, results.Filter{Status: status, From: from},
			results.Search{Text: text, Limit: limit})
		require.NoError(t, err)
		return found
	}
	require.Equal(t, results.Found{Last: j.Rows}, find(1, 25, "", engine.Risky), "no row has it")
	require.Equal(t, results.Found{Last: j.Rows}, find(1, 25, "u1", engine.Risky), "nor with a text")
	for limit, last := range map[int]int64{1: 20_001, 2: j.Rows, 25: j.Rows} {
		found := find(1, limit, "", engine.Risky, engine.Invalid)
		require.Len(t, found.Rows, min(limit, 2), "the search begins with the first row of the status")
		require.Equal(t, last, found.Last, "and ends with the last one")
	}
	require.Len(t, find(20_002, 25, "", engine.Invalid).Rows, 1)
	require.Equal(t, results.Found{Last: j.Rows}, find(20_003, 25, "", engine.Invalid))
	require.Less(t, find(1, 25, "zz", engine.Valid, engine.Unknown).Last, int64(20_000), "with both, all are searched")

	_, err := w.store.UpdateJob(j.ID, func(j *store.Job) error { j.Tally.Spans = nil; return nil })
	require.NoError(t, err)
	require.Equal(t, results.Found{Last: j.Rows}, find(1, 25, "", engine.Risky), "no row is counted")
	require.Less(t, find(1, 25, "", engine.Invalid).Last, int64(20_000), "they may be anywhere")
	require.NoError(t, w.close(t))
}

// TestSearchFindsTheAnswersOfARunningJob: pages of searches, the first before most rows are answered, have what the
// partial results have.
func TestSearchFindsTheAnswersOfARunningJob(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		if strings.HasPrefix(r.Address.Domain(), "busy") {
			return wire.Returned, time.Hour
		}
		return wire.Settled, 0
	}
	w.run()
	list := bytes.NewBufferString("email,note\n")
	open := 0
	for i := range 8000 {
		switch {
		case i%9 == 2:
			fmt.Fprintf(list, "u%d@shop.example,again\n", i-2)
		case i%5 == 0:
			open++
			fmt.Fprintf(list, "u%d@busy.example,\n", i)
		default:
			fmt.Fprintf(list, "u%d@shop.example,%s\n", i, strings.Repeat("york ", 10))
		}
	}
	j := w.accept(t, list.String())
	search := func(f results.Filter, limit int) (got []string) {
		for after := int64(0); after < j.Rows; {
			f.From = uint32(after) + 1
			found, err := w.c.Find(t.Context(), j.ID, f, results.Search{Limit: limit})
			require.NoError(t, err)
			require.GreaterOrEqual(t, found.Last, after)
			after = found.Last
			for _, row := range found.Rows {
				got = append(got, string(row))
			}
		}
		return got
	}
	answered := func(least int64) {
		require.Eventually(t, func() bool {
			s, err := w.c.Snapshot(j.ID)
			return err == nil && s.Answered >= least
		}, 20*time.Second, time.Millisecond)
	}
	answered(1)
	require.Len(t, search(results.Filter{}, 100), int(j.Rows))
	answered(j.Unique - int64(open))
	var whole, invalid []string
	for line := range strings.Lines(w.results(t, j.ID, results.Filter{Partial: true,
		Form: results.Form{Format: results.JSONL}})) {
		line = strings.TrimSuffix(line, "\n")
		whole = append(whole, line)
		if strings.Contains(line, `"status":"INVALID"`) {
			invalid = append(invalid, line)
		}
	}
	require.Equal(t, whole, search(results.Filter{}, 100))
	require.NotEmpty(t, invalid)
	require.Equal(t, invalid, search(results.Filter{Status: []engine.Status{engine.Invalid}}, 7))
	require.NoError(t, w.close(t))
}

// TestSearchKeepsNothingOfAnEndedJob: what searches keep of a running job goes when the job ends. One that is under
// way then keeps nothing either, also if the job is expired or deleted before it ends.
func TestSearchKeepsNothingOfAnEndedJob(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		if strings.HasPrefix(r.Address.Domain(), "busy") {
			return wire.Returned, time.Hour
		}
		return wire.Settled, 0
	}
	w.run()
	for name, after := range map[string]func(string) error{
		"ended": func(string) error { return nil }, "expired": w.c.Expire, "deleted": w.c.Delete,
	} {
		t.Run(name, func(t *testing.T) {
			j := w.accept(t, "email\nann@shop.example\nbob@busy.example\n")
			require.Eventually(t, func() bool {
				s, err := w.c.Snapshot(j.ID)
				return err == nil && s.Answered == 1
			}, 20*time.Second, time.Millisecond)
			search := func() {
				_, err := w.c.Find(t.Context(), j.ID, results.Filter{From: 1}, results.Search{Limit: 10})
				require.NoError(t, err)
			}
			search()
			require.Equal(t, 1, w.c.renderer.LiveIndexes())
			upload, err := w.c.files.OpenUpload(j)
			require.NoError(t, err)
			answers, err := w.c.files.OpenAnswers(j)
			require.NoError(t, err)
			underWay, err := w.c.renderer.Open(j, upload, answers, results.Filter{From: 1})
			require.NoError(t, err)
			search()
			require.Equal(t, 1, w.c.renderer.LiveIndexes())

			_, err = w.c.Cancel(j.ID)
			require.NoError(t, err)
			w.finish(t, j.ID)
			require.NoError(t, after(j.ID))
			none := func() bool { return w.c.renderer.LiveIndexes() == 0 }
			require.Eventually(t, none, 5*time.Second, time.Millisecond, "before the next search")
			require.NoError(t, underWay.Close())
			require.Zero(t, w.c.renderer.LiveIndexes(), "nor of a search that was under way")
		})
	}
	require.NoError(t, w.close(t))
}

// TestTallyCountsTheRows of the results, also after an erasure.
func TestTallyCountsTheRows(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, spelled+"9,ann@gmail.com,x\n10,broken,x\n").ID)
	check := func(j *store.Job) {
		rows, _ := rowsOf(t, w, j.ID)
		want := store.Tally{Providers: map[string]map[string]int64{}, Spans: map[string]store.Span{}}
		for _, r := range rows {
			span, had := want.Spans[r.Status]
			if !had {
				span[0] = r.Row
			}
			want.Spans[r.Status] = store.Span{span[0], r.Row}
			if want.Providers[r.Provider] == nil {
				want.Providers[r.Provider] = map[string]int64{}
			}
			want.Providers[r.Provider][r.Status]++
			want.Scores[min(r.Score/10, 9)]++
		}
		require.Equal(t, &want, j.Tally)
	}
	check(j)
	_, err := w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	erased, err := w.c.Job(j.ID)
	require.NoError(t, err)
	require.NotEqual(t, j.ResultSHA, erased.ResultSHA)
	check(erased)
	require.NoError(t, w.c.Expire(j.ID))
	expired, err := w.c.Job(j.ID)
	require.NoError(t, err)
	require.Nil(t, expired.Tally, "it goes with the results")
	require.NoError(t, w.close(t))
}
