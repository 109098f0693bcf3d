package service_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/lists"
	"probity/store"
)

// phase is how far a job had come when the server was killed.
type phase int

const (
	phaseNothing       phase = iota // no byte of the list is on disk
	phaseUpload                     // bytes of the list are, but no job exists
	phaseAccepted                   // the job exists, without chunks
	phaseChunkFlushed               // chunks exist, of which nothing is answered
	phaseLogSynced                  // the log has answers of rows
	phaseAssembled                  // all is answered, and there is no result file
	phaseResultWritten              // there is, but the job has not ended
	phaseSettled                    // the job has ended, and its receiver does not know
	phaseCallbackSent               // the receiver does, but not the job
	phaseDone
	phases
)

// wantedPhases are the phases that a kill must have hit; the others are optional.
var wantedPhases = []phase{phaseUpload, phaseAccepted, phaseChunkFlushed, phaseLogSynced, phaseResultWritten,
	phaseSettled, phaseCallbackSent}

func (g phase) String() string {
	return [phases]string{"nothing", "upload sync", "accept", "chunk sealed", "log synced", "assembly", "result file",
		"settle", "callback sent", "over"}[g]
}

// phaseMark shows from outside that a phase has begun: callbacks that were received, or the size of a file of the
// current job.
type phaseMark struct {
	goal  phase
	calls int32
	grown int64 // the file must be larger
}

// markOf is the mark of a phase in the next run of the server.
func (h *killLoop) markOf(g phase, calls int32) phaseMark {
	const answer = 36 // bytes in the log
	s := phaseMark{goal: g, calls: calls}
	switch g {
	case phaseAccepted:
		s.grown = -1
	case phaseChunkFlushed:
		s.grown = max(0, h.fileSize("chunks"))
	case phaseLogSynced:
		s.grown = max(0, h.fileSize("rows")) + h.random.Int64N(int64(h.rows)*answer/2)
	}
	return s
}

func (h *killLoop) phaseReached(s phaseMark) bool {
	switch s.goal {
	case phaseUpload:
		return h.fileSize("upload-*") > s.grown
	case phaseAccepted:
		return h.fileSize("rows") > s.grown
	case phaseChunkFlushed:
		return h.fileSize("chunks") > s.grown
	case phaseLogSynced:
		return h.fileSize("rows") > s.grown
	case phaseResultWritten:
		return h.hasResultFile()
	case phaseSettled:
		return h.hasResultFile() && h.fileSize("rows") < 0 // the log goes with the commit
	}
	return h.callbacksTaken.Load() > s.calls
}

// fileSize is the size of a file of the current job; -1 if there is none.
func (h *killLoop) fileSize(pattern string) int64 {
	for _, id := range h.activeFolders() {
		if n := sizeOf(filepath.Join(h.data, "jobs", id, pattern)); n >= 0 {
			return n
		}
	}
	return -1
}

// sizeOf is the size of the first file of a pattern; -1 if there is none.
func sizeOf(pattern string) int64 {
	found, err := filepath.Glob(pattern)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil {
			return info.Size()
		}
	}
	return -1
}

// hasResultFile reports whether the round's job has a result file.
func (h *killLoop) hasResultFile() bool {
	for _, id := range h.activeFolders() {
		if made, err := filepath.Glob(filepath.Join(h.data, "jobs", id, "result-*")); err == nil && len(made) > 0 {
			return true
		}
	}
	return false
}

// activeFolders are the folders of jobs that are neither finished nor broken.
func (h *killLoop) activeFolders() []string {
	return slices.DeleteFunc(jobsIn(h.data), func(id string) bool { return h.finishedFolders[id] })
}

// jobsIn names the folders of jobs.
func jobsIn(data string) (ids []string) {
	found, err := os.ReadDir(filepath.Join(data, "jobs"))
	if err != nil {
		return nil // not made yet
	}
	for _, f := range found {
		ids = append(ids, f.Name())
	}
	return ids
}

// inspectDeadFolder opens a copy of the killed server's folder: the next server must find the folder unchanged.
func (h *killLoop) inspectDeadFolder(t *testing.T, answered int32) (at []phase) {
	t.Helper()
	dir, err := os.MkdirTemp("", "killed-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }() // there are many kills
	require.NoError(t, os.CopyFS(dir, os.DirFS(h.data)))
	withStoppedStore(t, dir, func(s *store.Store) {
		require.NoError(t, s.CheckLedger(h.c.account))
		j := h.currentJob(t, s)
		h.requireBalance(t, s, j)
		at = h.phasesOf(t, s, dir, j, h.callbacksTaken.Load() > answered)
	})
	return at
}

// currentJob is the job of the round; nil while there is none. Other folders are of uploads that failed.
func (h *killLoop) currentJob(t *testing.T, s *store.Store) *store.Job {
	t.Helper()
	jobs, _, err := s.JobsOf(h.c.account, "", store.MaxPage, "")
	require.NoError(t, err)
	jobs = slices.DeleteFunc(jobs, func(j *store.Job) bool { return h.finishedFolders[j.ID] })
	require.LessOrEqual(t, len(jobs), 1, "one list, several jobs")
	if len(jobs) == 0 {
		return nil
	}
	return jobs[0]
}

// requireBalance counts the credits at the moment of the kill.
func (h *killLoop) requireBalance(t *testing.T, s *store.Store, j *store.Job) {
	t.Helper()
	want := store.Credits{Balance: killLoopCredits - h.charged}
	switch {
	case j == nil:
	case j.State.Finished():
		want.Balance -= j.Charged
	default:
		want.Balance -= j.Unique
		want.Reserved = j.Unique
	}
	now, err := s.Credits(h.c.account)
	require.NoError(t, err)
	require.Equal(t, want, now)
}

// phasesOf returns the phases that a kill has hit, the latest last.
func (h *killLoop) phasesOf(t *testing.T, s *store.Store, dir string, j *store.Job, called bool) []phase {
	t.Helper()
	if j == nil {
		return []phase{h.phaseOfUpload(dir)}
	}
	switch j.State {
	case store.JobQueued, store.JobRunning:
		return phasesOfWork(t, s, dir, j)
	case store.JobFinalizing:
		if made, err := filepath.Glob(filepath.Join(dir, "jobs", j.ID, "result-*")); err != nil || len(made) == 0 {
			return []phase{phaseAssembled}
		}
		return []phase{phaseResultWritten}
	}
	require.Equal(t, store.JobCompleted, j.State, j.Error)
	c, err := s.Callback(j.ID)
	require.NoError(t, err)
	switch {
	case c.State == store.CallbackDelivered:
		return []phase{phaseDone}
	case called:
		return []phase{phaseCallbackSent}
	}
	return []phase{phaseSettled}
}

// phaseOfUpload distinguishes an interrupted upload from one that had not begun. Its files belong to no job.
func (h *killLoop) phaseOfUpload(dir string) phase {
	at := phaseNothing
	for _, id := range h.activeFolders() {
		if sizeOf(filepath.Join(dir, "jobs", id, "upload-*")) > 0 {
			at = phaseUpload
		}
		h.finishedFolders[id] = true
	}
	return at
}

// phasesOfWork returns how far a running job had come: its log has answers, or there are chunks, or neither.
func phasesOfWork(t *testing.T, s *store.Store, dir string, j *store.Job) []phase {
	t.Helper()
	if j.Term > 0 && answeredInLog(t, s, dir, j.ID) > 0 {
		return []phase{phaseLogSynced}
	}
	if info, err := os.Stat(filepath.Join(dir, "jobs", j.ID, "chunks")); err == nil && info.Size() > 0 {
		return []phase{phaseChunkFlushed}
	}
	return []phase{phaseAccepted}
}

// answeredInLog counts the distinct addresses with an answer in the log.
func answeredInLog(t *testing.T, s *store.Store, dir, id string) int64 {
	t.Helper()
	domains, err := lists.Default()
	require.NoError(t, err)
	c := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: dir, Table: engine.DefaultTable(),
		Lists: domains})
	if _, err := os.Stat(filepath.Join(dir, "jobs", id, "rows")); err != nil {
		return 0 // killed before there was one
	}
	var known bytes.Buffer
	require.NoError(t, c.Results(t.Context(), id, results.Filter{Partial: true}, &known))
	rows, err := csv.NewReader(&known).ReadAll()
	require.NoError(t, err)
	email, status := slices.Index(rows[0], "email"), slices.Index(rows[0], "verify_status")
	distinct := map[string]bool{}
	for _, row := range rows[1:] {
		if row[status] != "" {
			distinct[foldedCell(row[email])] = true
		}
	}
	return int64(len(distinct))
}

// listJobs returns the account's jobs, newest first.
func (h *killLoop) listJobs(t *testing.T) []bulkJob {
	t.Helper()
	r, err := h.c.request(http.MethodGet, "/v1/verify/bulk?limit=100", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	var page struct{ Jobs []bulkJob }
	require.NoError(t, json.Unmarshal(r.body, &page))
	return page.Jobs
}
