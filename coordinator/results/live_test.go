package results

import (
	"bytes"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

// countedLog is a rows log in memory that counts the bytes which are read from it.
type countedLog struct {
	bytes.Buffer
	read int
}

func (l *countedLog) ReadAt(b []byte, at int64) (int, error) {
	n, err := bytes.NewReader(l.Bytes()).ReadAt(b, at)
	l.read += n
	return n, err
}

// oneName has the text of each name.
type oneName string

func (n oneName) TextOf(int, uint32) (string, error) { return string(n), nil }

// write adds answers of a provider to a log, for rows that are count steps of 7 from first, modulo all of the job.
func write(t *testing.T, w *jobfiles.RowsWriter, k jobfiles.Kind, r engine.Reason, provider string, first, count int) {
	v := engine.VerdictFor(r, "", 0, time.Unix(1_800_000_000, 0))
	rec := jobfiles.NewRecord(k, &v)
	rec.SetRefs(jobfiles.Refs{jobfiles.NameProvider: 1})
	for i := range count {
		require.NoError(t, w.CopyRecord(uint32((first+7*i)%liveRows), &rec, oneName(provider)))
	}
	_, err := w.Finish()
	require.NoError(t, err)
}

const liveRows = 60_000 // not a multiple of 7

// TestSearchOfARunningJobReadsItsLogOnce: the index is made in parts, finds each answer, and goes on where it stopped.
func TestSearchOfARunningJobReadsItsLogOnce(t *testing.T) {
	j := &store.Job{ID: "j", Rows: liveRows}
	var log countedLog
	w := jobfiles.NewRowsWriter(&log)
	write(t, w, jobfiles.Provisional, engine.ReasonGreylisted, "early", 0, 20_000) // three groups
	write(t, w, jobfiles.Final, engine.ReasonNone, "google", 7*10_000, 20_000)     // half of these rows, and others
	write(t, w, jobfiles.Final, engine.ReasonTimeout, "late", 7*29_000, 2_000)     // half of them have a final one
	l := newLiveIndex(j.Rows)
	parts := 1
	for {
		whole, err := l.catchUp(j, &log, time.Time{})
		require.NoError(t, err)
		if whole {
			break
		}
		parts++
		require.Less(t, parts, 100)
	}
	require.Equal(t, 7, parts, "one group at least in each part")
	check := func(step int, kind jobfiles.Kind, r engine.Reason, provider string) {
		rec, err := l.record(&log, uint32(7*step%liveRows))
		require.NoError(t, err)
		require.Equal(t, kind, rec.Kind(), "step %d", step)
		require.Equal(t, r, rec.Reason())
		name, err := jobfiles.AppendName(nil, &log, rec.Refs()[jobfiles.NameProvider])
		require.NoError(t, err)
		require.Equal(t, provider, string(name))
	}
	for step := range 10_000 {
		check(step, jobfiles.Provisional, engine.ReasonGreylisted, "early")
		check(step+10_000, jobfiles.Final, engine.ReasonNone, "google")
		check(step+20_000, jobfiles.Final, engine.ReasonNone, "google")
	}
	check(30_999, jobfiles.Final, engine.ReasonTimeout, "late")
	rec, err := l.record(&log, 7*31_000%liveRows)
	require.NoError(t, err)
	require.Equal(t, jobfiles.None, rec.Kind())

	write(t, w, jobfiles.Final, engine.ReasonTimeout, "later", 7*31_000, 1)
	log.read = 0
	whole, err := l.catchUp(j, &log, time.Time{})
	require.NoError(t, err)
	require.True(t, whole)
	require.Less(t, log.read, log.Len()/10, "only the last group that it knew, and the new one")
	check(31_000, jobfiles.Final, engine.ReasonTimeout, "later")

	log.Reset() // an erasure writes another log
	write(t, jobfiles.NewRowsWriter(&log), jobfiles.Final, engine.ReasonNone, "", 0, 1)
	whole, err = l.catchUp(j, &log, time.Time{})
	require.NoError(t, err)
	require.True(t, whole)
	check(0, jobfiles.Final, engine.ReasonNone, "")
	rec, err = l.record(&log, 7)
	require.NoError(t, err)
	require.Equal(t, jobfiles.None, rec.Kind(), "nothing of the former log is left")
}

// TestLiveIndexesAreBounded by the rows of their jobs.
func TestLiveIndexesAreBounded(t *testing.T) {
	var x liveIndexes
	search := func(id string, rows int64) { x.put(id, x.take(&store.Job{ID: id, Rows: rows})) }
	jobs := func() (ids []string) {
		for _, k := range x.kept {
			ids = append(ids, k.job)
		}
		return ids
	}
	for _, id := range []string{"a", "b", "a", "a", "c"} {
		search(id, maxLiveRows/2)
	}
	require.Equal(t, []string{"a", "c"}, jobs(), "the last used ones stay")
	search("large", maxLiveRows)
	require.Equal(t, []string{"large"}, jobs())
	x.drop("large")
	x.drop("large")
	require.Empty(t, jobs())
	for i := range 2 * maxLiveIndexes {
		search("kept", 1)
		search(strconv.Itoa(i), 1)
	}
	require.Len(t, jobs(), maxLiveIndexes, "also of small jobs")
	require.Contains(t, jobs(), "kept")
}

// TestFullestLiveIndexIsKept of two searches of a job that ran at one time.
func TestFullestLiveIndexIsKept(t *testing.T) {
	var x liveIndexes
	j := &store.Job{ID: "j", Rows: 1}
	full, empty := x.take(j), x.take(j)
	full.end.At = 100
	x.put(j.ID, full)
	x.put(j.ID, empty)
	require.Same(t, full, x.take(j))
	x.put(j.ID, empty)
	x.put(j.ID, full)
	require.Same(t, full, x.take(j))
}

// TestReadAheadReadsWhatTheFileHas in parts of any length.
func TestReadAheadReadsWhatTheFileHas(t *testing.T) {
	file := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	r := &readAhead{f: bytes.NewReader(file)}
	at := 0
	for n := 1; at < len(file); n = n*3 + 1 {
		b := make([]byte, n)
		got, err := r.ReadAt(b, int64(at))
		require.Equal(t, file[at:min(at+n, len(file))], b[:got])
		if got < n {
			require.ErrorIs(t, err, io.EOF)
		}
		at += got
	}
}
