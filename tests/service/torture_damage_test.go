package service_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
	"probity/tests/harness"
)

// Errors of a damaged job: in its record if it cannot be finished, and in the answer to a request for its results.
const (
	damagedJobMessage     = "a file of the job is damaged; upload the list again"
	refusedResultsMessage = "A file of this job is damaged on the server's disk, so no results are given"
)

// damageJobFile kills a process and damages a file of one of its jobs before the restart.
func (p *testbed) damageJobFile(at *supervisor, f fault) (said string, did bool) {
	damaged := make(chan error, 1)
	if !at.killThen(func() {
		var err error
		said, err = damageRandomFile(p.data, f)
		damaged <- err
	}) {
		return "", false
	}
	if err := <-damaged; err != nil {
		p.t.Error(err)
	}
	return said, said != ""
}

// damageRandomFile flips a bit of a random file in the folder of a random job, or removes it. The description is empty
// if there was no file.
func damageRandomFile(data string, f fault) (did string, err error) {
	r := rand.New(rand.NewPCG(f.random, 1))
	jobs := jobsIn(data)
	if len(jobs) == 0 {
		return "", nil
	}
	dir := filepath.Join(data, "jobs", jobs[r.IntN(len(jobs))])
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		return "", err
	}
	path := filepath.Join(dir, files[r.IntN(len(files))].Name())
	name, _ := filepath.Rel(data, path)
	if f.kind == faultFileLost {
		return name, os.Remove(path)
	}
	at, err := flipBit(path, r)
	if at < 0 {
		return "", err
	}
	return fmt.Sprintf("%s, byte %d", name, at), err
}

// flipBit flips a bit of a file and returns the offset of its byte; -1 for an empty file.
func flipBit(path string, r *rand.Rand) (at int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return -1, err
	}
	at = r.Int64N(info.Size())
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return at, err
	}
	b[0] ^= 1 << r.IntN(8)
	_, err = f.WriteAt(b[:], at)
	return at, err
}

// results downloads the results of a job that is finished, in both forms, and records them. One or both may be refused
// if the job reports that it is damaged.
func (s *retryingCustomer) results(ctx context.Context, t *testing.T, id string) (csv []byte, given bool) {
	t.Helper()
	for _, form := range []string{"jsonl", "csv"} {
		path := "/v1/verify/bulk/" + id + "/results?format=" + form
		csv, given = s.download(ctx, t, id, path)
		if given {
			s.resultHashes[path] = sha256.Sum256(csv)
		}
	}
	return csv, given
}

// download returns the results at a path, or reports that they are refused because the job is damaged.
func (s *retryingCustomer) download(ctx context.Context, t *testing.T, id, path string) (body []byte, given bool) {
	t.Helper()
	r, err := s.retryUntil(ctx, path, func() (reply, error) { return s.tryOnce(ctx, http.MethodGet, path, "", nil) },
		func(r reply) bool {
			return r.status == http.StatusOK || r.status == http.StatusInternalServerError &&
				strings.Contains(string(r.body), refusedResultsMessage)
		})
	require.NoError(t, err)
	if r.status == http.StatusOK {
		return r.body, true
	}
	require.NotEmpty(t, s.jobRecord(ctx, t, id, "").Damage, "results are refused, and the job says nothing")
	return nil, false
}

// recheckResults downloads all results again: they are the same, or refused.
func (s *retryingCustomer) recheckResults(ctx context.Context, t *testing.T) {
	t.Helper()
	refused := 0
	for path, was := range s.resultHashes {
		id := strings.Split(path, "/")[4]
		body, given := s.download(ctx, t, id, path)
		if !given {
			refused++
			continue
		}
		require.Equal(t, was, sha256.Sum256(body), path)
	}
	t.Logf("%d results were given again, %d refused", len(s.resultHashes)-refused, refused)
}

// restore makes backups of a server under load, and continues with the restored data.
func (k tortureRun) restore(t *testing.T, lasts time.Duration) {
	lives, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(lives, lasts+tortureSettleTime)
	t.Cleanup(cancel)
	p := &serviceEnv{processCtx: lives, ctx: ctx, world: world.New(world.Config{Seed: 1}),
		internet:  startInternet(lives, t),
		overrides: filepath.Join(t.TempDir(), "providers.toml")}
	harness.WriteOutput(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	p = p.withoutRefusalBudget(t)
	r := rand.New(rand.NewPCG(k.seed, 4))
	backups := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); backups++ {
		delay := time.Duration(r.Int64N(int64(2 * time.Second)))
		t.Run(fmt.Sprintf("after %s", delay.Round(time.Millisecond)),
			func(t *testing.T) { testRestoreAfter(t, p, k.rows/10, delay) })
	}
	t.Logf("%d backups were restored", backups)
	harness.RequireWithinLimits(t, dropAllSourceEntries(p.referee(ctx, t)))
}
