package coordinator

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/store"
)

// historyEnv is how many records of expired jobs TestHistoryDelaysNothing makes; `make history` sets it. For a thousand
// of them there are a hundred accounts and eight jobs whose results are kept. Each of these has a fifth as many rows as
// there are records.
const historyEnv = "PROBITY_HISTORY_JOBS"

// historyBound is the time of a start, and of an erasure of an address that few jobs have, however long the history is.
const historyBound = 2 * time.Second

// TestHistoryDelaysNothing makes the records of jobs that have expired, kept jobs of other addresses, and accounts with
// a key each. A start, a pass of the retention and an erasure of an address that one job has are done within the bound:
// of the processor's time in the short form, as other tests run beside it.
func TestHistoryDelaysNothing(t *testing.T) {
	jobs, clock := 20_000, cpuTime
	if text := os.Getenv(historyEnv); text != "" {
		var err error
		jobs, err = strconv.Atoi(text)
		require.NoError(t, err)
		begin := time.Now()
		clock = func() time.Duration { return time.Since(begin) }
	}
	t.Chdir(t.TempDir())
	w := newTestEnv(t, vfs.Default)
	w.run()
	j := w.finish(t, w.accept(t, spelled).ID)
	other := w.finish(t, w.accept(t, testCSV(jobs/5, 1)).ID)
	require.NoError(t, w.close(t))
	makeHistory(t, j, jobs)
	keepCopies(t, other, jobs/125)

	began := clock()
	w = newTestEnv(t, vfs.Default)
	opened := clock() - began
	w.run()
	_, err := w.c.Job(j.ID)
	require.NoError(t, err)
	answered := clock() - began
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began = clock()
	require.NoError(t, w.c.sweeper.Start())
	swept := clock() - began
	nodes := &fakeCaches{cached: map[string]int{"p1": 1}}
	began = clock()
	e, err := requestErasure(ctx, t, w.eraser(nodes))
	erased := clock() - began
	require.NoError(t, err)
	requireDone(t, w, e)
	require.Equal(t, spelledErased, inputOf(w.results(t, j.ID, results.Filter{})))
	require.Len(t, w.store.Users(), jobs/10)
	require.NoError(t, w.close(t))
	t.Logf("%d expired jobs, %d kept ones of %d rows, %d accounts: opened after %s, first answer after %s, "+
		"retention %s, erasure %s", jobs, jobs/125, jobs/5, jobs/10, opened, answered, swept, erased)
	for what, took := range map[string]time.Duration{"start": answered, "retention": swept, "erasure": erased} {
		require.Less(t, took, historyBound, what)
	}
}

// makeHistory writes records like that of a finished job into the store, as expired ones, and accounts with a key each.
func makeHistory(t *testing.T, like *store.Job, jobs int) {
	s, err := store.Open(noSync{vfs.Default}, "data/state")
	require.NoError(t, err)
	expired := *like
	expired.State = store.JobExpired
	for i := range jobs {
		j := expired
		j.ID, j.Account = fmt.Sprintf("history-%d", i), fmt.Sprint("u", i%(jobs/10))
		j.CreatedAt = like.CreatedAt.Add(-time.Duration(i) * time.Second)
		j.FinishedAt = j.CreatedAt.Add(time.Minute)
		require.NoError(t, s.AcceptJob(&j))
	}
	u, _, err := s.AddUser(t.Context(), store.NewUser{Email: "first@x.example"}, "test", time.Now())
	require.NoError(t, err)
	_, k, err := s.CreateKey(u.ID, store.NewKey{Name: "first"}, "test", time.Now())
	require.NoError(t, err)
	// Others are copies with names of their own: to hash a password for each would take longest.
	user, key := "u"+u.ID, "k"+u.ID+"\x00"+k.ID
	require.NoError(t, s.Commit("", func(b *pebble.Batch) error {
		for _, original := range []string{user, key} {
			value, closer, err := b.Get([]byte(original))
			require.NoError(t, err)
			text := string(value)
			require.NoError(t, closer.Close())
			for i := range jobs/10 - 1 {
				names := strings.NewReplacer(u.ID, fmt.Sprintf("u_%024x", i), k.ID, fmt.Sprintf("k_%024x", i), "first@",
					fmt.Sprintf("u%d@", i),
					`"hash":"`, fmt.Sprintf(`"hash":"%064x","":"`, i))
				require.NoError(t, b.Set([]byte(names.Replace(original)), []byte(names.Replace(text)), nil))
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
}

// keepCopies keeps copies of a finished job, files and all.
func keepCopies(t *testing.T, j *store.Job, copies int) {
	s, err := store.Open(noSync{vfs.Default}, "data/state")
	require.NoError(t, err)
	files, err := os.ReadDir("data/jobs/" + j.ID)
	require.NoError(t, err)
	for i := range copies {
		c := *j
		c.ID = fmt.Sprint("kept-", i)
		require.NoError(t, s.AcceptJob(&c))
		require.NoError(t, os.Mkdir("data/jobs/"+c.ID, 0o700))
		for _, f := range files {
			require.NoError(t, os.Link("data/jobs/"+j.ID+"/"+f.Name(), "data/jobs/"+c.ID+"/"+f.Name()))
		}
	}
	require.NoError(t, s.Close())
}

// noSync is a disk whose syncs do nothing.
type noSync struct{ vfs.FS }

func (d noSync) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return noSyncFile{f}, err
}

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error                { return nil }
func (noSyncFile) SyncData() error            { return nil }
func (noSyncFile) SyncTo(int64) (bool, error) { return true, nil }
