package receivers

import (
	"os"
	"testing"

	"probity/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
