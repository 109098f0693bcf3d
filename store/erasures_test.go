package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestErasuresAreBoundedAndDropTheAddress: at most MaxErasures requests are open, one for each address. A receipt that
// is done has no address and is deleted after 400 days; open ones stay. The audit log does not have the address.
func TestErasuresAreBoundedAndDropTheAddress(t *testing.T) {
	disk := vfs.NewMem()
	s, err := Open(disk, "state")
	require.NoError(t, err)
	now := time.Now()
	first, err := s.RequestErasure("ann@x.example", "root", now)
	require.NoError(t, err)
	require.NoError(t, s.Commit("", func(b *pebble.Batch) (err error) { // as many of others
		for i := range MaxErasures - 1 {
			err = errors.Join(err, b.Set(key(tableOpenErasure, fmt.Sprintf("hash %d", i)), []byte("id"), nil))
		}
		return err
	}))
	again, err := s.RequestErasure("ann@x.example", "root", now)
	require.NoError(t, err, "it waits already")
	require.Equal(t, first.ID, again.ID)
	_, err = s.RequestErasure("one@more.example", "root", now)
	require.ErrorIs(t, err, ErrErasuresFull)
	require.NoError(t, s.Close())

	s, err = Open(disk, "state")
	require.NoError(t, err)
	open, err := s.OpenErasures()
	require.NoError(t, err)
	require.Len(t, open, MaxErasures)
	e, err := s.Erasure(first.ID)
	require.NoError(t, err)
	require.Equal(t, "ann@x.example", e.Address)
	e.Jobs = map[string]int64{"j": 1}
	require.NoError(t, s.FinishErasure(t.Context(), &e))
	b, err := json.Marshal(e)
	require.NoError(t, err)
	require.NotContains(t, string(b), "x.example")
	_, err = s.RequestErasure("one@more.example", "root", now.Add(time.Minute))
	require.NoError(t, err)

	n, err := s.SweepErasures(now.Add(receiptTTL - time.Second))
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.SweepErasures(now.Add(2 * receiptTTL))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = s.Erasure(first.ID)
	require.ErrorIs(t, err, ErrNotFound)
	newest, err := s.Erasures("", 1)
	require.NoError(t, err)
	require.Equal(t, "one@more.example", newest[0].Address)
	events, err := s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, "an address", events[0].Target)
	require.NoError(t, s.Close())
}

// TestDoneErasureLeavesTheAddressInNoFile erases addresses in a store whose tables and logs are busy. Once a receipt is
// done, no file of the store has the address, and none of a copy made then: no log, whether it is used or kept for
// reuse, and no table.
func TestDoneErasureLeavesTheAddressInNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Open(vfs.Default, dir)
	require.NoError(t, err)
	for i := range 12 {
		address := fmt.Sprintf("gone%d@left.example", i)
		e, err := s.RequestErasure(address, "root", time.Now())
		require.NoError(t, err)
		request := Request{Account: "a", Endpoint: "single", Key: address}
		require.NoError(t, s.Commit("a", KeepAnswer(request, Answer{Status: 200, Body: []byte(strconv.Quote(address))},
			time.Now())))
		if i%3 > 0 { // the record is in a table, too
			require.NoError(t, s.db.Flush())
		}
		if i%4 == 3 { // the log is full, and a new one reuses an old one
			for n := range 5 {
				require.NoError(t, s.Commit("", func(b *pebble.Batch) error {
					return b.Set(key(tableSetting, "filler"), bytes.Repeat([]byte{byte(n)}, memtableBytes/4), nil)
				}))
			}
		}
		require.NoError(t, s.SaveErasure(&e))
		_, err = s.EraseAnswers(func(body []byte) bool { return bytes.Contains(body, []byte(address)) })
		require.NoError(t, err)
		require.NoError(t, s.FinishErasure(t.Context(), &e))
		require.False(t, e.Open())
		requireNowhere(t, dir, address)
	}
	again, err := s.RequestErasure("gone1@left.example", "root", time.Now())
	require.NoError(t, err)
	require.True(t, again.Open())
	require.NoError(t, s.FinishErasure(t.Context(), &again))
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, s.Checkpoint(backup))
	requireNowhere(t, backup, "left.example")
	require.NoError(t, s.Close())
	requireNowhere(t, dir, "left.example")
	s, err = Open(vfs.Default, dir)
	require.NoError(t, err)
	all, err := s.Erasures("", 100)
	require.NoError(t, err)
	require.Len(t, all, 13)
	require.NoError(t, s.Close())
}

// TestErasureLeavesOtherTablesInTheirFiles: what an erasure removes from the disk costs as much as the records of
// erasures and answers, and not as much as the jobs, ledgers and accounts that there are. So the files that these are
// in stay.
func TestErasureLeavesOtherTablesInTheirFiles(t *testing.T) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	for i := range 100 {
		j := &Job{ID: fmt.Sprint("job", i), Account: "a", State: JobExpired}
		require.NoError(t, s.AcceptJob(j))
	}
	require.NoError(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	before := tableFiles(t, s)
	e, err := s.RequestErasure("gone@left.example", "root", time.Now())
	require.NoError(t, err)
	require.NoError(t, s.FinishErasure(t.Context(), &e))
	after := tableFiles(t, s)
	for file, keys := range before {
		require.Contains(t, after, file, "with the keys %s", keys)
	}
	require.NoError(t, s.Close())
}

// tableFiles returns the table files of a store, with the first and the last key of each.
func tableFiles(t *testing.T, s *Store) map[string]string {
	t.Helper()
	levels, err := s.db.SSTables()
	require.NoError(t, err)
	files := map[string]string{}
	for _, level := range levels {
		for i := range level {
			files[level[i].FileNum.String()] = fmt.Sprintf("%q to %q", level[i].Smallest.UserKey,
				level[i].Largest.UserKey)
		}
	}
	return files
}

// requireNowhere requires that no file of a folder contains a text. If the store removes one meanwhile, which others
// have replaced, it reads all of them again.
func requireNowhere(t *testing.T, dir, text string) {
	t.Helper()
	for replaced := true; replaced; {
		replaced = false
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				replaced = true
				continue
			}
			require.NoError(t, err)
			require.False(t, bytes.Contains(b, []byte(text)), "%s has %s", f.Name(), text)
		}
	}
}
