package process_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/referee"
	"probity/internal/apiclient"
	"probity/tests/harness"
)

const (
	killsEachEnv = "PROBITY_KILLS_EACH" // between two SIGKILLs of each prober: make kills EACH=1m
	killsRows    = 60_000               // at least; more with a larger scale
	killsNodes   = 2
)

// TestKilledProbersKeepTheHour kills each prober of a cluster with SIGKILL each minute of an hour and starts it again
// at once: no source and no narrow route exceeds its budget at a receiver, whatever was not written before the kill.
// EACH shortens the minute: with EACH=6s an hour takes six minutes, and receivers tolerate ten times as much.
func TestKilledProbersKeepTheHour(t *testing.T) {
	text := os.Getenv(killsEachEnv)
	if text == "" {
		t.Skip("it takes minutes: make kills; TestBudgetHoldsWhenKilledEachMinute tries the same in virtual time")
	}
	each, err := time.ParseDuration(text)
	require.NoError(t, err, killsEachEnv)
	inNetworkNamespaces(t, 60*each+fleetTimeout, func(y *netnsTest) {
		speedup := max(1, int(time.Minute/each))
		c := y.openClusterOf(max(killsRows, killsRows/3*speedup), speedup, killsNodes)
		job := c.upload(y.path("list.csv"))
		for minute := range 60 {
			for n := range c.probers {
				y.sleep(each / time.Duration(len(c.probers)))
				c.probers[n].kill()
				c.probers[n] = y.startProber(n + 1)
			}
			if r := y.referee(); minute%10 == 9 || len(r.By) > 0 {
				t.Logf("after %d kills of each: %d recipients, %d refused, %d excesses", minute+1, r.Recipients,
					r.Refused, r.Excesses)
			}
		}
		body, err := c.api.Call(y.ctx, "POST", "/v1/verify/bulk/"+job+"/cancel", "", nil)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		c.follow(job, func(apiclient.Job) {})
		y.requireLedger(c, job)
		y.requireHours()
	})
}

// requireHours requires that no hourly limit was exceeded, and that the larger ones were used.
func (y *netnsTest) requireHours() {
	r := y.referee()
	used, full := 0, 0
	for _, e := range r.Peaks {
		if e.Kind != "refusals_per_hour" || e.Seen == 0 {
			continue
		}
		used++
		if 2*e.Seen >= e.Limit {
			full++
		}
		y.t.Logf("%s by %s: %s of %d in the hour", e.Persona, e.Source, strconv.Itoa(e.Seen), e.Limit)
	}
	y.t.Logf("hourly budgets: %d in use, %d at least half used", used, full)
	harness.RequireWithinLimits(y.t, r)
	harness.RequireRoutes(y.t, r)
	require.NotZero(y.t, full, "%+v", []referee.Entry(r.Peaks))
}
