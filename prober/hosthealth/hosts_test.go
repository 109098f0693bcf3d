package hosthealth

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

const host = "mx.a.example"

var start = time.Unix(1_700_000_000, 0)

func at(d time.Duration) time.Time { return start.Add(d) }

// TestHostIsDownOnlyForAWhile: until the time that it was marked with.
func TestHostIsDownOnlyForAWhile(t *testing.T) {
	var h Hosts
	why := engine.Sighting{Event: engine.EventConnectFailed, Host: host}
	_, down := h.Down(host, start)
	require.False(t, down)
	h.MarkDown(host, why, at(30*time.Second))
	seen, down := h.Down(host, at(30*time.Second-1))
	require.True(t, down)
	require.Equal(t, why, seen)
	_, down = h.Down(host, at(30*time.Second))
	require.False(t, down)
	require.Empty(t, h.records)
}

// TestFailureIsConfirmedByALaterConnection: by the second one, or the third if the fault may be ours; one that was
// begun before the last one failed confirms nothing.
func TestFailureIsConfirmedByALaterConnection(t *testing.T) {
	type step struct {
		began, ended time.Duration
		doubtful     bool
		confirmed    bool
		again        time.Duration // after the end; 0 for none
	}
	for name, steps := range map[string][]step{
		"second": {{0, 1, false, false, time.Second}, {2, 3, false, true, 0}},
		"at the same time": {{0, 5, false, false, time.Second}, {1, 6, false, false, 0}, {5, 7, false, false, 0},
			{6, 8, false, true, 0}},
		"doubtful": {{0, 1, true, false, time.Second}, {2, 3, true, false, 2 * time.Second},
			{4, 5, true, true, 0}},
		"doubtful at last": {{0, 1, false, false, time.Second}, {2, 3, true, false, 2 * time.Second},
			{4, 5, false, true, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var h Hosts
			for _, s := range steps {
				confirmed, again := h.RecordFailure(host,
					Try{Began: at(s.began), Backoff: time.Second, Doubtful: s.doubtful}, at(s.ended))
				require.Equal(t, s.confirmed, confirmed)
				if s.again == 0 {
					require.Zero(t, again)
				} else {
					require.Equal(t, at(s.ended+s.again), again)
				}
				if !confirmed {
					require.Equal(t, start, h.FirstFailureBegan(host, at(s.began)))
				}
			}
			require.Equal(t, at(99), h.FirstFailureBegan(host, at(99)), "counting begins again")
			require.Empty(t, h.records)
		})
	}
}

// TestOldFailuresAreForgotten: and those of a host that was reached; then another failure is the first one.
func TestOldFailuresAreForgotten(t *testing.T) {
	var h Hosts
	fail := func(name string, now time.Duration) bool {
		confirmed, _ := h.RecordFailure(name, Try{Began: at(now - 1)}, at(now))
		return confirmed
	}
	require.False(t, fail("old", 1))
	require.False(t, fail("new", 10))
	require.False(t, fail("reached", 10))
	require.Equal(t, 2, h.DropUnconfirmed(at(10)))
	h.ForgetFailures("reached")
	require.Equal(t, 1, h.DropUnconfirmed(at(10)))
	require.False(t, fail("old", 20))
	require.False(t, fail("reached", 20))
	require.True(t, fail("new", 20))
}

// TestThreeSilencesInARow: an answer between them begins the count again.
func TestThreeSilencesInARow(t *testing.T) {
	var h Hosts
	require.False(t, h.RecordSilence(host))
	require.False(t, h.RecordSilence(host))
	h.RecordAnswer(host)
	require.Empty(t, h.records)
	for range 2 {
		require.False(t, h.RecordSilence(host))
		require.False(t, h.RecordSilence(host))
		require.True(t, h.RecordSilence(host))
	}
}

// TestTarpitIsSlowerThanItWas: a host that always needs six seconds is none; one that took a second is.
func TestTarpitIsSlowerThanItWas(t *testing.T) {
	const longest = 15 * time.Minute
	for _, tt := range []struct{ fastest, took, pause time.Duration }{
		{0, 6 * time.Second, time.Minute}, // in no measurable time
		{time.Second, 6 * time.Second, time.Minute},
		{time.Second, 5*time.Second - 1, 0},
		{2 * time.Second, 8*time.Second - 1, 0},
		{2 * time.Second, 8 * time.Second, 80 * time.Second},
		{6 * time.Second, 6 * time.Second, 0},
		{time.Second, 10 * time.Second, longest},
	} {
		var h Hosts
		require.Zero(t, h.RecordReplyTime(host, tt.fastest, longest))
		require.Equal(t, tt.pause, h.RecordReplyTime(host, tt.took, longest), "%v after %v", tt.took, tt.fastest)
	}
	var h Hosts
	require.Zero(t, h.RecordReplyTime(host, time.Second, time.Millisecond))
	require.Equal(t, time.Millisecond, h.RecordReplyTime(host, 6*time.Second, time.Millisecond), "scaled time")
}

// TestMemoryIsBounded: reply times leave room for failures, and of a host too many nothing is remembered.
func TestMemoryIsBounded(t *testing.T) {
	var h Hosts
	for i := range maxHosts {
		h.RecordReplyTime(fmt.Sprint("replies", i), time.Second, time.Minute)
	}
	require.Len(t, h.records, maxReplies)
	for i := range maxHosts {
		h.MarkDown(fmt.Sprint("fails", i), engine.Sighting{}, at(1))
	}
	require.Len(t, h.records, maxHosts)
	confirmed, _ := h.RecordFailure("another", Try{Began: start}, start)
	require.True(t, confirmed, "a failure that cannot be remembered needs no second one")
	for range 2 * maxSilences {
		require.False(t, h.RecordSilence("another"))
	}
	require.Len(t, h.records, maxHosts)
	h.ForgetFailures("fails0")
	_, down := h.Down("fails0", at(1))
	require.False(t, down)
	h.RecordSilence("another")
	require.Contains(t, h.records, "another", "one is up again")
}
