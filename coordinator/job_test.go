package coordinator

import (
	"encoding/csv"
	"encoding/json"
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

func TestJobEndToEnd(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	in := "name,email\nAnn,a@x.example\nBob,\nCid, A@X.EXAMPLE\nDan,b@nx.example\nEve,no address\nFay,info@d.example\nGus,\"Gus <g@d.example>\"\nHal,h@nxgmial.com\n"
	j := w.accept(t, in)
	require.Equal(t, [4]int64{8, 6, 1, 1}, [4]int64{j.Rows, j.Unique, j.Duplicates, j.Blank})
	j = w.finish(t, j.ID)
	require.Equal(t, store.JobCompleted, j.State)
	rows, err := csv.NewReader(strings.NewReader(w.results(t, j.ID, results.Filter{}))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"name", "email", "verify_status", "verify_score", "verify_reason",
		"verify_syntax_valid", "verify_domain_exists", "verify_smtp_valid", "verify_is_disposable",
		"verify_is_role_based", "verify_is_free_email",
		"verify_smtp_provider", "verify_mx_records", "verify_did_you_mean", "verify_from_cache", "verify_verified_at"},
		rows[0])
	require.Len(t, rows, 9)
	require.Equal(t, strings.Repeat(",", 13), strings.Join(rows[2][2:], ","), "a blank row has empty columns")
	require.Equal(t, rows[1][2:], rows[3][2:], "a duplicate has the verdict of the first")
	require.Equal(t, []string{"INVALID", "1", "domain_not_found", "true", "false", "false"}, rows[4][2:8])
	require.Equal(t, []string{"INVALID", "0", "invalid_syntax", "false", "false"}, rows[5][2:7])
	require.Equal(t, "true", rows[6][9], "the flags of a row")
	require.Equal(t, "mx1.d.example mx2.d.example", rows[6][12])
	require.Equal(t, "g@d.example", rows[7][13])
	require.Equal(t, "h@gmail.com", rows[8][13])
	want := fakeVerdict(parse(t, "a@x.example"))
	require.Equal(t, want.Status.String(), rows[1][2])
	require.Equal(t, want.Reason.String(), rows[1][4])
	require.Equal(t, "2026-03-04T05:06:07Z", rows[1][15])
	var n int64
	for _, c := range j.Counts {
		n += c
	}
	require.Equal(t, int64(7), n)
	require.NoError(t, w.close(t))
}

func TestResultFormats(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, "email\na@x.example\n\nb@x.example\nc@nx.example\n").ID)
	plain := w.results(t, j.ID, results.Filter{})
	for _, how := range []results.Compress{results.Gzip, results.Zstd} {
		require.Equal(t, plain, inflate(t, how, w.results(t, j.ID,
			results.Filter{Form: results.Form{Format: results.CSV, Compress: how}})), how)
	}
	invalid := w.results(t, j.ID, results.Filter{Status: []engine.Status{engine.Invalid}})
	require.Contains(t, invalid, "c@nx.example,INVALID")
	require.NotContains(t, invalid, "VALID,98")
	lines := strings.Split(strings.TrimSpace(w.results(t, j.ID,
		results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None}})), "\n")
	require.Len(t, lines, 4)
	for i, line := range lines {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m), line)
		require.Len(t, m, 17, "row, the 15 keys, and input")
		require.EqualValues(t, i+1, m["row"])
	}
	require.Equal(t, j.ResultSHA, sha(w.results(t, j.ID, results.Filter{Form: w.c.StoredForm()})))
	require.NoError(t, w.close(t))
}

func TestNoRowIsLostOrAskedTwice(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.prober.part = 100
	w.prober.outcome = func(b *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		switch (r.Number + uint32(r.Attempt)) % 10 {
		case 0:
			return wire.Deferred, 30 * time.Millisecond
		case 1:
			if len(b.Egress) == 0 {
				return wire.Returned, 5 * time.Millisecond
			}
		}
		return wire.Settled, 0
	}
	later := map[uint32]bool{}
	how := w.prober.outcome
	w.prober.outcome = func(b *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		o, d := how(b, r)
		w.prober.mu.Lock()
		defer w.prober.mu.Unlock()
		if o == wire.Returned && later[r.Number] {
			return wire.Settled, 0
		}
		later[r.Number] = o == wire.Returned
		return o, d
	}
	w.run()
	in := testCSV(20_000, 1)
	j := w.finish(t, w.accept(t, in).ID)
	require.Equal(t, store.JobCompleted, j.State)
	for row, n := range w.prober.settled {
		require.Equal(t, 1, n, "row %d", row)
	}
	for domain, n := range w.dns.asked {
		require.Equal(t, 1, n, domain)
	}
	checkResults(t, in, w.results(t, j.ID, results.Filter{}))
	snap, err := w.c.Snapshot(j.ID)
	require.NoError(t, err)
	require.Equal(t, j.Rows, snap.Processed)
	require.NoError(t, w.close(t))
}

func TestPauseResumeCancel(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	block := make(chan struct{})
	w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		if strings.HasPrefix(r.Address.Domain(), "busy") {
			return wire.Returned, time.Hour
		}
		return wire.Settled, 0
	}
	close(block)
	w.run()
	j := w.accept(t, testCSV(3000, 2))
	j, err := w.c.Pause(j.ID)
	require.NoError(t, err)
	require.Equal(t, store.JobPaused, j.State)
	_, err = w.c.Pause(j.ID)
	require.NoError(t, err, "to be paused already is no error")
	_, err = w.c.Resume(j.ID)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := w.c.Snapshot(j.ID)
		return err == nil && s.WaitingBudget > 0 && s.Answered > 1000
	}, 10*time.Second, time.Millisecond)
	require.ErrorIs(t, w.c.Results(t.Context(), j.ID, results.Filter{}, nil), ErrNotReady)
	partial := w.results(t, j.ID, results.Filter{Partial: true})
	require.Len(t, strings.Split(partial, "\n"), 3002)
	_, err = w.c.Cancel(j.ID)
	require.NoError(t, err)
	j = w.finish(t, j.ID)
	require.Equal(t, store.JobCancelled, j.State)
	require.Positive(t, j.Reasons["cancelled"])
	_, err = w.c.Resume(j.ID)
	require.ErrorIs(t, err, ErrState)
	require.NoError(t, w.c.Expire(j.ID))
	require.ErrorIs(t, w.c.Results(t.Context(), j.ID, results.Filter{}, nil), ErrExpired)
	require.NoError(t, w.close(t))
}

func TestSlowDomainDelaysNoOtherRows(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.accept(t, "email\na@slow.example\nb@fast.example\n")
	require.Eventually(t, func() bool {
		s, err := w.c.Snapshot(j.ID)
		return err == nil && s.Answered == 1
	}, 900*time.Millisecond, time.Millisecond)
	w.finish(t, j.ID)
	require.NoError(t, w.close(t))
}

func TestSingleVerification(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	defer w.close(t)
	for _, c := range []struct {
		email  string
		reason engine.Reason
		node   string
	}{
		{"Ann <a@x.example>", engine.ReasonInvalidSyntax, ""},
		{"a@nx.example", engine.ReasonDomainNotFound, ""},
		{"a@null.example", engine.ReasonNullMX, ""},
		{"a@fail.example", engine.ReasonDNSError, ""},
		{"a@x.example", fakeVerdict(parse(t, "a@x.example")).Reason, "fake"},
	} {
		a, err := w.c.Single(t.Context(), Request{Email: c.email})
		require.NoError(t, err)
		require.Equal(t, c.reason, a.Verdict.Reason, c.email)
		require.Equal(t, c.node, a.Node, c.email)
	}
}
