// Package detector spares tests the race detector. The tests that call Spare or SpareByDay are the ones that make test
// runs in a part of their own, without it: tools/spared.sh finds the calls in the sources.
package detector

import (
	"os"
	"testing"
)

// during is the part of the tests that runs: "day" in make test-race, also where the detector does not build; "night"
// in make race.
var during = os.Getenv("PROBITY_RACE")

// Spare skips a test under the race detector, always: a pace that would not be its own; a fleet or a kill of processes,
// which a test in virtual time stands for; a bubble of virtual hours, which takes half a minute and more with it.
func Spare(t *testing.T) {
	t.Helper()
	if On || during == "day" {
		t.Skip("make test-calm runs it, without the race detector")
	}
}

// SpareByDay skips a test under the race detector except at night: with it the test takes a quarter of a minute and
// more, for interleavings that shorter tests of the same code have too.
func SpareByDay(t *testing.T) {
	t.Helper()
	if On && during != "night" || during == "day" {
		t.Skip("make test-calm runs it without the race detector, and make race with it")
	}
}
