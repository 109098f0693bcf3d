package feedback

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/api/httpd"
	"probity/engine"
	"probity/engine/outcome"
	"probity/store"
	"probity/store/feedback"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func newReader(t testing.TB) reader {
	s, err := store.Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	book, err := feedback.Open(s)
	require.NoError(t, err)
	return reader{book, engine.DefaultTable(), noon}
}

// FuzzReports: a body is a list of reports or a refusal, and the same whichever form it has.
func FuzzReports(f *testing.F) {
	r := newReader(f)
	f.Add([]byte("email,outcome,at,bounce_text\nann@shop.test,bounced_hard,2026-03-01T12:00:00Z,\"550 5.1.1 no such\nuser\"\n"))
	f.Add([]byte("address_sha256,at,outcome\n" + "0a,2026-03-01T12:00:00+02:00,delivered\n"))
	f.Add([]byte(`{"reports":[{"email":"ann@shop.test","outcome":"complained","at":"2026-03-01T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		reports, err := r.csv(b)
		if err != nil {
			_, refused := errors.AsType[*httpd.Refusal](err)
			require.True(t, refused, "%v", err)
		} else {
			require.NotEmpty(t, reports)
		}
		d, err := httpd.ParseDocument(b)
		if err != nil {
			return
		}
		more, err := r.json(d)
		require.True(t, err != nil || len(more) > 0)
		for _, one := range append(reports, more...) {
			require.Less(t, one.Kind, outcome.Kind(outcome.Kinds))
			require.False(t, one.At.After(noon.Add(maxAhead)))
		}
	})
}

// TestRowsAreOffered: each row with a verdict is offered to the cases of its address.
func TestRowsAreOffered(t *testing.T) {
	book := newReader(t).book
	cases := []feedback.Case{{Report: feedback.Report{Hash: book.HashOf("ann@shop.test"), At: noon}},
		{Report: feedback.Report{Hash: book.HashOf("bo@shop.test"), At: noon}},
		{Report: feedback.Report{Hash: book.HashOf("cy@shop.test"), At: noon}}}
	a := &accountCases{book: book, byHash: map[feedback.Hash][]*feedback.Case{}}
	for i := range cases {
		a.byHash[cases[i].Hash] = append(a.byHash[cases[i].Hash], &cases[i])
	}
	for _, line := range []string{
		`{"row":1,"email":"Ann@shop.test","status":"VALID","score":97,"reason":null,"smtp_provider":"gmail","verified_at":"2026-03-01T12:00:00Z"}`,
		`{"row":2,"email":"","status":null,"score":null,"reason":null,"smtp_provider":"","verified_at":null}`,
		`{"row":3,"email":"bo@shop.test","status":"INVALID","score":3,"reason":"mailbox_not_found","smtp_provider":"gmail","verified_at":"2026-03-01T12:00:01Z"}`,
	} {
		require.NoError(t, a.offerRow([]byte(line)))
	}
	require.Equal(t, outcome.BinOf("gmail", engine.Valid, engine.ReasonNone, 97), cases[0].Verdict.Bin)
	require.Equal(t, outcome.BinOf("gmail", engine.Invalid, engine.ReasonMailboxNotFound, 3), cases[1].Verdict.Bin)
	require.Nil(t, cases[2].Verdict)
	require.Error(t, a.offerRow([]byte("{")))
}
