package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var evening = time.Date(2026, 3, 4, 18, 0, 0, 123456789, time.UTC)

// pageOf makes a ledger page of settlements by name: the credits charged, 0 for a release.
func pageOf(from Credits, last uint64, used map[string]int64, names ...string) *ledgerPage {
	page := &ledgerPage{}
	for i, name := range names {
		r := settlementRecord(name, used[name], max(1, used[name]), evening.Add(time.Duration(i*i-3*i)*time.Microsecond))
		r.applyAfter(from, last)
		from, last = Credits{r.Balance, r.Reserved}, r.Number
		page.add(&r, uint64(i))
	}
	return page
}

func TestLedgerPageRoundTrip(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`0102030405060700000000[0-9a-f]{2}/k_[0-9a-f]{4}`), rapid.StringN(1, 20, MaxName))
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfN(name, 1, maxGroup).Draw(rt, "names")
		used := map[string]int64{}
		for _, n := range names {
			used[n] = int64(rapid.IntRange(0, 3).Draw(rt, "used"))
		}
		from := Credits{Balance: 1 << 40, Reserved: int64(rapid.IntRange(0, 9).Draw(rt, "reserved"))}
		want := pageOf(from, 41, used, names...)
		v := want.appendTo(nil)
		got, err := readPage(v[1:])
		require.NoError(rt, err)
		require.Equal(rt, want.records, got)
		told, err := readEntries(nil, v)
		require.NoError(rt, err)
		for i, e := range told {
			from, err = from.checked(e, 42+uint64(i))
			require.NoError(rt, err)
		}
	})
}

func TestLedgerPageIsCompact(t *testing.T) {
	var names []string
	used := map[string]int64{}
	for i := range 100 {
		names = append(names, fmt.Sprintf("0102030405060700000001%02x/k_0123456789abcdef01234567", i))
		used[names[i]] = 1
	}
	require.Less(t, len(pageOf(Credits{Balance: 1e6}, 0, used, names...).appendTo(nil)), 100*12, "bytes")
}

// FuzzReadSheet: any value is read or refused, and what is read is written back the same way.
func FuzzReadSheet(f *testing.F) {
	f.Add(pageOf(Credits{Balance: 10}, 4, map[string]int64{"r1": 1}, "r1", "r2").appendTo(nil)[1:])
	f.Add([]byte{2, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 'r'})
	f.Fuzz(func(t *testing.T, v []byte) {
		ends, err := readPage(v)
		if err != nil {
			return
		}
		same, err := readPage((&ledgerPage{records: ends}).appendTo(nil)[1:])
		require.NoError(t, err)
		require.Equal(t, ends, same)
	})
}

// settleTogether settles a single call, and then others together, so that they share a commit.
func settleTogether(t *testing.T, s *Store, account string, names ...string) {
	t.Helper()
	DelayMerge(s)
	settleOne(t, s, account, s.NewRequest(), 1)
	s.mergeJournal()
	for _, name := range names {
		settleOne(t, s, account, name, 1)
	}
	s.mergeJournal()
}

// settleOne reserves one credit and settles.
func settleOne(t require.TestingT, s *Store, account, name string, used int64) {
	require.NoError(t, s.ReserveSingle(account, name, 1))
	require.NoError(t, s.SettleSingle(account, name, used, evening))
}

func storedForms(t *testing.T, s *Store, account string) (got []byte) {
	t.Helper()
	require.NoError(t, scan(s.db, keyPrefix(tableLedger, account), nil, func(_, v []byte) error {
		got = append(got, v[0])
		return nil
	}))
	return got
}

func userWithCredits(t *testing.T, s *Store) string {
	t.Helper()
	u, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Password: "long enough", Credits: 1000}, "test", evening)
	require.NoError(t, err)
	return u.ID
}

// TestSinglesOfACommitShareAPage: names of this process that are less than pageSpan apart share a page; each is listed, found
// and charged once, in the next process too.
func TestSinglesOfACommitShareAPage(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	ann := userWithCredits(t, s)
	old := s.NewRequest()
	for range pageSpan {
		s.NewRequest()
	}
	a, b, c, d := s.NewRequest(), WithKey(s.NewRequest(), "k_1"), WithKey(s.NewRequest(), "k_2"), s.NewRequest()
	settleTogether(t, s, ann, a, b, "of another making", c, d, old)
	require.Equal(t, []byte{'{', pairForm, pageForm, pairForm, pageForm, pairForm}, storedForms(t, s, ann)[:6])
	for range 2 {
		require.NoError(t, s.CheckLedger(ann))
		told, err := s.Ledger(ann, 0, 0)
		require.NoError(t, err)
		require.Len(t, told, 1+2*7)
		for before := uint64(1); before <= 16; before++ { // every listing starts right, at any place of a ledger page
			page, err := s.Ledger(ann, before, 1)
			require.NoError(t, err)
			if before == 1 {
				require.Empty(t, page)
				continue
			}
			require.Equal(t, told[16-before:17-before], page)
		}
		for _, name := range []string{a, b, c, d, old} {
			e, err := entryByID(s.db, ann, singleCause+name)
			require.NoError(t, err)
			require.Equal(t, singleCause+name, e.Cause)
			require.NoError(t, s.SettleSingle(ann, name, 1, evening))
			require.ErrorIs(t, s.SettleSingle(ann, name, 0, evening), ErrLedgerConflict)
			require.NoError(t, s.ReserveSingle(ann, name, 1))
			require.NoError(t, s.SettleSingle(ann, name, 1, evening, nothing))
		}
		_, err = entryByID(s.db, ann, singleCause+a+"/k_3")
		require.ErrorIs(t, err, ErrNotFound)
		have, err := s.Credits(ann)
		require.NoError(t, err)
		require.EqualValues(t, 1000-7, have.Balance)
		require.NoError(t, s.Close())
		s = open(t, fs)
	}
	require.NoError(t, s.Close())
}
