package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/coordinator/results"
	"probity/internal/detector"
)

var errDisk = errors.New("the disk failed")

// faultFS fails the n-th durable step on files of jobs, either before or after it took effect.
type faultFS struct {
	vfs.FS
	countdown  atomic.Int64
	persist    bool
	err        error // default: errDisk
	failedStep atomic.Pointer[string]
}

const syscallNoSpace = syscall.ENOSPC

// runStep runs a durable step, unless it is the one to fail.
func (f *faultFS) runStep(what, path string, do func() error) error {
	if !strings.Contains(path, jobdir.FolderName) || f.countdown.Add(-1) != 0 {
		return do()
	}
	name := what + " " + path[strings.LastIndexByte(path, '/')+1:]
	f.failedStep.Store(&name)
	if f.persist {
		if err := do(); err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	return errDisk
}

func (f *faultFS) wrap(file vfs.File, path string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f, path}, nil
}

func (f *faultFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	var file vfs.File
	err := f.runStep("create", path, func() (err error) { file, err = f.FS.Create(path, c); return err })
	return f.wrap(file, path, err)
}

func (f *faultFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	var file vfs.File
	err := f.runStep("open", path, func() (err error) { file, err = f.FS.OpenReadWrite(path, c, o...); return err })
	return f.wrap(file, path, err)
}

func (f *faultFS) OpenDir(path string) (vfs.File, error) {
	file, err := f.FS.OpenDir(path)
	return f.wrap(file, path, err)
}

func (f *faultFS) Rename(from, to string) error {
	return f.runStep("rename", to, func() error { return f.FS.Rename(from, to) })
}

type faultFile struct {
	vfs.File
	fs   *faultFS
	path string
}

func (f *faultFile) Write(b []byte) (n int, err error) {
	err = f.fs.runStep("write", f.path, func() (err error) { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *faultFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.runStep("write", f.path, func() (err error) { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

func (f *faultFile) Sync() error     { return f.fs.runStep("sync", f.path, f.File.Sync) }
func (f *faultFile) SyncData() error { return f.fs.runStep("sync", f.path, f.File.SyncData) }

// TestJobRecoversFromAnyFailedStep fails each durable step of a job in turn, before and after it took effect. The job
// still ends, and stays so after a power cut.
func TestJobRecoversFromAnyFailedStep(t *testing.T) {
	detector.SpareByDay(t)
	in := testCSV(600, 4)
	clean := newTestEnv(t, vfs.NewMem())
	clean.prober.outcome = deferSome(0)
	clean.run()
	want := withoutTimes(clean.results(t, clean.finish(t, clean.accept(t, in).ID).ID, results.Filter{}))
	require.NoError(t, clean.close(t))
	for _, persist := range []bool{false, true} {
		steps := map[string]int{}
		for n, more := int64(1), true; more; n++ {
			var step string
			step, more = failOnce(t, n, persist, in, want)
			if more {
				steps[step]++
			}
		}
		t.Logf("persisted %v: %v", persist, steps)
		require.Greater(t, len(steps), 15)
	}
}

// failOnce fails the n-th step; more is false if the job has fewer steps.
func failOnce(t *testing.T, n int64, persist bool, in, want string) (step string, more bool) {
	disk := vfs.NewCrashableMem()
	fs := &faultFS{FS: disk, persist: persist}
	w := newTestEnv(t, disk, func(_ *testEnv, c *Config) { c.FS = fs })
	w.prober.outcome = deferSome(0)
	fs.countdown.Store(n)
	w.run()
	j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(in)})
	if err != nil {
		require.ErrorIs(t, err, errDisk)
		j = w.accept(t, in) // the disk works again
	}
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_, _ = w.c.Wait(ctx, j.ID)
	}()
	select {
	case <-done:
		w.stop()
		err = <-w.ended
		require.NoError(t, err)
	case err = <-w.ended:
		t.Fatalf("step %d failed, and ended the service: %v: %v", n, fs.failedStep.Load(), err)
	case <-time.After(20 * time.Second):
		t.Fatalf("stuck after step %d failed: %v", n, fs.failedStep.Load())
	}
	stop()
	<-done
	require.NoError(t, w.store.Close())
	if hit := fs.failedStep.Load(); hit != nil {
		step, more = *hit, true
	}
	again := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	again.prober.outcome = deferSome(0)
	again.run()
	got := again.results(t, again.finish(t, j.ID).ID, results.Filter{})
	require.Equal(t, want, withoutTimes(got), "step %d: %s", n, step)
	left, err := again.fs.List("data/jobs")
	require.NoError(t, err)
	require.Equal(t, []string{j.ID}, left, "only the job that exists has a folder")
	require.NoError(t, again.close(t))
	return step, more
}
