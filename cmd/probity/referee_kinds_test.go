package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/engine"
)

// TestRefereeKnowsTheKinds compares the kinds of receivers of the simulated internet with those of the shipped table.
func TestRefereeKnowsTheKinds(t *testing.T) {
	for _, persona := range sim.All() {
		if p := engine.DefaultTable().Provider(persona.Provider); p != nil {
			require.Equal(t, p.Kind.String(), persona.Kind(), p.ID)
		}
	}
}
