package main

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

	"probity/bench/sim"
	"probity/store"
)

const (
	huntRows    = 1500 // of a list of the story
	huntRounds  = 20   // jobs at most, until every phase was hit
	huntTries   = 4    // kills for one phase of one job at most
	huntGranted = 1_000_000
	huntLate    = 5 * time.Millisecond   // at most, after the sign of a phase
	huntLook    = 100 * time.Microsecond // how often the files of a job are looked at
)

// hunt kills the server with SIGKILL, again and again, while its customer has one list after another verified. The moments are
// those at which a job's files show that a phase has come, and a random while later.
type hunt struct {
	p           *play
	data        string
	c           *customer
	rows        int
	list, truth []byte
	undisturbed []byte // the result of a job that nobody disturbed
	random      *rand.Rand
	receiver    *receiver
	answered    atomic.Int32            // callbacks of which the body was taken
	hold        atomic.Pointer[serving] // its callbacks are not answered while it lives

	hits     [phases]int
	past     map[string]bool // folders of jobs that are over, and of uploads that broke
	spent    int64
	rounds   int
	accepted bool // the customer has got its 202
	job      string
}

// killedStory kills a server in every phase of a job, and wants each job to end as if nothing had happened: rows, bytes, ledger
// and reserved credits exact.
func killedStory(t *testing.T, p *play) {
	h := newHunt(t, p, huntRows)
	h.aim(t, nil) // undisturbed: what the others must come to
	for h.rounds <= huntRounds && len(h.missed()) > 0 {
		h.aim(t, h.missed())
	}
	t.Logf("%d jobs, kills: %s", h.rounds, h.tally())
	require.Empty(t, h.missed(), "phases that no kill has hit; repeat, or look at the moments")
	require.GreaterOrEqual(t, h.rounds, 2)
	h.requireRest(t)
}

// requireRest wants the folder at rest to have what belongs to its jobs and nothing else, and an exact ledger.
func (h *hunt) requireRest(t *testing.T) {
	t.Helper()
	scratch, err := os.ReadDir(filepath.Join(h.data, "scratch"))
	require.NoError(t, err)
	require.Empty(t, scratch, "copies of uploads that broke")
	atRest(t, h.data, func(s *store.Store) {
		requireLedger(t, s, h.c, huntGranted, h.spent, h.rounds)
		for _, id := range jobsIn(h.data) {
			requireNoOrphans(t, s, h.data, id)
		}
	})
}

// requireNoOrphans wants the folder of a finished job to have the files that its record names, and no others.
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

func newHunt(t *testing.T, p *play, rows int) *hunt {
	h := &hunt{p: p.withoutRefusals(t), data: t.TempDir(), rows: rows, random: rand.New(rand.NewPCG(killSeed(t), 1)), past: map[string]bool{}}
	atRest(t, h.data, func(s *store.Store) { h.c = p.hire(t, s, "patient@customer.example", huntGranted, wide) })
	h.list = certainList(t, p.seen, rows)
	var truth bytes.Buffer
	require.NoError(t, sim.WriteTruth(&truth, p.seen, bytes.NewReader(h.list)))
	h.truth = truth.Bytes()
	h.receiver = newReceiver(t, "127.0.2.3", func(http.ResponseWriter, int, event) {
		h.answered.Add(1)
		if s := h.hold.Load(); s != nil {
			<-s.ended
		}
	})
	return h
}

// certainList has only rows of which the truth allows one outcome: whenever they are asked, it is the same. Receivers that
// turn everybody away are left out too: it takes seconds to believe them.
func certainList(t *testing.T, w *sim.World, wanted int) []byte {
	var out bytes.Buffer
	keep := csv.NewWriter(&out)
	rows, column := 0, -1
	eachRow(t, w, 3*wanted, func(cells []string) bool {
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

func (h *hunt) missed() (goals []phase) {
	for _, g := range wantedPhases {
		if h.hits[g] == 0 {
			goals = append(goals, g)
		}
	}
	return goals
}

func (h *hunt) tally() (s string) {
	for g, n := range h.hits {
		s += fmt.Sprintf("%s %d; ", phase(g), n)
	}
	return s
}

// aim takes one job from its upload to its callback, and kills the server in each of the phases, or tries to.
func (h *hunt) aim(t *testing.T, goals []phase) {
	h.rounds++
	h.accepted, h.job = false, ""
	at := phaseNothing
	for _, goal := range goals {
		for try := 0; try < huntTries && at < goal; try++ {
			for _, at = range h.live(t, goal) {
				h.hits[at]++
			}
		}
	}
	s := h.start(t)
	require.NoError(t, <-h.send(s))
	h.requireExact(t)
	s.stop(t)
	h.past[h.job] = true
}

// withoutRefusals has servers that budget no refusals: a crash counts what it had leased of the hour's budget as used, and some
// eight of them would keep a receiver waiting for that hour.
func (p *play) withoutRefusals(t *testing.T) *play {
	text, err := os.ReadFile(p.overrides)
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^refusals_per_hour = \d+$`).ReplaceAll(text, []byte("refusals_per_hour = 0"))
	other := *p
	other.overrides = filepath.Join(t.TempDir(), "providers.toml")
	require.NoError(t, os.WriteFile(other.overrides, text, 0o600))
	return &other
}

func (h *hunt) start(t *testing.T) *serving {
	t.Helper()
	s := startServing(t, h.p, h.data, "127.0.1.6")
	h.c.base = s.base
	return s
}

// send uploads the list as a client does that wants it verified once: under the same key until it gets an answer.
func (h *hunt) send(s *serving) <-chan error {
	sent := make(chan error, 1)
	if h.accepted {
		sent <- nil
		return sent
	}
	go func() {
		contentType, body := multipartOf("b", field("max_age", "0"), field("callback_url", h.receiver.url), fileOf(h.list))
		r, err := h.c.ask(http.MethodPost, "/v1/verify/bulk", contentType, body, "Idempotency-Key", fmt.Sprintf("round-%d", h.rounds))
		if err == nil && r.status != http.StatusAccepted {
			err = fmt.Errorf("upload: %d %s", r.status, r.body)
		}
		h.accepted = err == nil
		sent <- err
	}()
	return sent
}

// live is one life of the server: it is killed when a phase seems to have come. It gives what the kill has hit, as the
// dead server's folder tells.
func (h *hunt) live(t *testing.T, goal phase) []phase {
	before := h.answered.Load()
	at := h.goal(goal, before)
	s, began := h.start(t), time.Now()
	if goal == phaseCalled {
		h.hold.Store(s)
		defer h.hold.Store(nil)
	}
	sent := h.send(s)
	look := time.NewTicker(huntLook)
	defer look.Stop()
	for !h.reached(at) {
		select {
		case <-s.ended:
			require.Fail(t, "the server ended by itself", s.said())
		case <-h.p.ctx.Done():
			require.Fail(t, "in vain: "+goal.String(), "%s\n%s", h.stuck(), s.said())
		case <-look.C:
		}
		if goal != phaseCalled && h.answered.Load() > before {
			require.NoError(t, <-sent)
			s.stop(t)
			return []phase{phaseOver}
		}
	}
	if goal != phaseMade { // of which there is little
		<-time.After(time.Duration(h.random.Int64N(int64(huntLate))))
	}
	s.kill()
	<-sent // whatever became of it
	s.requireCalm(t)
	hit := h.examine(t, before)
	t.Logf("job %d: aimed at %s, hit %v after %s", h.rounds, goal, hit, time.Since(began).Round(time.Millisecond))
	return hit
}

// stuck is the record of a job that does not go on.
func (h *hunt) stuck() string {
	c := *h.c
	c.ctx = h.p.lives
	r, err := c.ask(http.MethodGet, "/v1/verify/bulk?limit=1", "", nil)
	return fmt.Sprintf("%s %v", r.body, err)
}

// requireExact holds what the interface says of the round's job against what it must be.
func (h *hunt) requireExact(t *testing.T) {
	t.Helper()
	jobs := h.listed(t)
	require.Len(t, jobs, h.rounds, "one job for each list")
	j := h.c.follow(t, jobs[0].ID)
	h.job = j.ID
	require.Equal(t, "completed", j.Status, j.Error)
	require.EqualValues(t, h.rows, j.TotalRows)

	result := h.c.results(t, j.ID, "")
	score, err := sim.Score(bytes.NewReader(h.truth), bytes.NewReader(result))
	require.NoError(t, err)
	require.Zero(t, score.WrongStatus+score.WrongReason+score.MissingRows+score.ExtraRows+score.OrderErrors+score.ChangedCells, "%+v", score)
	require.Equal(t, h.rows, score.Rows)
	if h.undisturbed == nil {
		h.undisturbed = result
	}
	requireSameRows(t, h.undisturbed, result)

	stored := h.c.results(t, j.ID, "?compress=zstd")
	sum := sha256.Sum256(stored)
	require.EqualValues(t, len(stored), j.Bytes)
	require.Equal(t, hex.EncodeToString(sum[:]), j.ResultsSHA)

	charge := billable(t, bytes.NewReader(result))
	require.Equal(t, charge, j.Used)
	h.spent += charge
	h.c.requireCredits(t, huntGranted-h.spent, 0)
	h.requireCalled(t, j)
}

// requireCalled takes the events of the round's job: the same each time, at least once.
func (h *hunt) requireCalled(t *testing.T, j bulkJob) {
	t.Helper()
	h.p.eventually(t, "the callback's attempt is logged", func() bool { return h.c.callback(t, j.ID).Status == "delivered" })
	for n := int(h.answered.Load()); n > 0; n-- {
		e := h.receiver.next(t, h.p)
		require.Equal(t, j.ID, e.ID)
		require.EqualValues(t, h.rows, e.rows)
		require.Equal(t, j.Used, e.Job.Used)
		require.Equal(t, j.ResultsSHA, e.Job.ResultsSHA)
	}
	h.answered.Store(0)
}
