package main

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

	"probity/bench/sim"
)

// What a job that is damaged says: in its record when it cannot be ended, and in answer to a request for its results.
const (
	saysDamaged = "a file of the job is damaged; upload the list again"
	saysRefused = "A file of this job is damaged on the server's disk, so no results are given"
)

// harm kills a process and damages a file of one of its jobs before the next life.
func (p *plant) harm(at *keeper, f fault) (said string, did bool) {
	hurt := make(chan error, 1)
	if !at.killAnd(func() {
		var err error
		said, err = damage(p.data, f)
		hurt <- err
	}) {
		return "", false
	}
	if err := <-hurt; err != nil {
		p.t.Error(err)
	}
	return said, said != ""
}

// damage flips a bit of a random file in the folder of a random job, or removes it. What it did is empty where there was nothing to do.
func damage(data string, f fault) (did string, err error) {
	r := rand.New(rand.NewPCG(f.chance, 1))
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
	if f.what == blowLose {
		return name, os.Remove(path)
	}
	at, err := flipBit(path, r)
	if at < 0 {
		return "", err
	}
	return fmt.Sprintf("%s, byte %d", name, at), err
}

// flipBit flips a bit of a file and gives its byte; -1 for an empty file.
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

// results downloads the results of a job that is finished, in both forms, and remembers what was given. They may be refused where the
// job says that it is damaged, which is one form or both.
func (s *stubborn) results(ctx context.Context, t *testing.T, id string) (csv []byte, given bool) {
	t.Helper()
	for _, form := range []string{"jsonl", "csv"} {
		path := "/v1/verify/bulk/" + id + "/results?format=" + form
		if csv, given = s.download(ctx, t, id, path); given {
			s.given[path] = sha256.Sum256(csv)
		}
	}
	return csv, given
}

// download gives the results at a path, or says that they are refused because the job is damaged.
func (s *stubborn) download(ctx context.Context, t *testing.T, id, path string) (body []byte, given bool) {
	t.Helper()
	r, err := s.insist(ctx, path, func() (reply, error) { return s.try(ctx, http.MethodGet, path, "", nil) }, func(r reply) bool {
		return r.status == http.StatusOK || r.status == http.StatusInternalServerError && strings.Contains(string(r.body), saysRefused)
	})
	require.NoError(t, err)
	if r.status == http.StatusOK {
		return r.body, true
	}
	require.NotEmpty(t, s.record(ctx, t, id, "").Damage, "results are refused, and the job says nothing")
	return nil, false
}

// review downloads all results again that were ever given: they are the same, or refused.
func (s *stubborn) review(ctx context.Context, t *testing.T) {
	t.Helper()
	refused := 0
	for path, was := range s.given {
		id := strings.Split(path, "/")[4]
		body, given := s.download(ctx, t, id, path)
		if !given {
			refused++
			continue
		}
		require.Equal(t, was, sha256.Sum256(body), path)
	}
	t.Logf("%d results were given again, %d refused", len(s.given)-refused, refused)
}

// restore takes backups of a server under load, each of another, and goes on with what is restored of it.
func (k torment) restore(t *testing.T, lasts time.Duration) {
	lives, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(lives, lasts+tortureSettle)
	t.Cleanup(cancel)
	p := &play{lives: lives, ctx: ctx, seen: sim.NewWorld(sim.Config{Seed: 1}), internet: startInternet(lives, t),
		overrides: filepath.Join(t.TempDir(), "providers.toml")}
	produce(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	p = p.withoutRefusals(t)
	r := rand.New(rand.NewPCG(k.seed, 4))
	backups := 0
	for until := time.Now().Add(lasts); time.Now().Before(until); backups++ {
		while := time.Duration(r.Int64N(int64(2 * time.Second)))
		t.Run(fmt.Sprintf("after %s", while.Round(time.Millisecond)), func(t *testing.T) { restoreAfter(t, p, k.rows/10, while) })
	}
	t.Logf("%d backups were restored", backups)
	requirePolite(t, eachAlone(p.referee(ctx, t)))
}
