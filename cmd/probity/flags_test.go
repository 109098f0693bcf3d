package main

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestWrongFlags gives each command invalid flags: exit status 2, the flag's name in the error, and no files left.
func TestWrongFlags(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end() // an accepted command ends at once
	const anything = "serve coordinator prober"
	for _, c := range []struct{ commands, flag string }{
		{"serve coordinator", "--public-url=verify.example.com"},
		{"serve", "--public-url=ftp://verify.example.com"},
		{"serve", "--public-url=https://ann@verify.example.com"},
		{"serve", "--public-url=https://verify.example.com/?a=b"},
		{"serve coordinator", "--cors-origin=www.example.com"},
		{"serve", "--cors-origin=https://www.example.com/page"},
		{"serve", "--cors-origin=*"},
		{"serve coordinator", "--facades=kickbox,kickboxx"},
		{"serve coordinator", "--results-to=s3://Results --s3-credentials=key"},
		{"serve", "--results-to=s3://results"},
		{"serve", "--s3-credentials=key"},
		{"serve", "--s3-endpoint=s3.example.com"},
		{"serve coordinator", "--listen=8080"},
		{"serve", "--listen=127.0.0.1:99999"},
		{anything, "--admin-listen=127.0.0.1"},
		{"serve coordinator", "--retain-results=31d"},
		{"serve coordinator", "--retain-results=23h"},
		{"serve coordinator", "--retain-results=week"},
		{"serve coordinator", "--retain-history=1d"},
		{anything, "--retain-cache=32d"},
		{"coordinator", "--retain-cache=7d"},
		{"serve", "--trusted-proxy=192.0.2.1"},
		{"serve", "--allow-private-callbacks=10.0.0.0"},
		{"serve", "--callback-source=host"},
		{"serve", "--callback-source=203.0.113.7"},
		{"serve", "--admin-email=nobody"},
		{"serve", "--acme-domain=verify.example.com:443"},
		{"serve", "--acme-domain=*"},
		{"serve", "--acme-directory=authority.example"},
		{"serve", "--tls-cert=gone.crt --tls-key=gone.key"},
		{"serve", "--providers=gone.toml"},
		{anything, "--providers=flags_test.go"},
		{anything, "--smtp-port=0"},
		{anything, "--socks5=127.0.0.1:socks"},
		{anything, "--mail-from=probe"},
		{anything, "--dns=resolver"},
		{"serve prober", "--egress=127.0.0.1=mx"},
		{"serve prober", "--egress=127.0.0.1=mx.example.org --egress=127.0.0.1=mx2.example.org"},
		{"serve prober", "--egress=203.0.113.7=mx.example.org"},
		{"coordinator prober", "--cluster-listen=7946"},
		{"coordinator prober", "--cluster-advertise=host"},
		{"coordinator prober", "--join=member"},
		{"coordinator prober", "--name=One_Two"},
		{"prober", "--node-listen=7947"},
		{"prober", "--node-advertise=host"},
	} {
		for _, command := range strings.Fields(c.commands) {
			t.Run(command+" "+c.flag, func(t *testing.T) {
				data := filepath.Join(t.TempDir(), "data")
				var words bytes.Buffer
				args := []string{command, "--data", data, "--admin-email", "admin@localhost.localdomain"}
				if command == "prober" {
					args = args[:3]
				}
				code := run(over, append(args, strings.Fields(c.flag)...),
					&console.IO{In: strings.NewReader(""), Out: &words, Err: &words})
				require.Equal(t, 2, code, words.String())
				name, _, _ := strings.Cut(c.flag, "=")
				require.Contains(t, words.String(), name)
			})
		}
	}
}

// TestNumbersAreToldPlainly: a flag that is not a number says what to write, and a negative one is judged by its
// command.
func TestNumbersAreToldPlainly(t *testing.T) {
	for args, want := range map[string]string{
		"sim list --rows -5":                        "sim list: --rows must be above zero",
		"sim list --rows many":                      `--rows: "many": write a whole number of at most 18 digits`,
		"sim list --rows 1000000000000000000000":    `--rows: "1000000000000000000000": write a whole number of at most 18 digits`,
		"sim list --rows":                           "--rows: its value is missing",
		"sim list --seed -1":                        `--seed: "-1": write a whole number from 0, of at most 19 digits`,
		"sim serve --speedup -1":                    "--speedup -1; give 0 for no limits, or a positive number",
		"sim serve --speedup fast":                  `--speedup: "fast": write a number such as 10 or 0.5`,
		"sim serve --speedup NaN":                   `--speedup: "NaN": write a number such as 10 or 0.5`,
		"sim providers --speedup -1":                "--speedup -1; give 0 for no limits, or a positive number",
		"user add ann@example.org --credits -5":     "user add: --credits -5: give a number from 0",
		"verify ann@example.org --smtp-port 99999":  `--smtp-port: "99999" is not a port; write a number from 1 to 65535`,
		"verify ann@example.org --smtp-port 0":      "--smtp-port 0: give the port that mail servers listen at, 25 on the internet",
		"verify ann@example.org --concurrency -1":   `--concurrency: "-1": give a number of sessions from 1, or leave it out`,
		"verify ann@example.org --concurrency 0":    `--concurrency: "0": give a number of sessions from 1, or leave it out`,
		"verify ann@example.org --timeout -5s":      "verify: --timeout must be above zero",
		"verify ann@example.org --retry-schedule -": `--retry-schedule: "-" is not a length of time; write for example 30s, 5m or 1h30m`,
	} {
		var out, words bytes.Buffer
		require.Equal(t, 2, run(t.Context(), strings.Fields(args),
			&console.IO{In: strings.NewReader(""), Out: &out, Err: &words}), args)
		require.Contains(t, words.String(), want, args)
		for _, raw := range []string{"expected", "perhaps", " bit "} {
			require.NotContains(t, words.String(), raw, args)
		}
	}
}

// TestDuplicateEgressSourceIsRefused: two sources of one name would use its budgets twice. It is refused before any
// file is made.
func TestDuplicateEgressSourceIsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	var words bytes.Buffer
	code := run(t.Context(), []string{"prober", "--data", data, "--egress", "127.0.0.1=mx.example.org", "--egress",
		"127.0.0.2/127.0.0.1=mx.example.org"},
		&console.IO{In: strings.NewReader(""), Out: &words, Err: &words})
	require.Equal(t, 2, code, words.String())
	require.Contains(t, words.String(), "--egress: 127.0.0.1 is given twice; give each source once")
	require.NoDirExists(t, data)
}

// TestWholeNumbersNeverWrap: a number that an int of this machine has no room for is refused.
func TestWholeNumbersNeverWrap(t *testing.T) {
	for _, want := range []int64{math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64} {
		n, err := parseWhole[int](strconv.FormatInt(want, 10))
		if int64(int(want)) != want {
			require.ErrorIs(t, err, strconv.ErrRange)
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, want, n)
	}
}
