package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/engine"
)

// TestRefereeKnowsWhoIsWide compares whom the pretend internet lets many sources ask with whom the shipped table does.
func TestRefereeKnowsWhoIsWide(t *testing.T) {
	for _, persona := range sim.Personas() {
		if p := engine.DefaultTable().Provider(persona.Provider); p != nil {
			require.Equal(t, p.Wide, persona.Wide(), p.ID)
		}
	}
}
