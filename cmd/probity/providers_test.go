package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// runCommand parses args as the flags of a command of its own and runs it.
func runCommand(t *testing.T, command any, args ...string) (string, error) {
	var out bytes.Buffer
	con := &console.IO{In: strings.NewReader(""), Out: &out, Err: &out}
	parser, err := kong.New(command, kong.Bind(con), kong.BindTo(t.Context(), (*contextType)(nil)))
	require.NoError(t, err)
	parsed, err := parser.Parse(args)
	require.NoError(t, err)
	err = parsed.Run()
	return out.String(), err
}

func overrides(t *testing.T, text string) string {
	name := filepath.Join(t.TempDir(), "mine.toml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestProvidersCheckNamesKeyAndLine(t *testing.T) {
	name := overrides(t, "[[provider]]\nid = \"google\"\n[provider.limits]\nconnection = 3\n")
	out, err := runCommand(t, &providersCmd{}, "check", name)
	require.ErrorIs(t, err, errBadFile)
	require.Contains(t, out, name+":4: provider.limits.connection: fail: unknown key")
}

func TestProvidersCheckWarnsOfLooserBudgets(t *testing.T) {
	name := overrides(t, "[[provider]]\nid = \"google\"\n[provider.limits]\nconnections = 30\n")
	out, err := runCommand(t, &providersCmd{}, "check", name)
	require.NoError(t, err)
	require.Contains(t, out, name+":4: provider.limits.connections: warn: google: connections = 30 is looser than 5, shipped")
	require.Contains(t, out, "good, 1 warning")
	_, err = runCommand(t, &providersCmd{}, "check", "--strict", name)
	require.ErrorIs(t, err, errBadFile)
	out, err = runCommand(t, &providersCmd{}, "check", "--json", name)
	require.NoError(t, err)
	var remark struct {
		Line     int
		Severity string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &remark))
	require.Equal(t, 4, remark.Line)
	require.Equal(t, "warn", remark.Severity)
}

func TestProvidersShow(t *testing.T) {
	out, err := runCommand(t, &providersCmd{}, "show")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^google +on +wide +- +5 .* 20\d\d-\d\d-\d\d `, out)
	require.Regexp(t, `(?m)^google/no-such-user .* 20\d\d-\d\d-\d\d +\S`, out)
	require.Regexp(t, `(?m)^generic/\S+ .* 20\d\d-\d\d-\d\d +\S`, out)

	out, err = runCommand(t, &providersCmd{}, "show", "gmail", "--providers",
		overrides(t, "[[provider]]\nid = \"google\"\nprobe = \"off\"\n"))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^probe +off$`, out)
	require.NotContains(t, out, "yahoo")

	out, err = runCommand(t, &providersCmd{}, "show", "microsoft365")
	require.NoError(t, err)
	require.Contains(t, out, "microsoft365/edge-blocked\n  means   no_mailbox, blame recipient, action none\n  when    code 550\n  when    enhanced 5.4.1\n  when    text access denied\n  source  ")

	out, err = runCommand(t, &providersCmd{}, "show", "microsoft365/edge-blocked")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(out, "microsoft365/edge-blocked\n  means   no_mailbox"), out)
	require.Equal(t, 1, strings.Count(out, "  means "))
	require.Contains(t, out, "\n  source  ")

	for asked, reported := range map[string]string{"nobody-knows": `no provider is known as "nobody-knows"; see`,
		"gogle":              "did you mean google?",
		"google/no-such-usr": "did you mean google/no-such-user?", "session/timeout": "the program's own"} {
		_, err = runCommand(t, &providersCmd{}, "show", asked)
		require.ErrorIs(t, err, console.ErrUsage)
		require.ErrorContains(t, err, reported)
	}
}

func TestProvidersShowJSONIsTheWholeTable(t *testing.T) {
	out, err := runCommand(t, &providersCmd{}, "show", "--json")
	require.NoError(t, err)
	var table struct {
		Providers []struct {
			ID, Source, Date string
			Limits           map[string]int
			Rules            []struct {
				ID, Source, Date, Pattern   string
				Stage, Code, Enhanced, Text []string
			}
		}
		Rules []struct{ ID, Source, Date string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &table))
	require.Greater(t, len(table.Providers), 20)
	require.Len(t, table.Providers[0].Limits, 8)
	for _, p := range table.Providers {
		require.NotEmpty(t, p.Source, p.ID)
		for _, r := range p.Rules {
			require.NotEmpty(t, r.Date, r.ID)
			require.NotEmpty(t, r.Pattern+strings.Join(slices.Concat(r.Stage, r.Code, r.Enhanced, r.Text), ""), r.ID)
		}
	}
	require.NotEmpty(t, table.Rules)
}
