package bench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseBusyLeavesOutWhatIsIdle(t *testing.T) {
	busy, stolen := parseBusy("cpu  1000 200 400 99999 888 300 400 300 0 0\ncpu0 1 2 3 4 5 6 7 8\n")
	require.Equal(t, 26*time.Second, busy)
	require.Equal(t, 3*time.Second, stolen)
	for _, text := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8"} {
		busy, stolen := parseBusy(text)
		require.Zero(t, busy+stolen, text)
	}
}

func TestStolenTimeIsNoted(t *testing.T) {
	r := newReport("x", "", 1, Machine{Cores: 2})
	r.reportStolen("stolen", effort{busy: time.Hour, stolen: time.Second}, effort{busy: time.Hour, stolen: 1030 * time.Millisecond})
	r.reportStolen("not told", effort{}, effort{})
	require.NotContains(t, r.Metrics, "not told")
	require.Equal(t, Metric{Value: 30, Unit: "ms"}, r.Metrics["stolen"])
}

func TestOthersAreNoted(t *testing.T) {
	r := newReport("x", "", 1, Machine{Cores: 2})
	now := time.Now()
	r.reportOthers(effort{at: now, busy: time.Hour, ours: time.Second}, effort{at: now.Add(10 * time.Second), busy: time.Hour + 19*time.Second, ours: 5 * time.Second})
	require.InDelta(t, 1.5, r.Metrics["cores_used_by_others"].Value, 1e-9)
	require.Len(t, r.Remark, 1)
	r = newReport("x", "", 1, Machine{Cores: 2})
	r.reportOthers(effort{at: now}, effort{at: now.Add(time.Second)})
	require.Empty(t, r.Metrics, "a system that does not tell")
}

func TestParseProcess(t *testing.T) {
	s := parseStatus("Name:\tprobity\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t9\n")
	require.Equal(t, Sample{RSS: 1 << 20, Peak: 2 << 20}, s)
	stat := "77 (a ) odd) name) S 1 77 77 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 9 0 100 1000 200"
	require.Equal(t, 2*time.Second, parseStatCPU(stat))
	for _, broken := range []string{"", "77", "77 (x) S 1", "77 (x) S 1 77 77 0 -1 4194560 1 2 3 4 a b 0"} {
		require.Zero(t, parseStatCPU(broken), broken)
	}
	require.Zero(t, parseKB("many kB"))
	require.Zero(t, parseKB("-4 kB"))
}

func TestParseLost(t *testing.T) {
	require.Equal(t, int64(12), parseLost("Tcp: a b\nTcp: 1 2\nUdp: InDatagrams RcvbufErrors SndbufErrors\nUdp: 100 7 5\n"))
	require.Zero(t, parseLost("Udp: RcvbufErrors\n"))
	require.Zero(t, parseLost(""))
}

func FuzzProcess(f *testing.F) {
	f.Add("VmHWM:\t  2048 kB\n", "77 (x) S 1 77 77 0 -1 4194560 1 2 3 4 150 50 0")
	f.Fuzz(func(t *testing.T, status, stat string) {
		s := parseStatus(status)
		if s.RSS < 0 || s.Peak < 0 {
			t.Fatal("memory below nothing")
		}
		parseStatCPU(stat)
		parseLost(status)
		parseBusy(stat)
	})
}

func TestOwnProcessIsSampled(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this system has no /proc:", err)
	}
	s, ok := sampleProcess(os.Getpid())
	require.True(t, ok)
	require.Positive(t, s.RSS)
	require.GreaterOrEqual(t, s.Peak, s.RSS)
	require.Positive(t, ownCPU())
	_, ok = sampleProcess(1 << 30)
	require.False(t, ok)
}
