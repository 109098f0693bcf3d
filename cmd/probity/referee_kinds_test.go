package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
	"probity/engine"
)

// TestRefereeKnowsTheKinds compares the kinds of receivers of the simulated internet with those of the shipped table.
func TestRefereeKnowsTheKinds(t *testing.T) {
	for _, p := range persona.All() {
		if provider := engine.DefaultTable().Provider(p.Provider); provider != nil {
			require.Equal(t, provider.Kind.String(), p.Kind(), provider.ID)
		}
	}
}
