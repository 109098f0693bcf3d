package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/nodeflags"
)

// TestRespectTermsIsAFlag of every command that probes, and a variable and a key of the configuration file.
func TestRespectTermsIsAFlag(t *testing.T) {
	for _, command := range [][]string{{"serve"}, {"prober"}, {"verify", "-"}, {"doctor"}} {
		_, k := newCLI(t)
		got, err := k.Parse(append(command, "--respect-terms"))
		require.NoError(t, err, command)
		var variables []string
		for _, f := range got.Flags() {
			if f.Name == "respect-terms" {
				variables = append(variables, f.Envs...)
			}
		}
		require.Equal(t, []string{"PROBITY_RESPECT_TERMS"}, variables, command)
	}
	for _, flags := range []nodeflags.Probing{{}, {RespectTerms: true}} {
		table, err := flags.Table()
		require.NoError(t, err)
		require.Equal(t, !flags.RespectTerms, table.Provider("outlook").Probe)
		require.True(t, table.Provider("google").Probe)
		require.Equal(t, flags.RespectTerms, table.Hash() != engine.DefaultTable().Hash())
	}
}
