package coordinator

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"probity/coordinator/ingest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// generatedList is a list of n rows that is made as it is read.
type generatedList struct {
	n, i int
	rng  *rand.Rand
	buf  []byte
}

func (m *generatedList) Read(p []byte) (int, error) {
	if len(m.buf) == 0 {
		if m.i > m.n {
			return 0, io.EOF
		}
		for ; m.i <= m.n && len(m.buf) < 64<<10; m.i++ {
			m.row()
		}
	}
	n := copy(p, m.buf)
	m.buf = m.buf[n:]
	if len(m.buf) == 0 {
		m.buf = m.buf[:0]
	}
	return n, nil
}

func (m *generatedList) row() {
	if m.i == 0 {
		m.buf = append(m.buf[:0], "id,first,email,city\n"...)
		return
	}
	domain := "gmail.com"
	switch r := m.rng.Float64(); {
	case r < 0.5:
	case r < 0.8:
		domain = "big" + strconv.Itoa(m.rng.IntN(200)) + ".example"
	default:
		domain = "d" + strconv.Itoa(m.rng.IntN(50_000)) + ".example"
	}
	m.buf = fmt.Appendf(m.buf, "%d,Annabella,annabella.richter%d@%s,Braunschweig\n", m.i, m.rng.IntN(m.n*4), domain)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkJob runs whole jobs against a prober that answers at once. It reports CPU per row, peak heap, and
// allocations per row. JOB_ROWS sets the size, JOB_BEFORE how many such jobs the coordinator has run before.
func BenchmarkJob(b *testing.B) {
	rows, before := 200_000, 0
	for name, n := range map[string]*int{"JOB_ROWS": &rows, "JOB_BEFORE": &before} {
		if text := os.Getenv(name); text != "" {
			var err error
			*n, err = strconv.Atoi(text)
			require.NoError(b, err)
		}
	}
	for b.Loop() {
		w := newBenchEnv(b)
		w.prober.settled = nil
		w.run()
		for i := range before {
			j, err := w.c.Accept(context.Background(),
				ingest.Upload{Body: &generatedList{n: rows, rng: rand.New(rand.NewPCG(3, uint64(i)))}})
			require.NoError(b, err)
			_, err = w.c.Wait(context.Background(), j.ID)
			require.NoError(b, err)
		}
		peak, stop := watchHeap()
		list := &generatedList{n: rows, rng: rand.New(rand.NewPCG(1, 2))}
		left := allocatedBytes()
		c0, t0 := cpuTime(), time.Now()
		j, err := w.c.Accept(context.Background(), ingest.Upload{Body: list})
		require.NoError(b, err)
		c1, t1 := cpuTime(), time.Now()
		running := j.State
		for !running.Finished() && running != "finalizing" {
			j, err = w.c.WaitChange(context.Background(), j.ID, running)
			require.NoError(b, err)
			running = j.State
		}
		c2, t2 := cpuTime(), time.Now()
		j, err = w.c.Wait(context.Background(), j.ID)
		require.NoError(b, err)
		c3, t3 := cpuTime(), time.Now()
		stop()
		per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(rows) }
		b.ReportMetric(per(c1-c0), "receive-us/row")
		b.ReportMetric(per(c2-c1), "ask-us/row")
		b.ReportMetric(per(c3-c2), "assemble-us/row")
		b.ReportMetric(per(c3-c0), "cpu-us/row")
		b.ReportMetric(float64(*peak>>20), "peak-MB")
		b.ReportMetric(float64(allocatedBytes()-left)/float64(rows), "left-B/row")
		b.Logf("%d rows, %d unique: receive %v, ask %v, assemble %v", j.Rows, j.Unique, t1.Sub(t0), t2.Sub(t1),
			t3.Sub(t2))
		require.NoError(b, w.close(b))
	}
}

// allocatedBytes returns all bytes allocated so far.
func allocatedBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func newBenchEnv(b *testing.B) *testEnv {
	fs := vfs.Default
	dir := b.TempDir()
	require.NoError(b, os.Chdir(dir))
	return newTestEnv(b, fs)
}

// watchHeap samples the memory that the runtime holds.
func watchHeap() (*uint64, func()) {
	runtime.GC()
	peak, done, ended := new(uint64), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			*peak = max(*peak, m.HeapInuse+m.StackInuse)
			select {
			case <-t.C:
			case <-done:
				return
			}
		}
	}()
	return peak, func() { close(done); <-ended }
}
