package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

func TestReportListsQuarantines(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(route, provider, state string) ReadyQueueReport {
		return ReadyQueueReport{"n1", wire.ReadyQueue{Route: route, Provider: provider, State: state,
			Egress: "192.0.2.1", Until: until,
			Reply: "554 blocked", Rule: "generic/blocked"}}
	}
	r := ClusterReport{Quarantines: []Quarantine{{Node: "old"}}}
	r.SetQuarantines([]ReadyQueueReport{at("", "", "quarantined"), at("outlook", "Outlook.com", "quarantined"),
		at("mx1.shop.example,mx2.shop.example", "", "quarantined"), at("google", "Google", "exhausted")})
	var receivers []string
	for _, q := range r.Quarantines {
		receivers = append(receivers, q.Receiver)
		require.Equal(t, []any{"n1", "192.0.2.1", "554 blocked", "generic/blocked", until},
			[]any{q.Node, q.Source, q.Reply, q.Rule, q.Until})
	}
	require.Equal(t, []string{"", "Outlook.com", "mx1.shop.example"}, receivers)
	r.SetQuarantines(nil)
	require.Empty(t, r.Quarantines)
}
