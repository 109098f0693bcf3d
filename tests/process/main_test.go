package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"probity/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}
