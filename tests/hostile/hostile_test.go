package hostile

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/internal/app"
	"probity/internal/memnet"
	"probity/tests/harness"
)

const (
	rowsOfDomain  = 24
	singleTimeout = 30 * time.Second
	singleGap     = 20 * time.Second // between two calls for one domain
	maxAge        = 7 * 24 * time.Hour
)

// hostileEnv is set by make hostile.
const hostileEnv = "PROBITY_HOSTILE"

// TestHostileReceivers verifies the same mailboxes in a list and in single calls, each with a node that knows nothing
// yet.
func TestHostileReceivers(t *testing.T) {
	if os.Getenv(hostileEnv) == "" {
		t.Skip("make hostile runs it: it takes minutes")
	}
	t.Run("list", func(t *testing.T) { verifyHostile(t, verifyList) })
	t.Run("single calls", func(t *testing.T) { verifyHostile(t, verifySingles) })
}

// verifyHostile prints the verdicts of verify, and requires that none is false.
func verifyHostile(t *testing.T, verify func(context.Context, *testing.T, *app.Node, []byte) []verdict) {
	mailboxes := func(w *world.World) []byte {
		var list bytes.Buffer
		require.NoError(t, world.WriteHostile(&list, w, rowsOfDomain*hostileDomains(w), harness.ListSeed))
		return list.Bytes()
	}
	verifyInBubble(t, mailboxes, verify, func(t *testing.T, internet *sim.Server, verdicts []verdict) {
		all := outcomesOf(internet, verdicts)
		t.Logf("\n%s\n%s", outcomeTable(all), scoreTable(internet, verdicts))
		for _, o := range all {
			if o.persona.Exempt == "" && !o.acceptedNothing() {
				assert.False(t, o.lies(), "%s: %d false VALID, %d false INVALID", o.persona.Name, o.falseValid,
					o.falseInvalid)
			}
			assert.Zero(t, o.excesses, "%s: excesses", o.persona.Name)
		}
	})
}

// verifyInBubble verifies mailboxes of an internet with hostile receivers in virtual time, with a node that knows
// nothing yet.
func verifyInBubble(t *testing.T, mailboxes func(*world.World) []byte,
	verify func(context.Context, *testing.T, *app.Node, []byte) []verdict,
	check func(*testing.T, *sim.Server, []verdict)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := memnet.New()
		internet, err := sim.Start(ctx, world.Config{Seed: harness.ListSeed, Speedup: 1, Latency: "realistic",
			SMTPPort: 25,
			DNS:      netip.MustParseAddrPort("127.0.0.1:53"), Hostile: true}, network)
		require.NoError(t, err)
		list := mailboxes(internet.World)
		n := harness.NodeOfTwo(t, network, internet.DNS)
		began := time.Now()
		var verdicts []verdict
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			verdicts = verify(ctx, t, n, list)
			return nil
		}))
		t.Logf("%s of virtual time", time.Since(began).Round(time.Minute))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
		check(t, internet, verdicts)
	})
}

// hostileDomains counts the domains of hostile personas.
func hostileDomains(w *world.World) (n int) {
	for _, d := range w.Domains() {
		if d.Persona.Deceit != "" {
			n++
		}
	}
	return n
}

// verifyList verifies a list, and returns the verdicts of its rows.
func verifyList(ctx context.Context, t *testing.T, n *app.Node, list []byte) (all []verdict) {
	job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{MaxHours: ingest.MaxHours}})
	require.NoError(t, err)
	job, err = n.Coordinator.Wait(ctx, job.ID)
	require.NoError(t, err)
	var result bytes.Buffer
	require.NoError(t, n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result))
	cells, err := csv.NewReader(&result).ReadAll()
	require.NoError(t, err)
	column := func(name string) int { return slices.Index(cells[0], name) }
	for _, row := range cells[1:] {
		score, err := strconv.Atoi(row[column("verify_score")])
		require.NoError(t, err)
		all = append(all, verdict{row[column("email")], row[column("verify_status")], row[column("verify_reason")],
			score})
	}
	return all
}

// verifySingles verifies the mailboxes of a list in single calls, those of each domain one after another.
func verifySingles(ctx context.Context, t *testing.T, n *app.Node, list []byte) (all []verdict) {
	cells, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
	require.NoError(t, err)
	email := slices.Index(cells[0], "email")
	byDomain := map[string][]string{}
	for _, row := range cells[1:] {
		domain := row[email][strings.LastIndexByte(row[email], '@')+1:]
		byDomain[domain] = append(byDomain[domain], row[email])
	}
	var calls sync.WaitGroup
	var mu sync.Mutex // guards all
	for _, addresses := range byDomain {
		calls.Go(func() {
			for _, address := range addresses {
				v, err := verifySingle(ctx, n, address)
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				all = append(all, v)
				mu.Unlock()
				<-time.After(singleGap)
			}
		})
	}
	calls.Wait()
	return all
}

// verifySingle verifies one mailbox, and reads the answer as a client does.
func verifySingle(ctx context.Context, n *app.Node, address string) (v verdict, err error) {
	ctx, cancel := context.WithTimeout(ctx, singleTimeout)
	defer cancel()
	answer, err := n.Coordinator.Single(ctx, coordinator.Request{Email: address, MaxAge: maxAge})
	if err != nil {
		return v, err
	}
	a := results.Single{Email: address, Verdict: answer.Verdict, Normalized: answer.Address.Folded(), Node: answer.Node}
	err = json.Unmarshal(a.AppendJSON(nil, time.Now()), &v)
	return v, err
}
