package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Only the job's account can see its plan, and there is none once nothing is left to probe.
func TestJobPlan(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	var list strings.Builder
	list.WriteString("email\n")
	for i := range 60 {
		fmt.Fprintf(&list, "ann%d@shop.test\nANN%d@shop.test\n", i, i)
	}
	list.WriteString("no address\n")
	r := w.upload(w.key, nil, part{"file", "l.csv", list.String()})
	require.Equal(t, 202, r.status, "%s", r.body)
	path := r.header.Get("Location") + "/plan"
	r = w.get(path, w.key)
	require.Equal(t, 200, r.status, "%s", r.body)
	p := r.json(t)
	require.Equal(t, r.json(t)["job_id"], strings.Split(path, "/")[4])
	// 60 recipients and a decoy at 60 a minute
	for k, v := range map[string]any{"sources": 1.0, "refused_share": 0.2, "uncounted": 0.0, "least_seconds": 60.0,
		"sources_to_halve": nil} {
		require.Equal(t, v, p[k], k)
	}
	p = w.get(path+"?refused=100&sources=2", w.key).json(t)
	require.Equal(t, 2.0, p["sources"])
	require.Equal(t, 7200.0, p["least_seconds"], "60 refused at 20 an hour, of which the first come at once")
	receivers := p["receivers"].([]any)
	require.Len(t, receivers, 1)
	for k, v := range map[string]any{"provider": "other", "kind": "narrow", "sources": 1.0, "recipients": 60.0,
		"refused":       60.0,
		"least_seconds": 7200.0, "limit": "refusals_per_hour", "budget": 20.0} {
		require.Equal(t, v, receivers[0].(map[string]any)[k], k)
	}
	_, other := w.addCustomer("bob@probity.test", 0)
	require.Equal(t, 404, w.get(path, other).status)
	require.Equal(t, 422, w.get(path+"?refused=101", w.key).status)
	require.Equal(t, 422, w.get(path+"?source=2", w.key).status)
	release()
	w.waitForJob(w.key, strings.Split(path, "/")[4])
	require.Contains(t, w.get(path, w.key).detail(t), "nothing left to ask")
	require.Zero(t, w.credits().Reserved)
}
