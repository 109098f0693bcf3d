package httpd

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentsHaveEveryErrorStatus: the table of docs/api.md and the description know each status that a refusal can
// have.
func TestDocumentsHaveEveryErrorStatus(t *testing.T) {
	table, err := os.ReadFile("../../docs/api.md")
	require.NoError(t, err)
	description, err := os.ReadFile("../openapi.yaml")
	require.NoError(t, err)
	for _, status := range kindStatus {
		require.Regexp(t, fmt.Sprintf("(?m)^\\|.*`%d`.*\\|$", status), string(table))
		require.Regexp(t, fmt.Sprintf("[\"`]%d[\"`]", status), string(description))
	}
}
