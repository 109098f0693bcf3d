package house_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the module's root: the paths that they read, and those that pages name, begin there.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
