package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// faultsPace makes a job outlast the faults of make fleet: hours hold what they do at the speed-up, minutes an eighth of it.
const faultsPace = 8

// openForFaults opens a cluster whose job is to last as long as the cuts.
func (y *yard) openForFaults(rows int) *yardCluster {
	if os.Getenv(fleetCutEnv) != "" {
		y.pace = faultsPace
	}
	return y.open(rows, max(1, int(float64(rows/250)*fleetCut.Seconds()/cutTime(y.t).Seconds())))
}

var recipientsPerMinute = regexp.MustCompile(`(?m)^(recipients_per_minute = )(\d+)$`)

// slow lowers what the provider table allows by the minute.
func (y *yard) slow() {
	if y.pace == 0 {
		return
	}
	table, err := os.ReadFile(y.at("providers.toml"))
	require.NoError(y.t, err)
	table = recipientsPerMinute.ReplaceAllFunc(table, func(line []byte) []byte {
		m := recipientsPerMinute.FindSubmatch(line)
		n, err := strconv.Atoi(string(m[2]))
		require.NoError(y.t, err)
		return fmt.Appendf(nil, "%s%d", m[1], max(1, n/y.pace))
	})
	require.NoError(y.t, os.WriteFile(y.at("providers.toml"), table, 0o600))
}

// requireUnderWay demands that a job outlasted the faults, where make fleet has made it last.
func (c *yardCluster) requireUnderWay(id string) {
	var job jobView
	c.y.until("the coordinator tells of the job", func() (told bool) {
		var err error
		job, err = c.api.job(c.y.ctx, id)
		return err == nil
	})
	c.y.t.Logf("after the last fault the job is %s: %d of %d", job.Status, job.Processed, job.Unique)
	if c.y.pace > 0 {
		require.False(c.y.t, store.JobState(job.Status).Finished(), "it ended before all had happened")
	}
}

// requireWide demands that every identity of four nodes was used for wide providers, and one at a time for each narrow route:
// that the referee has counted.
func (y *yard) requireWide(wide ...string) {
	sources := sourcesOf(y.referee())
	for _, id := range wide {
		require.Len(y.t, sources[id], 8, "%s: %v", id, sources[id])
	}
	y.t.Logf("asked from all eight identities: %v", wide)
}
