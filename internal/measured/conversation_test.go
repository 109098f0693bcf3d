package measured

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/baseline"
	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/memnet"
)

// The conversation that bench measures gives correct verdicts.
func TestConversationGivesCorrectVerdicts(t *testing.T) {
	network := memnet.New()
	internet, err := sim.Start(t.Context(), world.Config{Seed: 3}, network)
	require.NoError(t, err)
	defer func() { require.NoError(t, internet.Close()) }()
	known, err := lists.Default()
	require.NoError(t, err)
	hosts := map[string]netip.Addr{}
	for _, h := range internet.World.Hosts() { // by persona: all of its hosts know all of its domains
		hosts[h.Persona.Name] = h.Addrs[0]
	}
	for _, name := range []string{"google", "microsoft365", "icloud"} {
		e := baseline.Task{}
		for _, a := range internet.World.Addresses(name, 400) {
			_, domain, _ := strings.Cut(a, "@")
			d, ok := internet.World.Domain(domain)
			require.True(t, ok, a)
			e.Host = d.MX[0].Host
			e.Transactions = append(e.Transactions, []string{a})
		}
		e.At = netip.AddrPortFrom(hosts[name], internet.SMTPPort)
		c, verdicts := newConversation(network.Dial), map[engine.Status]int{}
		c.onVerdict = func(a engine.Address, v *engine.Verdict) {
			verdicts[v.Status]++
			if known.Flags(a) != 0 {
				return // lists are not part of the conversation
			}
			require.True(t, slices.ContainsFunc(internet.World.Truth(a.String()), func(o persona.Outcome) bool {
				return o.Status == v.Status.String()
			}), "%s is not %s (%s)", a, v.Status, v.Rule)
		}
		got := c.tasksFunc([]baseline.Task{e})(t.Context(), 0)
		require.Equal(t, got.Recipients, got.Judged, name)
		require.Zero(t, got.Lost, name)
		require.Positive(t, got.Accepted, name)
		require.Positive(t, verdicts[engine.Invalid], name)
		require.Equal(t, 1, got.Connections, name)
	}
}
