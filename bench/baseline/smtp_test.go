package baseline

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/internal/memnet"
)

// startInMemory starts a simulated internet in memory.
func startInMemory(t *testing.T, c world.Config) (*sim.Server, *memnet.Network) {
	network := memnet.New()
	server, err := sim.Start(t.Context(), c, network)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server, network
}

func planTasks(t *testing.T, server *sim.Server, dial Dial, rows int) []Task {
	path := filepath.Join(t.TempDir(), "list.csv")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, world.WriteList(f, server.World, rows, 7))
	require.NoError(t, f.Close())
	p := Planner{World: server.World, Dial: dial, DNS: server.DNS, Port: int(server.SMTPPort)}
	tasks, err := p.Plan(t.Context(), path)
	require.NoError(t, err)
	require.Less(t, p.skipped, rows/4, "most rows have a host that answers")
	return tasks
}

func TestSMTPBaselineAsksEveryRecipient(t *testing.T) {
	server, network := startInMemory(t, world.Config{Seed: 7})
	tasks := planTasks(t, server, network.Dial, 5000)
	want := 0
	for _, e := range tasks {
		want += e.recipients()
	}
	client := SMTP{Dial: network.Dial, Timeout: 5 * time.Second, EHLO: "floor.example", From: "floor@floor.example"}
	count, err := runAll(t.Context(), 8, len(tasks),
		func(ctx context.Context, i int) Count { return client.RunTask(ctx, tasks[i]) })
	require.NoError(t, err)
	require.Equal(t, want, count.Recipients+count.Lost)
	require.Less(t, count.Lost, want/50)
	require.Greater(t, count.Accepted, want/3)
	rep := server.Referee.Report()
	require.InDelta(t, rep.Recipients, count.Recipients, float64(want)/20)
	require.Less(t, rep.Connections, int64(count.Recipients/3), "connections are used again")
	require.Positive(t, count.Rate())
}

func TestSMTPBaselineFailsWithoutReplies(t *testing.T) {
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	client := SMTP{Dial: refused, Timeout: time.Second, EHLO: "a.example", From: "a@a.example"}
	task := Task{At: netip.MustParseAddrPort("127.0.0.1:25"), Transactions: [][]string{{"b@b.example"}}}
	count, err := runAll(t.Context(), 2, 1, func(ctx context.Context, _ int) Count { return client.RunTask(ctx, task) })
	require.Error(t, err)
	require.Equal(t, 1, count.Lost)
}

func TestDropRecipients(t *testing.T) {
	all := func() [][]string { return [][]string{{"a", "b"}, {"c"}, {"d", "e"}} }
	for n, want := range map[int][][]string{
		0: {{"a", "b"}, {"c"}, {"d", "e"}}, 1: {{"b"}, {"c"}, {"d", "e"}}, 2: {{"c"}, {"d", "e"}},
		4: {{"e"}}, 5: {}, 9: {},
	} {
		require.Equal(t, want, dropRecipients(all(), n), "%d", n)
	}
}

func TestPlannerKeepsTransactionsSmallAndOfOneDomain(t *testing.T) {
	server, network := startInMemory(t, world.Config{Seed: 7})
	for _, e := range planTasks(t, server, network.Dial, 3000) {
		require.LessOrEqual(t, e.recipients(), perTask+perTransaction)
		for _, tr := range e.Transactions {
			require.NotEmpty(t, tr)
			require.LessOrEqual(t, len(tr), perTransaction)
			for _, r := range tr {
				require.Equal(t, domainOf(tr[0]), domainOf(r))
			}
		}
	}
}

func domainOf(address string) string {
	_, domain, _ := strings.Cut(address, "@")
	return domain
}
