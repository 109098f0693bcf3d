package service_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

// smallDiskEnv is set in the process that has the mount namespace.
const smallDiskEnv = "PROBITY_SMALL_DISK"

const smallDiskBytes = 64 << 20

// onSmallDisk runs do with the folder of a small file system, in a mount namespace of its own, in a process of its own.
func onSmallDisk(t *testing.T, do func(t *testing.T, p *serviceEnv, dir string)) {
	if os.Getenv(smallDiskEnv) == "" {
		if testing.Short() {
			t.Skip("it takes real processes; run without -short")
		}
		if os.Getuid() != 0 {
			t.Skip("file systems are for root to mount")
		}
		harness.DependOnSources(t)
		inner := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout",
			(2 * serviceDeadline).String())
		inner.Env = append(os.Environ(), smallDiskEnv+"=1")
		inner.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		said, err := inner.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skipf("this machine forbids mount namespaces: %v", err)
		}
		t.Logf("%s", said)
		require.NoError(t, err)
		if bytes.Contains(said, []byte("--- SKIP")) {
			t.Skip("this machine forbids mounts")
		}
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size="+strconv.Itoa(smallDiskBytes)); err != nil {
		t.Skipf("this machine forbids mounts: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	ctx, cancel := context.WithTimeout(context.Background(), serviceDeadline)
	t.Cleanup(cancel)
	p := &serviceEnv{processCtx: ctx, ctx: ctx, world: world.New(world.Config{Seed: 1}),
		overrides: filepath.Join(t.TempDir(), "providers.toml"),
		internet:  startInternet(ctx, t, "--latency", slowReplies.String())}
	harness.WriteOutput(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	do(t, p, dir)
}

// filler fills a disk until it is told to stop: it also takes the room that is freed meanwhile.
type filler struct {
	path       string
	stop, done chan struct{}
}

// fill returns once the disk is full.
func fill(t *testing.T, dir string) *filler {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	r := &filler{path: f.Name(), stop: make(chan struct{}), done: make(chan struct{})}
	full := make(chan struct{})
	go func() {
		defer close(r.done)
		defer f.Close() // nothing of it is read
		block := make([]byte, 4096)
		for err := error(nil); err == nil; {
			_, err = f.Write(block)
		}
		close(full)
		freed := time.NewTicker(time.Millisecond)
		defer freed.Stop()
		for {
			select {
			case <-r.stop:
				return
			case <-freed.C:
				_, _ = f.Write(block) // it fails while nothing is freed
			}
		}
	}()
	<-full
	return r
}

// rest ends the filling. The disk stays as full as it is.
func (r *filler) rest() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.done
}

// empty makes room.
func (r *filler) empty(t *testing.T) {
	t.Helper()
	r.rest()
	require.NoError(t, os.Remove(r.path))
}

// requireAlive requires that the server runs, and has said nothing that belongs to a crash.
func (s *serverProcess) requireAlive(t *testing.T) {
	t.Helper()
	select {
	case <-s.exited:
		require.Fail(t, "the server ended by itself", "%v: %s", s.err, s.logText())
	default:
	}
	for _, bad := range []string{"panic", "goroutine ", "BUG:"} {
		require.NotContains(t, s.logText(), bad)
	}
}

// answer makes a request that must be answered within seconds.
func (c *customer) answer(t *testing.T, method, path, body string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	now := *c
	now.ctx = ctx
	r, err := now.request(method, path, "application/json", strings.NewReader(body))
	require.NoError(t, err, "%s %s", method, path)
	return r
}

func (h *killLoop) status(t *testing.T, method, path string) int {
	t.Helper()
	return h.c.answer(t, method, path, "").status
}

// firstAddress is the address of the first row of a list.
func firstAddress(t *testing.T, list []byte) string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
	require.NoError(t, err)
	at := slices.Index(rows[0], "email")
	require.GreaterOrEqual(t, at, 0)
	return rows[1][at]
}

// TestAFullDiskNeverEndsTheServer fills the disk of a server while it probes, writes results, backs up, erases and
// starts, and keeps it full: what can be read is given, what cannot be written is refused, and the jobs go on when
// there is room, exactly.
func TestAFullDiskNeverEndsTheServer(t *testing.T) {
	detector.Spare(t)
	onSmallDisk(t, testFullDisk)
}

func testFullDisk(t *testing.T, p *serviceEnv, dir string) {
	data := filepath.Join(dir, "data")
	h := newKillLoop(t, p, data, 500)
	var root *customer
	withStoppedStore(t, data, func(s *store.Store) {
		root = p.addCustomerAs(t, s, store.NewUser{Email: "root@customer.example", Role: store.Admin,
			Limits: unlimited})
	})
	h.runJob(t, nil)
	done, address := h.job, firstAddress(t, h.list)
	quick := h.p
	h.p = quick.oneRowAtATime(t)
	s := h.startServer(t)

	h.rounds, h.accepted = h.rounds+1, false
	require.NoError(t, <-h.uploadList())
	met := 0
	for part := range diskFills { // at the last of these all rows are answered, and it writes the result
		h.p.eventually(t, "the job goes on", func() bool {
			j := h.listJobs(t)[0]
			return j.finished() || j.Processed >= j.TotalRows*int64(part+1)/diskFills
		})
		f := fill(t, dir)
		h.p.eventually(t, "the full disk is met", func() bool {
			return h.listJobs(t)[0].finished() ||
				s.timesFull() > met
		})
		s.requireAlive(t)
		require.Equal(t, http.StatusOK, h.status(t, http.MethodGet, "/v1/verify/bulk"))
		require.Equal(t, http.StatusOK, h.status(t, http.MethodGet, "/v1/verify/bulk/"+done+"/results"))
		f.empty(t)
		h.p.eventually(t, "there is room again", func() bool {
			met = s.timesFull()
			return met == strings.Count(s.logText(), "there is room on the disk again")
		})
	}
	t.Logf("the disk was found to be full %d times", met)
	require.GreaterOrEqual(t, met, diskFills/2, "most of them while it ran")
	h.requireExactJob(t)

	f := fill(t, dir)
	h.rounds, h.accepted = h.rounds+1, false
	err := <-h.uploadList()
	require.ErrorContains(t, err, "503")
	for _, path := range []string{"", "/" + done, "/" + done + "/results", "/" + done + "/results?format=jsonl"} {
		require.Equal(t, http.StatusOK, h.status(t, http.MethodGet, "/v1/verify/bulk"+path), path)
	}
	root.base = s.base
	r := root.answer(t, http.MethodPost, "/v1/admin/backup", "")
	require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusOK}, r.status, "it is made of links")
	erase := fmt.Sprintf(`{"address":%q}`, address)
	r = root.answer(t, http.MethodPost, "/v1/admin/erase", erase)
	require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusAccepted}, r.status, "%s", r.body)
	f.empty(t)
	s.requireAlive(t)
	h.p = quick
	h.p.eventually(t, "uploads are accepted again", func() bool { return <-h.uploadList() == nil })
	h.requireExactJob(t)
	h.p.eventually(t, "the address is erased", func() bool {
		r := root.answer(t, http.MethodPost, "/v1/admin/erase", erase)
		return r.status == http.StatusOK && !bytes.Contains(h.c.results(t, done, ""), []byte(address))
	})
	require.Equal(t, http.StatusOK, root.answer(t, http.MethodPost, "/v1/admin/backup", "").status)

	h.endOnAFullDisk(t, s, dir)
	f = fill(t, dir)
	f.rest()
	s = h.startServer(t)
	require.Equal(t, http.StatusOK, h.status(t, http.MethodGet, "/v1/verify/bulk/"+done+"/results"))
	require.Equal(t, http.StatusNoContent, h.status(t, http.MethodDelete, "/v1/verify/bulk/"+done), s.logText())
	require.Equal(t, http.StatusNotFound, h.status(t, http.MethodGet, "/v1/verify/bulk/"+done))
	s.requireAlive(t)
	f.empty(t)
	h.p.eventually(t, "there is a ballast again", func() bool {
		_, err := os.Stat(filepath.Join(data, "ballast"))
		return err == nil
	})
	s.requireAlive(t)
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	<-s.exited
	require.NoError(t, s.err, s.logText())
}

// diskFills is how often the disk is filled while a job runs.
const diskFills = 8

// timesFull returns how often the server has found its disk to be full.
func (s *serverProcess) timesFull() int { return strings.Count(s.logText(), "no room on the disk") }

// endOnAFullDisk stops a server that has met a full disk: it ends in time and without a dump.
func (h *killLoop) endOnAFullDisk(t *testing.T, s *serverProcess, dir string) {
	t.Helper()
	f := fill(t, dir)
	h.rounds, h.accepted = h.rounds+1, false
	require.ErrorContains(t, <-h.uploadList(), "503")
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-s.exited:
	case <-time.After(30 * time.Second):
		require.Fail(t, "it does not end", s.logText())
	}
	for _, bad := range []string{"panic", "goroutine ", "BUG:"} {
		require.NotContains(t, s.logText(), bad)
	}
	f.empty(t)
}

// TestVerifyOnAFullDiskGoesOnExactly fills the disk of `verify` at random moments: each time it ends with status 1 and
// one line, and in the end the result is that of a run with room.
func TestVerifyOnAFullDiskGoesOnExactly(t *testing.T) {
	detector.Spare(t)
	onSmallDisk(t, testFullVerify)
}

func testFullVerify(t *testing.T, p *serviceEnv, dir string) {
	h := newKillLoop(t, p, t.TempDir(), 500)
	list := filepath.Join(t.TempDir(), "list.csv")
	require.NoError(t, os.WriteFile(list, h.list, 0o600))
	whole := filepath.Join(t.TempDir(), "whole.csv")
	require.NoError(t, harness.Command(p.ctx, p.verifyArgs(list, whole, h.p.overrides)...).Run())
	slow := h.p.oneRowAtATime(t)

	result, ended := filepath.Join(dir, "result.csv"), 0
	for room := 100 * time.Millisecond; ; room += room / 5 { // the time until the disk is full
		require.Less(t, room, 2*time.Minute)
		c := harness.Command(p.ctx, p.verifyArgs(list, result, slow.overrides)...)
		var words bytes.Buffer
		c.Stderr = &words
		c.Stdout = io.Discard
		require.NoError(t, c.Start())
		exited := make(chan error, 1)
		go func() { exited <- c.Wait() }()
		var err error
		select {
		case err = <-exited:
		case <-time.After(room):
			f := fill(t, dir)
			select {
			case err = <-exited:
			case <-time.After(20 * time.Second):
				require.Fail(t, "it goes on without room")
			}
			f.empty(t)
		}
		require.NotContains(t, words.String(), "goroutine ")
		if err == nil {
			break
		}
		failed := &exec.ExitError{}
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 1, failed.ExitCode(), "%s", &words)
		require.Regexp(t, `^(going on with .*\n)?(running: .*\n)*probity: .*(disk is full|no space left).*\n$`,
			words.String())
		ended++
	}
	require.NotZero(t, ended)
	t.Logf("%d runs ended on a full disk", ended)
	want, err := os.ReadFile(whole)
	require.NoError(t, err)
	got, err := os.ReadFile(result)
	require.NoError(t, err)
	requireSameRows(t, want, got)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, fmt.Sprint(left))
}
