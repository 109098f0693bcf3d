package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/outcome"
	"probity/store"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

var valid = outcome.BinOf("gmail", engine.Valid, engine.ReasonNone, 98)

func open(t testing.TB, fs vfs.FS) (*store.Store, *Book) {
	t.Helper()
	s, err := store.Open(fs, "state")
	require.NoError(t, err)
	b, err := Open(s)
	require.NoError(t, err)
	return s, b
}

func newBook(t testing.TB) *Book {
	s, b := open(t, vfs.NewMem())
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return b
}

// report is a report about an address at hours after noon.
func (b *Book) report(email string, hours int, kind outcome.Kind) Report {
	return Report{b.HashOf(email), noon.Add(time.Duration(hours) * time.Hour), kind}
}

// match settles all that waits. The verdicts of lists are given by address.
func match(b *Book, lists map[string]Verdict) error {
	waiting, err := b.Waiting(1 << 20)
	if err != nil {
		return err
	}
	for account, cases := range waiting {
		for i := range cases {
			for email, v := range lists {
				if b.HashOf(email) == cases[i].Hash {
					cases[i].Offer(v)
				}
			}
		}
		if err := b.Settle(account, cases); err != nil {
			return err
		}
	}
	return nil
}

func add(t testing.TB, b *Book, account string, reports ...Report) Added {
	t.Helper()
	sum, err := b.Add(account, reports)
	require.NoError(t, err)
	return sum
}

func rows(t testing.TB, b *Book, account string) []outcome.Row {
	t.Helper()
	s, err := b.Summary(account)
	require.NoError(t, err)
	return s.Rows
}

func TestReportsAreMatchedWithTheLatestVerdictBefore(t *testing.T) {
	b := newBook(t)
	risky := outcome.BinOf("gmail", engine.Risky, engine.ReasonCatchAll, 60)
	lists := map[string]Verdict{"Ann@Example.org": {noon.Add(2 * time.Hour), risky}, "ann@example.org": {noon, valid},
		"bo@example.org": {noon, valid}}
	require.Equal(t, Added{Accepted: 5}, add(t, b, "a", b.report("ANN@example.org", 1, outcome.Delivered),
		b.report("bo@example.org", -1, outcome.Bounced),
		b.report("bo@example.org", 24*31, outcome.Bounced), b.report("nobody@example.org", 1, outcome.Bounced),
		b.report("ann@example.org", 3, outcome.Bounced)))
	s, err := b.Summary("a")
	require.NoError(t, err)
	require.EqualValues(t, 5, s.Waiting)
	require.NoError(t, match(b, lists))
	s, err = b.Summary("a")
	require.NoError(t, err)
	require.Zero(t, s.Waiting)
	require.EqualValues(t, 3, s.Unmatched)
	require.Len(t, s.Rows, 2)
	require.Equal(t, outcome.Counts{outcome.Delivered: 1}, s.Rows[0].Counts)
	require.Equal(t, engine.Valid, s.Rows[0].Status)
	require.Equal(t, outcome.Counts{outcome.Bounced: 1}, s.Rows[1].Counts)
	require.Equal(t, engine.Risky, s.Rows[1].Status)
}

// TestRepeatedReportsCountOnce: the same reports again, also in another order and once they are counted, change
// nothing; of one verdict the greatest outcome counts.
func TestRepeatedReportsCountOnce(t *testing.T) {
	b := newBook(t)
	lists := map[string]Verdict{"ann@example.org": {noon, valid}}
	first := []Report{b.report("ann@example.org", 1, outcome.Delivered),
		b.report("ann@example.org", 2, outcome.Delivered)}
	require.Equal(t, Added{Accepted: 2}, add(t, b, "a", first...))
	require.Equal(t, Added{Repeated: 2}, add(t, b, "a", first...))
	require.NoError(t, match(b, lists))
	require.Equal(t, Added{Repeated: 2}, add(t, b, "a", first[1], first[0]))
	require.NoError(t, match(b, lists))
	require.Equal(t, outcome.Counts{outcome.Delivered: 1}, rows(t, b, "a")[0].Counts)
	bounce := b.report("ann@example.org", 5, outcome.Bounced)
	require.Equal(t, Added{Accepted: 1}, add(t, b, "a", bounce))
	require.NoError(t, match(b, lists))
	require.Equal(t, outcome.Counts{outcome.Bounced: 1}, rows(t, b, "a")[0].Counts)
	require.Equal(t, Added{Accepted: 1, Repeated: 2},
		add(t, b, "a", bounce, first[0], b.report("ann@example.org", 6, outcome.Delivered)))
	require.NoError(t, match(b, lists))
	require.Equal(t, outcome.Counts{outcome.Bounced: 1}, rows(t, b, "a")[0].Counts)
	lists["ann@example.org"] = Verdict{noon.Add(7 * time.Hour), valid}
	add(t, b, "a", b.report("ann@example.org", 8, outcome.Delivered))
	require.NoError(t, match(b, lists))
	require.Equal(t, outcome.Counts{outcome.Bounced: 1, outcome.Delivered: 1}, rows(t, b, "a")[0].Counts,
		"of another verdict")
}

func TestReceiptsNameAddresses(t *testing.T) {
	b := newBook(t)
	h, ok := b.HashOfReceipt("3b8e2e1bf8d06b7d6d2d1a1d8f0a4d9c9d9f8f7f3c5b6a7e8d9c0b1a2f3e4d5c")
	require.True(t, ok)
	require.NotEqual(t, h, b.HashOf("ann@example.org"))
	h, ok = b.HashOfReceipt("6c0322c7a1a2a0bbde1a3c97e2d2ee29aa2d1b9eb6a08d8ff7d1a8a8c5a0e5e8"[:62])
	require.False(t, ok)
	require.Zero(t, h)
}

// TestErasureReachesFeedback: no record of the address is left, of no account, and what waited is not counted.
func TestErasureReachesFeedback(t *testing.T) {
	b := newBook(t)
	lists := map[string]Verdict{"ann@example.org": {noon, valid}, "bo@example.org": {noon, valid}}
	for _, account := range []string{"a", "b"} {
		add(t, b, account, b.report("ann@example.org", 1, outcome.Delivered),
			b.report("bo@example.org", 1, outcome.Delivered))
	}
	require.NoError(t, match(b, lists))
	add(t, b, "a", b.report("ann@example.org", 2, outcome.Bounced))
	stale, err := b.Waiting(10)
	require.NoError(t, err)
	n, err := b.Erase("ann@example.org")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	stale["a"][0].Offer(lists["ann@example.org"])
	require.NoError(t, b.Settle("a", stale["a"]), "it was read before the erasure")
	n, err = b.Erase("ann@example.org")
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, outcome.Counts{outcome.Delivered: 2}, rows(t, b, "a")[0].Counts)
	h, left := b.HashOf("ann@example.org"), 0
	require.NoError(t, scan(b.db.Reader(), []byte{store.TableFeedback}, nil, func(k, v []byte) error {
		left++
		require.False(t, bytes.Contains(k, h[:]) || bytes.Contains(v, h[:]))
		require.False(t, bytes.Contains(k, []byte("example")) || bytes.Contains(v, []byte("example")))
		return nil
	}))
	require.Equal(t, 4, left) // of each account the outcome of bo, and its counts
	s, err := b.Summary("a")
	require.NoError(t, err)
	require.Zero(t, s.Waiting)
}

func TestOldOutcomesAreSwept(t *testing.T) {
	b := newBook(t)
	const n = 3 * maxCommit / 2
	old := make([]Report, n)
	for i := range old {
		old[i] = b.report(fmt.Sprintf("old%d@example.org", i), 1, outcome.Delivered)
	}
	settle := func(reports []Report, at time.Time) {
		add(t, b, "a", reports...)
		waiting, err := b.Waiting(2 * n)
		require.NoError(t, err)
		for i := range waiting["a"] {
			waiting["a"][i].Offer(Verdict{at, valid})
		}
		require.NoError(t, b.Settle("a", waiting["a"]))
	}
	settle(old, noon)
	settle([]Report{b.report("new@example.org", 24*20, outcome.Delivered)}, noon.Add(20*24*time.Hour))
	swept, err := b.Sweep(noon.Add(outcomeLife + time.Hour))
	require.NoError(t, err)
	require.Equal(t, n, swept)
	require.EqualValues(t, n+1, rows(t, b, "a")[0].N, "counts stay")
}

func TestWaitingReportsAreBounded(t *testing.T) {
	b := newBook(t)
	b.waiting["a"] = b.Limit - 1
	add(t, b, "a", b.report("ann@example.org", 1, outcome.Delivered))
	_, err := b.Add("a", []Report{b.report("bo@example.org", 1, outcome.Delivered)})
	require.ErrorIs(t, err, ErrFull)
	add(t, b, "b", b.report("bo@example.org", 1, outcome.Delivered))
}

// TestProbabilityFollowsOutcomes is the way from reports to a probability, over a restart.
func TestProbabilityFollowsOutcomes(t *testing.T) {
	fs := vfs.NewMem()
	s, b := open(t, fs)
	lists := map[string]Verdict{}
	for i := range outcome.MinObservations {
		email := fmt.Sprintf("p%d@example.org", i)
		lists[email] = Verdict{noon, valid}
		kind := outcome.Delivered
		if i%10 == 0 {
			kind = outcome.Bounced
		}
		add(t, b, "a", b.report(email, 1, kind))
	}
	_, n, known := b.Probability("a", valid)
	require.False(t, known)
	require.Zero(t, n)
	require.NoError(t, match(b, lists))
	for _, book := range []*Book{b, nil} {
		if book == nil {
			require.NoError(t, s.Close())
			s, book = open(t, fs)
		}
		p, n, known := book.Probability("a", valid)
		require.True(t, known)
		require.EqualValues(t, outcome.MinObservations, n)
		require.InDelta(t, 0.9, p, 0.01)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(b)
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, f := range families {
		fmt.Fprintln(&text, f)
	}
	require.Contains(t, strings.Join(strings.Fields(text.String()), " "),
		`label:{name:"outcome" value:"delivered"} label:{name:"receiver" value:"gmail"} label:{name:"status" value:"VALID"} gauge:{value:180}`)
	require.NoError(t, s.Close())
}

// failingFS is a disk whose write-ahead log fails from the n-th operation of a kind on, once armed.
type failingFS struct {
	disk  *vfs.MemFS
	kind  errorfs.OpKind
	left  atomic.Int64
	armed atomic.Bool
	hit   atomic.Bool
}

func (f *failingFS) fs() vfs.FS {
	return errorfs.Wrap(f.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f.armed.Load() && op.Kind == f.kind && strings.HasSuffix(op.Path, ".log") && f.left.Add(-1) < 0 {
			f.hit.Store(true)
			return errorfs.ErrInjected
		}
		return nil
	}))
}

// verdicts are what the reports of the steps are about.
var verdicts = map[string]Verdict{"ann@example.org": {noon, valid}, "bo@example.org": {noon, valid}}

// steps are the steps of feedback, each of which can be repeated.
var steps = []func(b *Book) error{
	func(b *Book) error {
		_, err := b.Add("a", []Report{b.report("ann@example.org", 1, outcome.Delivered),
			b.report("bo@example.org", 1, outcome.Bounced),
			b.report("cy@example.org", 1, outcome.Delivered)})
		return err
	},
	func(b *Book) error { return match(b, verdicts) },
	func(b *Book) error {
		_, err := b.Add("a", []Report{b.report("ann@example.org", 2, outcome.Complained)})
		return err
	},
	func(b *Book) error { return match(b, verdicts) },
	func(b *Book) error { _, err := b.Erase("bo@example.org"); return err },
	func(b *Book) error { _, err := b.Sweep(noon.Add(outcomeLife + time.Hour)); return err },
}

// TestFailureOfAnyStep fails the n-th write or sync of the log, discards the process, and goes on from the disk,
// which has all that was written (failed, but persisted), only what was synced (failed), or a mixture. The end is the
// same, on disk and in memory.
func TestFailureOfAnyStep(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		for _, percent := range []int{0, 50, 100} {
			failures := 0
			for n := int64(0); failStep(t, kind, percent, n); n++ {
				failures++
			}
			require.GreaterOrEqual(t, failures, len(steps), "each step is a commit")
		}
	}
}

func failStep(t *testing.T, kind errorfs.OpKind, percent int, n int64) bool {
	disk := &failingFS{disk: vfs.NewCrashableMem(), kind: kind}
	disk.left.Store(n)
	s, b := open(t, disk.fs())
	disk.armed.Store(true)
	done := 0
	for done < len(steps) && runStep(b, steps[done]) == nil {
		done++
	}
	hit := disk.hit.Load()
	if !hit {
		disk.armed.Store(false)
		require.NoError(t, s.Close())
	}
	s, b = open(t, disk.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
		RNG: rand.New(rand.NewPCG(uint64(n), uint64(kind)))}))
	for _, step := range steps[done:] {
		require.NoError(t, step(b))
	}
	for _, book := range []*Book{b, reopened(t, s)} {
		got := rows(t, book, "a")
		require.Len(t, got, 1)
		require.Equal(t, outcome.Counts{outcome.Complained: 1, outcome.Bounced: 1}, got[0].Counts)
		sum, err := book.Summary("a")
		require.NoError(t, err)
		require.Zero(t, sum.Waiting)
		require.EqualValues(t, 1, sum.Unmatched)
	}
	require.NoError(t, s.Close())
	return hit
}

// reopened is a Book as the next process reads it.
func reopened(t *testing.T, s *store.Store) *Book {
	b, err := Open(s)
	require.NoError(t, err)
	return b
}

// runStep runs one step. A store that cannot go on panics with Lost; that ends the simulated process.
func runStep(b *Book, step func(*Book) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(store.Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	return step(b)
}

// TestFlippedBitsAreNotCounted: a table file with a flipped bit is found, or the counts are what they were.
func TestFlippedBitsAreNotCounted(t *testing.T) {
	fs := vfs.NewMem()
	s, b := open(t, fs)
	lists := map[string]Verdict{}
	for i := range 300 {
		email := fmt.Sprintf("p%d@example.org", i)
		lists[email] = Verdict{noon, valid}
		add(t, b, "a", b.report(email, 1, outcome.Delivered))
	}
	require.NoError(t, match(b, lists))
	want := rows(t, b, "a")
	require.NoError(t, s.Checkpoint("copy"))
	require.NoError(t, s.Close())
	again, err := store.OpenAtRest(fs, "copy") // it writes what the log has into a table
	require.NoError(t, err)
	require.NoError(t, again.Close())
	names, err := fs.List("copy")
	require.NoError(t, err)
	found, r := 0, rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := "copy/" + name
		whole := readFile(t, fs, path)
		for range 40 {
			broken := bytes.Clone(whole)
			broken[r.IntN(len(broken))] ^= 1 << r.IntN(8)
			writeFile(t, fs, path, broken)
			got, err := countsIn(fs)
			if err != nil {
				found++
				continue
			}
			require.Equal(t, want, got)
		}
		writeFile(t, fs, path, whole)
	}
	require.Positive(t, found)
}

// countsIn reads the rows of a store that may be damaged.
func countsIn(fs vfs.FS) (rows []outcome.Row, err error) {
	s, err := store.OpenAtRest(fs, "copy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b, err := Open(s)
	if err != nil {
		return nil, err
	}
	sum, err := b.Summary("a")
	return sum.Rows, err
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(append([]byte(nil), b...))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// FuzzRecords: bytes that this program did not write are an error or a record that it would write.
func FuzzRecords(f *testing.F) {
	v := Verdict{noon, valid}
	f.Add(counted{outcome.Bounced, noon, v}.value())
	f.Add(waitingKey(Report{Hash{1}, noon, outcome.Bounced}, "a"))
	f.Add(countKey("a", valid))
	f.Add(countsValue(outcome.Counts{1, 2, 300, 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := readCounted(b); err == nil {
			require.Equal(t, b, c.value())
		}
		if r, account, err := readWaiting(b); err == nil {
			require.Equal(t, b[2:], waitingKey(r, account)[2:])
		}
		if account, bin, err := readCountKey(b); err == nil {
			require.Equal(t, b[2:], countKey(account, bin)[2:])
		}
		if c, err := readCounts(b); err == nil {
			again, err := readCounts(countsValue(c))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
	})
}
