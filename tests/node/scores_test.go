package node_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/app"
	"probity/internal/detector"
)

const (
	scoredRows   = 20_000
	rescoredRows = 300 // of each status that is kept
)

// TestScoresVaryInsideTheirBucket verifies a list of the simulated internet, in virtual time with the shipped limits:
// scores differ within VALID and within RISKY. Two days later the cached answers are requested again in every form of
// an answer, and have the same score in each.
func TestScoresVaryInsideTheirBucket(t *testing.T) {
	detector.Spare(t)
	onInternet(t, func(ctx context.Context, t *testing.T, n *app.Node, internet *sim.Server) {
		first := scoredList(ctx, t, n, sampleList(t, internet))
		requireSpread(t, first)
		<-time.After(48 * time.Hour)
		requireOneScore(ctx, t, n, keptRows(first))
	})
}

// scoredRow is a row of a result in any form.
type scoredRow struct {
	Email     string
	Status    string
	Score     int
	Reason    string
	FromCache bool `json:"from_cache"`
}

// scoredList verifies a list, and compares its result as JSON lines and in a callback with the CSV.
func scoredList(ctx context.Context, t *testing.T, n *app.Node, list []byte) []scoredRow {
	job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{MaxAge: 7 * 24 * time.Hour, MaxHours: ingest.MaxHours}})
	require.NoError(t, err)
	_, err = n.Coordinator.Wait(ctx, job.ID)
	require.NoError(t, err)
	var csvText, lines, callback bytes.Buffer
	require.NoError(t, n.Coordinator.Results(ctx, job.ID, results.Filter{}, &csvText))
	require.NoError(t, n.Coordinator.Results(ctx, job.ID, results.Filter{Form: results.Form{Format: results.JSONL}},
		&lines))
	require.NoError(t, n.Coordinator.WriteResults(ctx, job.ID, &callback))
	rows := fromCSV(t, csvText.Bytes())
	requireSame(t, rows, fromLines(t, lines.Bytes()), "JSON lines")
	requireSame(t, rows, fromLines(t, callback.Bytes()), "callback")
	return rows
}

func requireSame(t *testing.T, want, got []scoredRow, form string) {
	require.Len(t, got, len(want), form)
	for i := range want {
		require.Equal(t, want[i], got[i], form)
	}
}

func fromCSV(t *testing.T, text []byte) (rows []scoredRow) {
	cells, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	require.NoError(t, err)
	column := func(name string) int { return slices.Index(cells[0], name) }
	for _, row := range cells[1:] {
		score, err := strconv.Atoi(row[column("verify_score")])
		if err != nil {
			continue // a blank row
		}
		rows = append(rows, scoredRow{row[column("email")], row[column("verify_status")], score,
			row[column("verify_reason")], row[column("verify_from_cache")] == "true"})
	}
	return rows
}

func fromLines(t *testing.T, text []byte) (rows []scoredRow) {
	for line := range strings.Lines(string(text)) {
		row := scoredRow{}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if row.Status != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// requireSpread requires ten scores within VALID, none with more than three in ten, six within RISKY and within INVALID
// by SMTP, three within one reason of RISKY, and every score in its band.
func requireSpread(t *testing.T, rows []scoredRow) {
	bands := map[string]engine.Band{}
	for r := range engine.Reason(engine.Reasons) {
		bands[r.String()] = r.Band()
	}
	status, reason := map[string]map[int]int{}, map[string]map[int]int{}
	count := func(of map[string]map[int]int, key string, score int) {
		if of[key] == nil {
			of[key] = map[int]int{}
		}
		of[key][score]++
	}
	for _, r := range rows {
		count(status, r.Status, r.Score)
		count(reason, r.Reason, r.Score)
		require.True(t, r.Score >= int(bands[r.Reason].Low) && r.Score <= int(bands[r.Reason].High), "%+v", r)
	}
	t.Logf("VALID: %v", status["VALID"])
	t.Logf("RISKY: %v", status["RISKY"])
	bySMTP := map[int]int{} // INVALID
	for _, name := range []string{"mailbox_not_found", "mailbox_disabled"} {
		for score, n := range reason[name] {
			bySMTP[score] += n
		}
	}
	t.Logf("INVALID by SMTP: %v", bySMTP)
	valid := 0
	for _, n := range status["VALID"] {
		valid += n
	}
	require.GreaterOrEqual(t, len(status["VALID"]), 10)
	for score, n := range status["VALID"] {
		require.LessOrEqual(t, n, valid*3/10, "VALID with %d", score)
	}
	require.GreaterOrEqual(t, len(status["RISKY"]), 6)
	require.GreaterOrEqual(t, len(bySMTP), 6)
	require.GreaterOrEqual(t, len(reason["catch_all"]), 3, "%v", reason["catch_all"])
	require.GreaterOrEqual(t, len(reason["role_account"]), 3, "%v", reason["role_account"])
}

// keptRows are some rows of each status whose answers are cached.
func keptRows(rows []scoredRow) (kept []scoredRow) {
	n, had := map[string]int{}, map[string]bool{}
	for _, r := range rows {
		switch r.Reason {
		case "", "catch_all", "role_account", "mailbox_full", "mailbox_not_found", "mailbox_disabled":
			if n[r.Status] < rescoredRows && !had[r.Email] {
				n[r.Status]++
				had[r.Email] = true
				kept = append(kept, r)
			}
		}
	}
	return kept
}

// requireOneScore requests cached answers in single calls with details, and in a list: every form has the same score,
// and age does not raise it.
func requireOneScore(ctx context.Context, t *testing.T, n *app.Node, before []scoredRow) {
	list := []byte("email\n")
	singles := make([]scoredRow, 0, len(before))
	for _, r := range before {
		list = append(append(list, strconv.Quote(r.Email)...), '\n')
		answer, err := n.Coordinator.Single(ctx, coordinator.Request{Email: r.Email, MaxAge: 7 * 24 * time.Hour})
		require.NoError(t, err)
		a := results.Single{Email: r.Email, Verdict: answer.Verdict, Normalized: answer.Address.Folded(),
			DidYouMean: answer.Suggestion, Node: answer.Node, Details: true}
		var reported struct {
			scoredRow
			Details struct {
				ScoreParts []engine.Part `json:"score_parts"`
			}
		}
		require.NoError(t, json.Unmarshal(a.AppendJSON(nil, time.Now()), &reported))
		sum := 0
		for _, p := range reported.Details.ScoreParts {
			sum += p.Points
		}
		require.Equal(t, reported.Score, sum, "%+v", reported)
		singles = append(singles, reported.scoredRow)
	}
	requireSame(t, singles, scoredList(ctx, t, n, list), "list")
	aged, mayAge := 0, 0
	for i, r := range singles {
		require.True(t, r.FromCache, "%+v", r)
		was := before[i]
		require.Equal(t, was.Status, r.Status)
		surer := r.Score - was.Score
		switch r.Status {
		case "RISKY":
			continue // it may go either way
		case "INVALID":
			surer = -surer
		}
		mayAge++
		require.LessOrEqual(t, surer, 0, "%+v, two days before %+v", r, was)
		if surer < 0 {
			aged++
		}
	}
	require.Greater(t, aged, mayAge*9/10, "few answers had waited for an hour when they were told first")
}
