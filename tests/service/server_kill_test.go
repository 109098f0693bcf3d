package service_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/store"
	"probity/tests/harness"
)

const (
	killLoopRows     = 1500 // of a list of the story
	killLoopMaxJobs  = 20   // jobs at most, until every phase was hit
	killLoopMaxTries = 4    // kills for one phase of one job at most
	killLoopCredits  = 1_000_000
	killLoopMaxDelay = 5 * time.Millisecond   // at most, after the sign of a phase
	killLoopPoll     = 100 * time.Microsecond // how often the files of a job are checked
)

// killLoop kills the server with SIGKILL, again and again, while its customer uploads one list after another. The
// moments are when a job's files show that a phase has begun, plus a random delay.
type killLoop struct {
	p              *serviceEnv
	data           string
	c              *customer
	rows           int
	list, truth    []byte
	uninterrupted  []byte // the result of a job that ran without a kill
	random         *rand.Rand
	receiver       *callbackReceiver
	callbacksTaken atomic.Int32                  // callbacks whose body was received
	heldServer     atomic.Pointer[serverProcess] // its callbacks are not answered while it runs

	killsByPhase    [phases]int
	finishedFolders map[string]bool // folders of finished jobs, and of failed uploads
	charged         int64
	rounds          int
	accepted        bool // the customer has got its 202
	job             string
}

// testKilledServer kills a server in every phase of a job, and requires that each job ends as if nothing had happened:
// rows, bytes, ledger and reserved credits exact.
func testKilledServer(t *testing.T, p *serviceEnv) {
	h := newKillLoop(t, p, t.TempDir(), killLoopRows)
	h.runJob(t, nil) // without kills: the expected result
	for h.rounds <= killLoopMaxJobs && len(h.missedPhases()) > 0 {
		h.runJob(t, h.missedPhases())
	}
	t.Logf("%d jobs, kills: %s", h.rounds, h.killSummary())
	require.Empty(t, h.missedPhases(), "phases that no kill has hit; repeat, or look at the moments")
	require.GreaterOrEqual(t, h.rounds, 2)
	h.requireNothingLeft(t)
}

// requireNothingLeft requires that the data folder of the stopped server has only files of its jobs, and an exact
// ledger.
func (h *killLoop) requireNothingLeft(t *testing.T) {
	t.Helper()
	scratch, err := os.ReadDir(filepath.Join(h.data, "scratch"))
	require.NoError(t, err)
	require.Empty(t, scratch, "copies of uploads that broke")
	withStoppedStore(t, h.data, func(s *store.Store) {
		requireLedger(t, s, h.c, killLoopCredits, h.charged, h.rounds)
		for _, id := range jobsIn(h.data) {
			requireNoOrphans(t, s, h.data, id)
		}
	})
}

// requireNoOrphans requires that the folder of a finished job has only the files that its record names.
func requireNoOrphans(t *testing.T, s *store.Store, data, id string) {
	t.Helper()
	j, err := s.Job(id)
	require.NoError(t, err, "the folder of no job")
	require.NotNil(t, j.Answers)
	files, err := os.ReadDir(filepath.Join(data, "jobs", id))
	require.NoError(t, err)
	for _, f := range files {
		require.Contains(t, []string{j.Upload, j.Answers.Name, j.Result}, f.Name(), "an orphan")
	}
}

func newKillLoop(t *testing.T, p *serviceEnv, data string, rows int) *killLoop {
	h := &killLoop{p: p.withoutRefusalBudget(t), data: data, rows: rows, random: rand.New(rand.NewPCG(killSeed(t), 1)),
		finishedFolders: map[string]bool{}}
	withStoppedStore(t, h.data, func(s *store.Store) {
		h.c = p.addCustomer(t, s, "patient@customer.example", killLoopCredits, unlimited)
	})
	h.list = singleOutcomeList(t, p.world, rows)
	var truth bytes.Buffer
	require.NoError(t, score.WriteTruth(&truth, p.world, bytes.NewReader(h.list)))
	h.truth = truth.Bytes()
	h.receiver = newCallbackReceiver(t, "127.0.2.3", func(http.ResponseWriter, int, event) {
		h.callbacksTaken.Add(1)
		if s := h.heldServer.Load(); s != nil {
			<-s.exited
		}
	})
	return h
}

// singleOutcomeList has only rows with one allowed outcome, which does not depend on the time of the probe. Receivers
// that refuse every client are left out too: it takes seconds to confirm their refusals.
func singleOutcomeList(t *testing.T, w *world.World, wanted int) []byte {
	var out bytes.Buffer
	keep := csv.NewWriter(&out)
	rows, column := 0, -1
	harness.EachRow(t, w, 3*wanted, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
		} else if said := w.Truth(cells[column]); len(said) > 1 || len(said) == 1 && said[0].Status == "UNKNOWN" {
			return true
		}
		require.NoError(t, keep.Write(cells))
		rows++
		return rows <= wanted
	})
	keep.Flush()
	return out.Bytes()
}

func (h *killLoop) missedPhases() (goals []phase) {
	for _, g := range wantedPhases {
		if h.killsByPhase[g] == 0 {
			goals = append(goals, g)
		}
	}
	return goals
}

func (h *killLoop) killSummary() (s string) {
	for g, n := range h.killsByPhase {
		s += fmt.Sprintf("%s %d; ", phase(g), n)
	}
	return s
}

// runJob takes one job from its upload to its callback, and kills the server in each of the phases, or tries to.
func (h *killLoop) runJob(t *testing.T, goals []phase) {
	h.rounds++
	h.accepted, h.job = false, ""
	at := phaseNothing
	for _, goal := range goals {
		for try := 0; try < killLoopMaxTries && at < goal; try++ {
			for _, at = range h.killAtPhase(t, goal) {
				h.killsByPhase[at]++
			}
		}
	}
	s := h.startServer(t)
	require.NoError(t, <-h.uploadList())
	h.requireExactJob(t)
	s.stop(t)
	h.finishedFolders[h.job] = true
}

// withoutRefusalBudget removes the budgets of refusals: after a crash what was leased of the hourly budget counts as
// used, and after a few crashes a receiver would wait for an hour.
func (p *serviceEnv) withoutRefusalBudget(t *testing.T) *serviceEnv {
	text, err := os.ReadFile(p.overrides)
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^refusals_per_hour = \d+$`).ReplaceAll(text, []byte("refusals_per_hour = 0"))
	other := *p
	other.overrides = filepath.Join(t.TempDir(), "providers.toml")
	require.NoError(t, os.WriteFile(other.overrides, text, 0o600))
	return &other
}

func (h *killLoop) startServer(t *testing.T) *serverProcess {
	t.Helper()
	s := startServer(t, h.p, h.data, "127.0.1.6")
	h.c.base = s.base
	return s
}

// uploadList uploads the list once: under the same Idempotency-Key until there is an answer.
func (h *killLoop) uploadList() <-chan error {
	sent := make(chan error, 1)
	if h.accepted {
		sent <- nil
		return sent
	}
	go func() {
		contentType, body := multipartOf("b", field("max_age", "0"), field("callback_url", h.receiver.url),
			fileOf(h.list))
		r, err := h.c.request(http.MethodPost, "/v1/verify/bulk", contentType, body, "Idempotency-Key",
			fmt.Sprintf("round-%d", h.rounds))
		if err == nil && r.status != http.StatusAccepted {
			err = fmt.Errorf("upload: %d %s", r.status, r.body)
		}
		h.accepted = err == nil
		sent <- err
	}()
	return sent
}

// killAtPhase runs the server and kills it when a phase seems to have begun. It returns the phases that were hit,
// according to the data folder.
func (h *killLoop) killAtPhase(t *testing.T, goal phase) []phase {
	before := h.callbacksTaken.Load()
	at := h.markOf(goal, before)
	s, began := h.startServer(t), time.Now()
	if goal == phaseCallbackSent {
		h.heldServer.Store(s)
		defer h.heldServer.Store(nil)
	}
	sent := h.uploadList()
	look := time.NewTicker(killLoopPoll)
	defer look.Stop()
	for !h.phaseReached(at) {
		select {
		case <-s.exited:
			require.Fail(t, "the server ended by itself", s.logText())
		case <-h.p.ctx.Done():
			require.Fail(t, "in vain: "+goal.String(), "%s\n%s", h.jobRecords(), s.logText())
		case <-look.C:
		}
		if goal != phaseCallbackSent && h.callbacksTaken.Load() > before {
			require.NoError(t, <-sent)
			s.stop(t)
			return []phase{phaseDone}
		}
	}
	if goal != phaseResultWritten { // which is short
		<-time.After(time.Duration(h.random.Int64N(int64(killLoopMaxDelay))))
	}
	s.kill()
	<-sent // even if it failed
	s.requireNoErrors(t)
	hit := h.inspectDeadFolder(t, before)
	t.Logf("job %d: aimed at %s, hit %v after %s", h.rounds, goal, hit, time.Since(began).Round(time.Millisecond))
	return hit
}

// jobRecords is the record of a job that has stopped.
func (h *killLoop) jobRecords() string {
	c := *h.c
	c.ctx = h.p.processCtx
	r, err := c.request(http.MethodGet, "/v1/verify/bulk?limit=1", "", nil)
	return fmt.Sprintf("%s %v", r.body, err)
}

// requireExactJob compares the API's record of the current job with the expected one.
func (h *killLoop) requireExactJob(t *testing.T) {
	t.Helper()
	jobs := h.listJobs(t)
	require.Len(t, jobs, h.rounds, "one job for each list")
	j := h.c.follow(t, jobs[0].ID)
	h.job = j.ID
	require.Equal(t, "completed", j.Status, j.Error)
	require.EqualValues(t, h.rows, j.TotalRows)

	result := h.c.results(t, j.ID, "")
	found, err := score.Compare(bytes.NewReader(h.truth), bytes.NewReader(result))
	require.NoError(t, err)
	require.Zero(t, found.WrongStatus+found.WrongReason+found.MissingRows+found.ExtraRows+found.OrderErrors+
		found.ChangedCells, "%+v", found)
	require.Equal(t, h.rows, found.Rows)
	if h.uninterrupted == nil {
		h.uninterrupted = result
	}
	requireSameRows(t, h.uninterrupted, result)

	stored := h.c.results(t, j.ID, "?compress=zstd")
	sum := sha256.Sum256(stored)
	require.EqualValues(t, len(stored), j.Bytes)
	require.Equal(t, hex.EncodeToString(sum[:]), j.ResultsSHA)

	charge := billable(t, bytes.NewReader(result))
	require.Equal(t, charge, j.Used)
	h.charged += charge
	h.c.requireCredits(t, killLoopCredits-h.charged, 0)
	h.requireCalled(t, j)
}

// requireCalled requires at least one event of the current job, and the same each time.
func (h *killLoop) requireCalled(t *testing.T, j bulkJob) {
	t.Helper()
	h.p.eventually(t, "the callback's attempt is logged",
		func() bool { return h.c.callback(t, j.ID).Status == "delivered" })
	for n := int(h.callbacksTaken.Load()); n > 0; n-- {
		e := h.receiver.next(t, h.p)
		require.Equal(t, j.ID, e.ID)
		require.EqualValues(t, h.rows, e.rows)
		require.Equal(t, j.Used, e.Job.Used)
		require.Equal(t, j.ResultsSHA, e.Job.ResultsSHA)
	}
	h.callbacksTaken.Store(0)
}
