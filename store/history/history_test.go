package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store/diskroom"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, disk vfs.FS) *History {
	h, err := Open(Config{FS: disk, Dir: "history"})
	require.NoError(t, err)
	return h
}

// single adds a single call about an address, at a time, with the request id rN.
func single(h *History, account string, n int, email string, at time.Time) {
	id := fmt.Sprintf("r%d", n)
	h.Add(account, &Request{At: at, ID: id, Method: "POST", Route: "/v1/verify/single", Status: 200,
		Took: 7 * time.Millisecond, Key: "k1"},
		Verification{At: at, Request: id, Email: email, Key: "k1", Credits: 1, Proof: true, Node: "p1",
			Table: [8]byte{7}, Verdict: verdict()})
}

func verdict() engine.Verdict {
	v := engine.Verdict{Status: engine.Valid, Score: 98, SMTPValid: true, Rule: "generic/250",
		VerifiedAt: noon.Add(-time.Hour)}
	v.Details = engine.Details{Host: "mx1.example.com", Code: 250, Stage: engine.StageRcpt, Attempts: 1, Message: "OK",
		Source: "192.0.2.1"}
	return v
}

func all[T any](*T) bool { return true }

// emails are those of a page of an account's verifications, the newest first.
func emails(t testing.TB, h *History, account string, q Query) (found []string, next uint64) {
	rows, next, err := h.Verifications(account, q, all)
	require.NoError(t, err)
	for _, v := range rows {
		found = append(found, v.Email)
	}
	return found, next
}

func TestRowsAreReadBackNewestFirstAndByPage(t *testing.T) {
	disk := vfs.NewMem()
	h := open(t, disk)
	const n = 3*blockRows + 5
	for i := range n {
		single(h, "a", i, fmt.Sprintf("u%d@example.com", i), noon.Add(time.Duration(i)*time.Second))
	}
	single(h, "b", n, "other@example.com", noon)
	rows, next, err := h.Verifications("a", Query{Limit: 1}, all)
	require.NoError(t, err)
	want := Verification{At: noon.Add((n - 1) * time.Second), Request: fmt.Sprintf("r%d", n-1),
		Email: fmt.Sprintf("u%d@example.com", n-1), Key: "k1",
		Credits: 1, Proof: true, Node: "p1", Table: [8]byte{7}, Verdict: verdict()}
	require.Equal(t, []Verification{want}, rows)
	require.EqualValues(t, n, next)

	require.NoError(t, h.Close())
	h = open(t, disk) // it survives a restart
	defer h.Close()
	var walked []string
	for before := uint64(0); ; {
		page, next := emails(t, h, "a", Query{Before: before, Limit: 50})
		walked = append(walked, page...)
		if next == 0 {
			break
		}
		before = next
	}
	require.Len(t, walked, n)
	for i, email := range walked {
		require.Equal(t, fmt.Sprintf("u%d@example.com", n-1-i), email)
	}
	found, _ := emails(t, h, "a", Query{Limit: n, From: noon.Add(3 * time.Second), To: noon.Add(6 * time.Second)})
	require.Equal(t, []string{"u5@example.com", "u4@example.com", "u3@example.com"}, found)

	requests, next, err := h.Requests("b", Query{Limit: 9}, all)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Equal(t, []Request{{At: noon, ID: fmt.Sprintf("r%d", n), Method: "POST", Route: "/v1/verify/single",
		Status: 200, Took: 7 * time.Millisecond, Key: "k1"}}, requests)
	proof, err := h.Single("a", "r3")
	require.NoError(t, err)
	require.Equal(t, "u3@example.com", proof.Email)
	_, err = h.Single("b", "r3")
	require.ErrorIs(t, err, ErrNotFound, "another account's")
}

// TestANilHistoryHasNothing: commands and servers without a history need no case of their own.
func TestANilHistoryHasNothing(t *testing.T) {
	var h *History
	single(h, "a", 1, "ann@example.com", noon)
	found, next := emails(t, h, "a", Query{Limit: 1})
	require.Empty(t, found)
	require.Zero(t, next)
	_, err := h.Single("a", "r1")
	require.ErrorIs(t, err, ErrNotFound)
	days, err := h.Days("a", noon)
	require.NoError(t, err)
	require.Empty(t, days)
	n, err := h.Erase(t.Context(), "ann@example.com")
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, h.Close())
}

func TestAnAccountHasABoundedNumberOfRows(t *testing.T) {
	const rows = 1600
	h, err := Open(Config{FS: vfs.NewMem(), Dir: "history", Rows: rows})
	require.NoError(t, err)
	defer h.Close()
	for i := range 5 * rows {
		single(h, "a", i, fmt.Sprintf("u%d@example.com", i), noon)
		if i%100 == 0 {
			h.flush()
		}
	}
	single(h, "b", 1, "kept@example.com", noon)
	found, _ := emails(t, h, "a", Query{Limit: 5 * rows})
	require.GreaterOrEqual(t, len(found), rows-blockRows)
	require.LessOrEqual(t, len(found), rows+rows/16)
	require.Equal(t, fmt.Sprintf("u%d@example.com", 5*rows-1), found[0])
	found, _ = emails(t, h, "b", Query{Limit: 9})
	require.Equal(t, []string{"kept@example.com"}, found)
}

// TestAScanIsBounded: a page for which too few rows are wanted says where to go on.
func TestAScanIsBounded(t *testing.T) {
	h := open(t, vfs.NewMem())
	defer h.Close()
	for i := range maxScan + 10 {
		h.Add("a", &Request{At: noon, ID: fmt.Sprint(i)})
	}
	scanned := 0
	rows, next, err := h.Requests("a", Query{Limit: 1}, func(*Request) bool { scanned++; return false })
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Equal(t, maxScan, scanned)
	rows, next, err = h.Requests("a", Query{Limit: 20, Before: next}, all)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Len(t, rows, 10)
}

func TestOldRowsAreSwept(t *testing.T) {
	h := open(t, vfs.NewMem())
	defer h.Close()
	old := noon.Add(-MaxAge)
	for i := range 2 * blockRows {
		single(h, "a", i, "old@example.com", old.Add(-time.Hour))
	}
	h.flush()
	single(h, "a", 1000, "new@example.com", old.Add(time.Hour))
	single(h, "b", 1001, "old@example.com", old.Add(-MaxDays*24*time.Hour))
	h.flush()
	require.NoError(t, h.Sweep(noon))
	require.NoError(t, h.Sweep(noon), "a second time")
	found, _ := emails(t, h, "a", Query{Limit: 9})
	require.Equal(t, []string{"new@example.com"}, found)
	found, _ = emails(t, h, "b", Query{Limit: 9})
	require.Empty(t, found)
	days, err := h.Days("b", time.Time{})
	require.NoError(t, err)
	require.Empty(t, days)
	days, err = h.Days("a", time.Time{})
	require.NoError(t, err)
	require.Len(t, days, 1, "days are kept longer than rows")
}

func TestDaysCountRequestsAndVerdicts(t *testing.T) {
	disk := vfs.NewMem()
	h := open(t, disk)
	single(h, "a", 1, "ann@example.com", noon)
	require.NoError(t, h.Close())
	h = open(t, disk)
	defer h.Close()
	single(h, "a", 2, "ann@example.com", noon)
	simulated := Verification{At: noon, Test: true, Verdict: verdict()}
	h.Add("a", &Request{At: noon.Add(24 * time.Hour)}, simulated)
	days, err := h.Days("a", noon)
	require.NoError(t, err)
	require.Equal(t, map[string]Day{
		"2026-03-04": {Requests: 2, Verified: verdictCounts{engine.Valid: 2}},
		"2026-03-05": {Requests: 1},
	}, days)
	days, err = h.Days("a", noon.Add(24*time.Hour))
	require.NoError(t, err)
	require.Len(t, days, 1)
}

// TestAnErasedAddressIsGone: from the rows of all accounts in each of its spellings, and from the disk.
func TestAnErasedAddressIsGone(t *testing.T) {
	disk := vfs.NewMem()
	h := open(t, disk)
	single(h, "a", 1, "first@example.com", noon)
	single(h, "a", 2, "Zaphod.Marker@Gmail.com", noon)
	single(h, "b", 3, " zaphodmarker+x@gmail.com", noon)
	h.flush()
	single(h, "b", 4, "zaphod.marker@example.com", noon)
	address, err := engine.ParseTrimmed("zaphodmarker@gmail.com")
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	h.flush()
	n, err := h.eraseRows(t.Context(), address.Folded())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Error(t, h.removeOldValues(cancelled), "it is interrupted, and tried again")
	n, err = h.Erase(t.Context(), address.Folded())
	require.NoError(t, err)
	require.Zero(t, n)
	found, _ := emails(t, h, "a", Query{Limit: 9})
	require.Equal(t, []string{"first@example.com"}, found)
	found, _ = emails(t, h, "b", Query{Limit: 9})
	require.Equal(t, []string{"zaphod.marker@example.com"}, found)
	_, err = h.Single("a", "r2")
	require.ErrorIs(t, err, ErrNotFound)
	requests, _, err := h.Requests("a", Query{Limit: 9}, all)
	require.NoError(t, err)
	require.Len(t, requests, 2, "that there was a request stays")
	names, err := disk.List("history")
	require.NoError(t, err)
	for _, name := range names {
		require.NotContains(t, string(readFile(t, disk, name)), "Zaphod", "in %s", name)
	}
	require.NoError(t, h.Close())
}

// TestAddNeverWaits: what finds no room in memory is dropped and counted.
func TestAddNeverWaits(t *testing.T) {
	h := open(t, vfs.NewMem())
	defer h.Close()
	h.writeMu.Lock() // a write that takes long
	row := Verification{At: noon, Email: strings.Repeat("x", 1000)}
	const n = 2 * maxPending / 1000
	for range n {
		h.Add("a", &Request{At: noon}, row)
	}
	require.LessOrEqual(t, h.pending.bytes, maxPending+2000)
	dropped := testutil.ToFloat64(h.dropped)
	require.Greater(t, dropped, 0.0)
	h.writeMu.Unlock()
	h.flush()
	kept := 0
	_, err := h.scan(verifications, "a", Query{}, func(uint64, []byte) (bool, error) { kept++; return true, nil })
	require.NoError(t, err)
	require.EqualValues(t, 2*n, int(dropped)+2*kept)
}

// TestAFullDiskCostsHistoryOnly: calls go on and the history is read while the disk is full; what memory could hold is
// there afterwards.
func TestAFullDiskCostsHistoryOnly(t *testing.T) { synctest.Test(t, fillUnderHistory) }

func fillUnderHistory(t *testing.T) {
	disk := vfs.NewMem()
	var full atomic.Bool
	failing := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpRename, errorfs.OpReuseForWrite:
			if full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	require.NoError(t, disk.MkdirAll("data", 0o700))
	room := diskroom.New(failing, "data", nil)
	room.MakeBallast()
	h, err := Open(Config{FS: room.Cache(), Dir: "data/history"})
	require.NoError(t, err)
	single(h, "a", 1, "before@example.com", noon)
	h.flush()
	full.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()
	for i := range 6 * maxPending / 1000 {
		if i%1000 == 0 {
			time.Sleep(time.Minute)
		}
		single(h, "a", 3+i, strings.Repeat("x", 900)+"@example.com", noon)
	}
	require.Greater(t, testutil.ToFloat64(h.dropped), 0.0)
	_, err = h.Erase(t.Context(), "before@example.com")
	require.ErrorIs(t, err, syscall.ENOSPC, "an erasure must know")
	found, _ := emails(t, h, "a", Query{Limit: 1 << 20})
	require.Equal(t, "before@example.com", found[len(found)-1])

	full.Store(false)
	go room.Run(t.Context())
	time.Sleep(time.Minute)
	single(h, "a", 9999999, "after@example.com", noon)
	found, _ = emails(t, h, "a", Query{Limit: 1 << 20})
	require.Greater(t, len(found), 1000)
	require.Equal(t, "before@example.com", found[len(found)-1])
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, h.Close())
}

func readFile(t *testing.T, disk vfs.FS, name string) []byte {
	f, err := disk.Open(path.Join("history", name))
	require.NoError(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return b
}

// TestAFlippedBitCostsHistoryOnly flips bits in each file: the history opens, or is begun anew and says so, and is then
// written and read.
func TestAFlippedBitCostsHistoryOnly(t *testing.T) {
	whole := vfs.NewCrashableMem()
	h := open(t, whole)
	for i := range 5000 {
		single(h, "a", i, fmt.Sprintf("u%d@example.com", i), noon)
	}
	h.flush()
	require.NoError(t, h.db.Flush())
	single(h, "a", 5000, "late@example.com", noon)
	h.flush()
	require.NoError(t, h.Close())
	names, err := whole.List("history")
	require.NoError(t, err)
	begunAnew := 0
	for _, name := range names {
		if strings.HasPrefix(name, "LOCK") || strings.HasPrefix(name, "marker") {
			continue // empty
		}
		for part := range 4 {
			t.Run(fmt.Sprintf("%s part %d", name, part), func(t *testing.T) {
				disk := whole.CrashClone(vfs.CrashCloneCfg{})
				b := readFile(t, disk, name)
				if len(b) > 0 {
					b[part*(len(b)-1)/3] ^= 4
				}
				f, err := disk.Create(path.Join("history", name), vfs.WriteCategoryUnspecified)
				require.NoError(t, err)
				_, err = f.Write(b)
				require.NoError(t, err)
				require.NoError(t, f.Close())
				var log bytes.Buffer
				h, err := Open(Config{FS: disk, Dir: "history", Log: slog.New(slog.NewTextHandler(&log, nil))})
				require.NoError(t, err)
				_, _, err = h.Verifications("a", Query{Limit: 10000}, all)
				if err != nil {
					<-h.damage
					require.NoError(t, h.renew())
				}
				single(h, "a", 7, "new@example.com", noon)
				found, _ := emails(t, h, "a", Query{Limit: 1})
				if anew := testutil.ToFloat64(h.damaged) > 0; anew {
					begunAnew++
					require.Contains(t, log.String(), "was damaged: it was deleted")
					require.Equal(t, []string{"new@example.com"}, found)
				}
				require.NoError(t, h.Close())
			})
		}
	}
	require.Greater(t, begunAnew, 3)
}

func FuzzReadRequest(f *testing.F) {
	f.Add(appendRequest(nil, &Request{At: noon, ID: "r1", Method: "GET", Route: "/v1/credits", Status: 200,
		Took: time.Second, Key: "k", Detail: "d"}))
	overflow := binary.BigEndian.AppendUint64(nil, uint64(noon.UnixMilli()))
	overflow = append(overflow, 0, 0, 200) // no ID, status 200
	f.Add(append(binary.AppendVarint(overflow, 1<<50), 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRequest(b)
		if err != nil {
			return
		}
		again, err := readRequest(appendRequest(nil, &r))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func FuzzReadVerification(f *testing.F) {
	f.Add(appendVerification(nil, &Verification{At: noon, Request: "r1", Email: "ann@example.com", Key: "k", Credits: 1,
		Proof: true, Node: "p1", Verdict: verdict()}))
	f.Add(appendVerification(nil, &Verification{At: noon, Test: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := readVerification(b)
		if err != nil {
			return
		}
		again, err := readVerification(appendVerification(nil, &v))
		require.NoError(t, err)
		require.Equal(t, v, again)
	})
}

func FuzzSplitBlock(f *testing.F) {
	b := newBlock(nil)
	b.add(appendRequest(nil, &Request{At: noon}))
	b.add(nil)
	f.Add(b.seal())
	f.Fuzz(func(t *testing.T, value []byte) {
		again := newBlock(nil)
		for _, row := range splitBlock(value) {
			again.add(row)
		}
		require.Equal(t, splitBlock(value) == nil, again.count == 0)
		_, err := readDay(value)
		_ = err // any bytes may come
	})
}

func BenchmarkAdd(b *testing.B) {
	h := open(b, vfs.NewMem())
	defer h.Close()
	b.ReportAllocs()
	for i := range b.N {
		single(h, "a", 1, "ann@example.com", noon)
		if i%4000 == 0 {
			h.flush()
		}
	}
}
