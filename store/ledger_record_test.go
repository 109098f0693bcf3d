package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordRoundTrip(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 123456789, time.UTC)
	charge, release := settlementRecord("r\xff 1", 3, 5, at), settlementRecord("r2", 0, 5, at)
	charge.applyAfter(Credits{Balance: 100, Reserved: 7}, 40)
	release.applyAfter(Credits{Balance: 100, Reserved: 7}, 1<<40)
	grant := record{Entry: Entry{Number: 1, ID: "grant g", Kind: Grant, Credits: -5, Amount: -5, Cause: "a <note>",
		At: at, Balance: 2}}
	for _, want := range []record{charge, release, grant} {
		v, err := want.appendTo(nil)
		require.NoError(t, err)
		got, err := readRecord(v)
		require.NoError(t, err)
		require.Equal(t, want, got)
		now := Credits{Balance: 100, Reserved: 7}
		if want.Pair {
			for _, e := range want.entries(nil) {
				now, err = now.checked(e, e.Number)
				require.NoError(t, err)
			}
		}
	}
}

// FuzzReadRecord: any value is read or refused, and a pair is written back the same way.
func FuzzReadRecord(f *testing.F) {
	r := settlementRecord("r1", 1, 1, time.Unix(1, 2))
	v, _ := r.appendTo(nil)
	f.Add(v)
	f.Add([]byte(`{"number":1}`))
	f.Add([]byte{pairForm})
	f.Fuzz(func(t *testing.T, v []byte) {
		r, err := readRecord(v)
		if err != nil || !r.Pair {
			return
		}
		again, err := r.appendTo(nil)
		require.NoError(t, err)
		same, err := readRecord(again)
		require.NoError(t, err)
		require.Equal(t, r, same)
	})
}
