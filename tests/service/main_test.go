package service_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"probity/tests/harness"
)

func TestMain(m *testing.M) {
	testscript.Main(withPrograms{m}, map[string]func(){killedErasureProgram: killedErasureMain})
}

// withPrograms runs tests with the program on the path, also on a faulty disk.
type withPrograms struct{ *testing.M }

func (w withPrograms) Run() int { return harness.MainWithFaultyDisk(w.M) }
