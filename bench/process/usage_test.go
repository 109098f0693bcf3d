package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/report"
)

func TestStealTimeIsReported(t *testing.T) {
	r := report.New("x", "", 1, report.Machine{Cores: 2})
	ReportStolen(r, "stolen", Usage{busy: time.Hour, stolen: time.Second},
		Usage{busy: time.Hour, stolen: 1030 * time.Millisecond})
	ReportStolen(r, "not told", Usage{}, Usage{})
	require.NotContains(t, r.Metrics, "not told")
	require.Equal(t, report.Metric{Value: 30, Unit: "ms"}, r.Metrics["stolen"])
}

func TestCPUOfOtherProcessesIsReported(t *testing.T) {
	r := report.New("x", "", 1, report.Machine{Cores: 2})
	now := time.Now()
	ReportOthers(r, Usage{at: now, busy: time.Hour, own: time.Second},
		Usage{at: now.Add(10 * time.Second), busy: time.Hour + 19*time.Second, own: 5 * time.Second})
	require.InDelta(t, 1.5, r.Metrics["cores_used_by_others"].Value, 1e-9)
	require.Len(t, r.Remark, 1)
	r = report.New("x", "", 1, report.Machine{Cores: 2})
	ReportOthers(r, Usage{at: now}, Usage{at: now.Add(time.Second)})
	require.Empty(t, r.Metrics, "a system that does not tell")
}

func TestOwnProcessIsSampled(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system has no /proc:", err)
	}
	s, ok := sampleProcess(os.Getpid())
	require.True(t, ok)
	require.Positive(t, s.RSS)
	require.GreaterOrEqual(t, s.Peak, s.RSS)
	require.Positive(t, OwnCPU())
	_, ok = sampleProcess(1 << 30)
	require.False(t, ok)
	busy, stolen := busySoFar()
	require.GreaterOrEqual(t, busy, OwnCPU())
	require.GreaterOrEqual(t, busy, stolen)
	require.GreaterOrEqual(t, DatagramsLost(), int64(0))
	require.Positive(t, report.ReadMachine().MemoryMB)
}
