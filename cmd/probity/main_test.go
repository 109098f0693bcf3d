package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"probity/tests/harness"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"probity": main, harness.FaultyDiskProgram: faultyDiskMain})
}

// TestScripts runs the command line as a user would: each script in testdata/script is one story.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: passDetectorOptions})
}

// passDetectorOptions lets the programs of a script have the race detector's options.
func passDetectorOptions(e *testscript.Env) error {
	e.Setenv("GORACE", os.Getenv("GORACE"))
	return nil
}
