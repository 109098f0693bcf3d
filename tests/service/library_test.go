package service_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity"
	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/tests/harness"
)

// libraryRows is how many addresses of a list TestLibraryGivesTheVerdictsOfTheCommand verifies in both ways.
const libraryRows = 150

// TestLibraryGivesTheVerdictsOfTheCommand verifies the same addresses with "probity verify" and with the package, each
// on a simulated internet of its own that begins alike. They are addresses whose verdict does not depend on time.
func TestLibraryGivesTheVerdictsOfTheCommand(t *testing.T) {
	budgets := filepath.Join(t.TempDir(), "providers.toml")
	var overrides bytes.Buffer
	require.NoError(t, sim.WriteProviders(&overrides, systemSpeedup))
	require.NoError(t, os.WriteFile(budgets, overrides.Bytes(), 0o600))
	start := func() *sim.Server {
		server, err := sim.Start(t.Context(), world.Config{Seed: 1, Speedup: systemSpeedup, SMTPPort: world.AnyPort,
			DNS: netip.MustParseAddrPort("127.0.0.1:0")}, sim.Loopback{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Close()) })
		return server
	}
	ofCommand, ofLibrary := start(), start()
	addresses := steadyAddresses(t, ofCommand.World)

	args := []string{"verify", "--json", "--dns", ofCommand.DNS.String(), "--smtp-port",
		strconv.Itoa(int(ofCommand.SMTPPort)), "--allow-private-targets", "--mail-from", "probe@prober.example",
		"--egress", "127.0.0.1=mx.prober.example", "--providers", budgets, "--"}
	var words bytes.Buffer
	verify := harness.Command(t.Context(), append(args, addresses...)...)
	verify.Stderr = &words
	out, err := verify.Output()
	require.NoError(t, err, words.String())
	var want []map[string]any
	for line := range strings.Lines(string(out)) {
		want = append(want, comparableResult(t, []byte(line)))
	}

	v, err := probity.New(probity.Config{MailFrom: "probe@prober.example", Providers: budgets,
		Sources:   []probity.Source{{EHLO: "mx.prober.example", Local: netip.MustParseAddr("127.0.0.1")}},
		Resolvers: []netip.AddrPort{ofLibrary.DNS}, SMTPPort: ofLibrary.SMTPPort, AllowPrivateTargets: true})
	require.NoError(t, err)
	var got []map[string]any
	statuses := map[probity.Status]int{}
	for r, err := range v.VerifyAll(t.Context(), slices.Values(addresses)) {
		require.NoError(t, err)
		line, err := json.Marshal(r)
		require.NoError(t, err)
		got = append(got, comparableResult(t, line))
		statuses[r.Status]++
	}
	require.NoError(t, v.Close())
	require.Equal(t, want, got)
	for _, s := range []probity.Status{probity.Valid, probity.Risky, probity.Invalid} {
		require.NotZero(t, statuses[s], "%v", statuses)
	}
}

// steadyAddresses are the first addresses of a list whose truth is one outcome.
func steadyAddresses(t *testing.T, w *world.World) (addresses []string) {
	column := -1
	harness.EachRow(t, w, 5000, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
			return true
		}
		if email := cells[column]; email != "" && len(w.Truth(email)) == 1 {
			addresses = append(addresses, strings.Clone(email))
		}
		return len(addresses) < libraryRows
	})
	require.Len(t, addresses, libraryRows)
	return addresses
}

// comparableResult is a verification result less what differs from one run to the next. The score does by a few points:
// how soon a control followed a reply depends on what was under way.
func comparableResult(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var full map[string]any
	require.NoError(t, json.Unmarshal(line, &full))
	same := map[string]any{}
	for _, key := range []string{"email", "status", "reason", "syntax_valid", "domain_exists", "smtp_valid",
		"is_disposable", "is_role_based", "is_free_email", "smtp_provider", "mx_records"} {
		if full[key] != nil {
			same[key] = full[key]
		}
	}
	return same
}
