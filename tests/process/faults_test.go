package process_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"

	"probity/internal/apiclient"
	"probity/store"
	"probity/tests/harness"
)

// faultsSlowdown makes a job outlast the faults of make fleet: hourly budgets are those of the speed-up, minute budgets
// an eighth of them.
const faultsSlowdown = 8

// openForFaults opens a cluster whose job is to last as long as the cuts.
func (y *netnsTest) openForFaults(rows int) *netnsCluster {
	if os.Getenv(fleetCutEnv) != "" {
		y.slowdown = faultsSlowdown
	}
	return y.openCluster(rows, max(1, int(float64(rows/250)*fleetCut.Seconds()/cutTime(y.t).Seconds())))
}

var recipientsPerMinute = regexp.MustCompile(`(?m)^(recipients_per_minute = )(\d+)$`)

// lowerMinuteBudgets lowers the minute budgets of the provider table.
func (y *netnsTest) lowerMinuteBudgets() {
	if y.slowdown == 0 {
		return
	}
	table, err := os.ReadFile(y.path("providers.toml"))
	require.NoError(y.t, err)
	table = recipientsPerMinute.ReplaceAllFunc(table, func(line []byte) []byte {
		m := recipientsPerMinute.FindSubmatch(line)
		n, err := strconv.Atoi(string(m[2]))
		require.NoError(y.t, err)
		return fmt.Appendf(nil, "%s%d", m[1], max(1, n/y.slowdown))
	})
	require.NoError(y.t, os.WriteFile(y.path("providers.toml"), table, 0o600))
}

// requireStillRunning requires in make fleet that a job has outlasted the faults.
func (c *netnsCluster) requireStillRunning(id string) {
	var job apiclient.Job
	c.net.waitFor("the coordinator tells of the job", func() (reported bool) {
		var err error
		job, err = c.api.Job(c.net.ctx, id)
		return err == nil
	})
	c.net.t.Logf("after the last fault the job is %s: %d of %d rows", job.Status, job.Processed,
		job.TotalRows-job.Blank)
	if c.net.slowdown > 0 {
		require.False(c.net.t, store.JobState(job.Status).Finished(), "it ended before all had happened")
	}
}

// requireWide requires that all sources of four nodes were used for wide providers. The referee has counted that each
// narrow route had one source at a time.
func (y *netnsTest) requireWide(wide ...string) {
	sources := harness.SourcesOf(y.referee())
	for _, id := range wide {
		require.Len(y.t, sources[id], 8, "%s: %v", id, sources[id])
	}
	y.t.Logf("asked from all eight identities: %v", wide)
}
