package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"probity": main, faultyDiskProgram: faultyDiskMain, killedErasureProgram: killedErasureMain})
}

// TestScripts runs the command line as a user would: each script in testdata/script is one story.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
